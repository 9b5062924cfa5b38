/**
 * The request as a shell command and as programs in Python and JavaScript. Each runs as it is, reads the key
 * from the environment variable `PROXYLIST_KEY`, and prints the proxies.
 */
import { type Choice, type Form, formOf } from './query.ts'

export const CODES = ['curl', 'Python', 'Node'] as const
export type Code = (typeof CODES)[number]

type Pairs = readonly (readonly [name: string, value: string])[]

export type RequestParts = {
  /** Scheme and host of the server: `https://proxies.example.com`. */
  origin: string
  choice: Choice
  params: Pairs
  query: string
}
const isWrapped = ({ get, wrap }: Choice): boolean => /^json/.test(get) && wrap === '1'

/** A string literal of Python and JavaScript. */
const quoted = (text: string): string => JSON.stringify(text.toWellFormed())
const shellQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const pairsOf = (params: Pairs, write: (name: string, value: string) => string) =>
  params.map(([name, value]) => `${write(name, value)}\n`).join('')

export const urlOf = ({ origin, query }: RequestParts): string =>
  `${origin}/api${query === '' ? '' : `?${query}`}`

const curl = (parts: RequestParts): string =>
  `curl --fail-with-body -H "Authorization: Bearer $PROXYLIST_KEY" \\\n  ${shellQuoted(urlOf(parts))}`

const PYTHON: { [F in Form]: { imports: string; read: string } } = {
  txt: { imports: '', read: 'answer.read().decode().splitlines()' },
  json: { imports: 'json\nimport ', read: 'json.load(answer)' },
  csv: {
    imports: 'csv\nimport io\nimport ',
    read: 'list(csv.DictReader(io.StringIO(answer.read().decode(), newline="")))',
  },
  ndjson: { imports: 'json\nimport ', read: '[json.loads(line) for line in answer]' },
}

function python({ origin, params, choice }: RequestParts): string {
  const { imports, read } = PYTHON[formOf(choice)]
  const pairs = pairsOf(params, (name, value) => `    ${quoted(name)}: ${quoted(value)},`)
  const data = isWrapped(choice) ? '["data"]' : ''
  const loop =
    /^json/.test(choice.get) && choice.format === 'object'
      ? 'for address, proxy in proxies.items():\n    print(address, proxy)'
      : 'for proxy in proxies:\n    print(proxy)'
  return `import ${imports}os
import sys
import urllib.error
import urllib.parse
import urllib.request

params = {
${pairs}}
request = urllib.request.Request(
    ${quoted(`${origin}/api?`)} + urllib.parse.urlencode(params),
    headers={"Authorization": "Bearer " + os.environ["PROXYLIST_KEY"]},
)
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        proxies = ${read}${data}
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
${loop}`
}

const NODE: { [F in Form]: string } = {
  txt: `(await answer.text()).trimEnd().split('\\n')`,
  json: 'await answer.json()',
  csv: 'await answer.text()',
  ndjson: `(await answer.text()).trimEnd().split('\\n').map(line => JSON.parse(line))`,
}

function node({ origin, params, choice }: RequestParts): string {
  const pairs = pairsOf(params, (name, value) => `  ${name}: ${quoted(value)},`)
  const read = isWrapped(choice) ? '(await answer.json()).data' : NODE[formOf(choice)]
  return `// proxies.mjs
const params = new URLSearchParams({
${pairs}})
const answer = await fetch(${quoted(`${origin}/api?`)} + params, {
  headers: { Authorization: "Bearer " + process.env.PROXYLIST_KEY },
})
if (!answer.ok) throw new Error(await answer.text())
const proxies = ${read}
console.log(proxies)`
}

const WRITERS: { [C in Code]: (parts: RequestParts) => string } = {
  curl,
  Python: python,
  Node: node,
}

export const snippet = (code: Code, parts: RequestParts): string => WRITERS[code](parts)
