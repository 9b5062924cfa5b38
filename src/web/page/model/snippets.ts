/**
 * The request as programs in six languages. Each is whole: it runs as it is, with the key in
 * the environment variable `PROXYLIST_KEY`, and prints what it gets. Pure.
 */
import { type Choice, type Form, formOf, type Param } from './query.ts'

export const CODES = ['URL', 'curl', 'Python', 'Node', 'Go', 'PHP'] as const
export type Code = (typeof CODES)[number]

export type RequestParts = {
  /** Of the service: `https://proxies.example.com`. */
  origin: string
  choice: Choice
  params: readonly Param[]
  query: string
}
const isWrapped = ({ get, wrap }: Choice): boolean => /^json/.test(get) && wrap === '1'

/** A string literal of Python, JavaScript and Go. */
const quoted = (text: string): string =>
  JSON.stringify(text.toWellFormed()).replace(/[\u007f-\u009f\u2028\u2029]/g, c => {
    return `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
const shellQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const phpQuoted = (text: string): string => `'${text.replace(/['\\]/g, '\\$&')}'`
const pairsOf = (params: readonly Param[], write: (name: string, value: string) => string) =>
  params.map(([name, value]) => `${write(name, value)}\n`).join('')

const urlOf = ({ origin, query }: RequestParts): string =>
  `${origin}/api${query === '' ? '' : `?${query}`}`

const url = (parts: RequestParts): string =>
  `${urlOf(parts)}${parts.query === '' ? '?' : '&'}key=YOUR_KEY`

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

function go({ origin, params }: RequestParts): string {
  // As gofmt has it: values below each other, and braces that hold nothing on one line.
  const width = Math.max(...params.map(([name]) => name.length)) + 4
  const pairs = pairsOf(
    params,
    (name, value) => `\t\t${`${quoted(name)}:`.padEnd(width)}{${quoted(value)}},`,
  )
  const values = pairs === '' ? '{}' : `{\n${pairs}\t}`
  return `package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
)

func main() {
	params := url.Values${values}
	request, err := http.NewRequest("GET", ${quoted(`${origin}/api?`)}+params.Encode(), nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PROXYLIST_KEY"))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	proxies, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		log.Fatal(string(proxies))
	}
	fmt.Print(string(proxies))
}`
}

const PHP: { [F in Form]: string } = {
  txt: 'explode("\\n", trim($answer))',
  json: 'json_decode($answer, true)',
  csv: 'array_map(fn ($line) => str_getcsv($line, escape: ""), explode("\\r\\n", trim($answer)))',
  ndjson: 'array_map(fn ($line) => json_decode($line, true), explode("\\n", trim($answer)))',
}

function php({ origin, params, choice }: RequestParts): string {
  const pairs = pairsOf(params, (name, value) => `    ${phpQuoted(name)} => ${phpQuoted(value)},`)
  const data = isWrapped(choice) ? "['data']" : ''
  return `<?php
$params = http_build_query([
${pairs}]);
$context = stream_context_create(['http' => [
    'header' => 'Authorization: Bearer ' . getenv('PROXYLIST_KEY'),
    'ignore_errors' => true,
]]);
$stream = fopen(${phpQuoted(`${origin}/api?`)} . $params, 'r', false, $context);
if ($stream === false) {
    exit(1);
}
$answer = stream_get_contents($stream);
if (!str_contains(stream_get_meta_data($stream)['wrapper_data'][0], ' 200 ')) {
    fwrite(STDERR, $answer);
    exit(1);
}
$proxies = ${PHP[formOf(choice)]}${data};
print_r($proxies);`
}

const WRITERS: { [C in Code]: (parts: RequestParts) => string } = {
  ...{ URL: url, curl, Python: python, Node: node, Go: go, PHP: php },
}

export const snippet = (code: Code, parts: RequestParts): string => WRITERS[code](parts)

export type Token = { kind: 'text' | 'string' | 'word' | 'name'; text: string }

const GRAMMAR =
  /("(?:[^"\\\n]|\\.)*"(?=\s*:))|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?<![\w-])(import|package|func|const|await|new|if|for|in|with|as|try|except|throw|defer|return|nil|true|false|curl|exit)\b|([a-zA-Z_]\w*(?=\())|(\$[a-zA-Z_]\w*)/g
const KINDS = ['name', 'string', 'word', 'name', 'name'] as const

/** A program or JSON in pieces that are coloured alike: enough for six languages, and always all of it. */
export function tokensOf(program: string): Token[] {
  const found: Token[] = []
  let done = 0
  for (const match of program.matchAll(GRAMMAR)) {
    if (match.index > done) found.push({ kind: 'text', text: program.slice(done, match.index) })
    const group = match.slice(1).findIndex(text => text !== undefined)
    found.push({ kind: KINDS[group] ?? 'text', text: match[0] })
    done = match.index + match[0].length
  }
  if (done < program.length) found.push({ kind: 'text', text: program.slice(done) })
  return found
}
