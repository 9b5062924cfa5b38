/**
 * Holds the documentation to the code: the manual has every parameter, error,
 * member and limit, examples show what the program prints, and links lead somewhere. The lists of
 * the manual that are made here of the tables of the program are written again by GOLDEN=write.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { entitlementsOf, limitRulesOf } from '../src/access/entitlements.ts'
import { type Caller, DEMO_KEY, newKey, TEMP_PREFIX } from '../src/access/key.ts'
import type { Plan } from '../src/access/plan.ts'
import { ERRORS } from '../src/api/errors.ts'
import { COMMANDS } from '../src/cli/program.ts'
import { flagOf, SETTINGS, type SettingName } from '../src/config/settings.ts'
import { builtIn, DEMO, temp } from './support/limits.ts'
import { fileOf, listBelow, manual, TOPICS } from './support/manual.ts'
import { HAS_PROMTOOL, promtool } from './support/metrics.ts'
import { proxylist, ROOT } from './support/program.ts'
import { startChild } from './support/service.ts'
import { cleanUp, temporaryDirectory } from './support/temporary.ts'

afterAll(cleanUp)

/** The manual is read in a terminal, too. */
const COLUMNS_MAX = 100

const quoted = (text: string): string => `\`${text}\``
const withoutDot = (text: string): string => text.replace(/\.$/, '')

/** An item of a list, in lines of at most COLUMNS_MAX characters; a code span is never divided. */
function item(text: string): string {
  const lines = ['-']
  for (const word of text.match(/(?:`[^`]*`|\S)+/g) ?? []) {
    const line = `${lines.at(-1)} ${word}`
    if (line.length <= COLUMNS_MAX) lines[lines.length - 1] = line
    else lines.push(`  ${word}`)
  }
  return lines.join('\n')
}
const list = (texts: readonly string[]): string => texts.map(item).join('\n')

/** The parts of the OpenAPI document that the manual has too. */
type Schema = {
  type: string
  enum?: readonly string[]
  items?: { enum?: readonly string[] }
  default?: unknown
}
type Document = {
  paths: {
    '/api': { get: { parameters: { name: string; description: string; schema: Schema }[] } }
  }
  components: { schemas: { Proxy: { properties: { [name: string]: { description: string } } } } }
}

/** Options of every command that uses data. */
const GRANTED: readonly SettingName[] = ['data', 'database', 'databaseTimeout']

function parameterList({ paths, components }: Document): string {
  const members = Object.keys(components.schemas.Proxy.properties)
  const valuesOf = (values: readonly string[]): string =>
    values.length === members.length ? 'members' : values.join(', ')
  /** What a parameter accepts, where its description does not say so. */
  function formOf({ type, enum: values, items, default: usual }: Schema): string {
    if (values?.join() === '1,0') return usual === '1' ? 'flag; default 1' : 'flag'
    const form = values === undefined ? type : valuesOf(values)
    const list = items?.enum === undefined ? 'list' : `list of ${valuesOf(items.enum)}`
    return `${type === 'array' ? list : form}${usual === undefined ? '' : `; default ${usual}`}`
  }
  return list(
    paths['/api'].get.parameters.map(
      ({ name, description, schema }) =>
        `${quoted(name)} (${formOf(schema)}): ${withoutDot(description)}`,
    ),
  )
}

const memberList = ({ components }: Document): string =>
  list(
    Object.entries(components.schemas.Proxy.properties).map(
      ([name, { description }]) => `${quoted(name)}: ${withoutDot(description)}`,
    ),
  )

/** The errors of the public listener, by their status. */
const errorList = list(
  Object.entries(ERRORS)
    .sort(([, one], [, other]) => one.status - other.status)
    .map(([code, { status, en }]) => `${status} ${quoted(code)}: ${withoutDot(en)}`),
)

const readmeOf = (folder: string): string => readFileSync(join(ROOT, folder, 'README.md'), 'utf8')
/** What users read: README.md and the topics of the manual. */
const DOCS = [readmeOf('.'), ...TOPICS.map(manual)].join('\n')

describe('the manual', () => {
  test('lists the API errors', () => expect(listBelow('api', 'Errors', errorList)).toBe(errorList))

  const routes = ['/', '/api', '/key', '/stats', '/openapi.json', '/docs', '/healthz', '/readyz']
  test.each(routes)('documents the route %s', path =>
    expect(manual('api')).toMatch(new RegExp(`GET ${path}[\`?]`)),
  )

  test('names the options of every command that uses data', () => {
    const granted = GRANTED.map(name => `\`${flagOf(name).replace(/ .*/, '')}\``)
    expect(manual('commands')).toContain(
      `take ${granted.join(', ').replace(/, (?=[^,]*$)/, ' and ')}`,
    )
    const without = (setting: SettingName): string[] =>
      COMMANDS.filter(({ settings }) => !settings.includes(setting)).map(({ name }) => name)
    expect(without('data')).toEqual([
      ...['judge', 'systemd-unit', 'completions', 'health', 'nodes', 'version', 'help'],
    ])
    expect(without('database')).toEqual([
      ...['judge', 'check explain', 'console', 'systemd-unit'],
      ...['completions', 'health', 'version', 'help'],
    ])
    expect(without('databaseTimeout')).toEqual(without('database'))
  })

  test.if(HAS_PROMTOOL)('has a configuration that Prometheus accepts', async () => {
    const [, yaml = ''] = /```yaml\n(# prometheus\.yml\n.*?)```/s.exec(manual('metrics')) ?? []
    const file = join(temporaryDirectory(), 'prometheus.yml')
    writeFileSync(file, yaml)
    expect(await promtool(['check', 'config', '--syntax-only', file])).toBe('')
  })
})

describe.each(TOPICS)('the topic %s', topic => {
  const [title, summary = '', ...rest] = manual(topic).split('\n\n')

  test('has a title, a summary and a place in README.md', () => {
    expect(title).toMatch(/^# .+$/)
    expect(summary).toMatch(/^[^\n]+\.$/)
    expect(readmeOf('.')).toContain(`[${topic}](${fileOf(topic)})`)
  })

  test('fits a terminal: its prose has no links and no line over 100 characters', () => {
    const prose = rest.join('\n\n').replace(/^```.*?^```/gms, '')
    expect(prose.split('\n').filter(line => [...line].length > COLUMNS_MAX)).toEqual([])
    expect(prose).not.toMatch(/\]\(/)
  })

  test('names only files of this project that exist', () => {
    const named = [...manual(topic).matchAll(/`(data\/[^`]+)`/g)].map(([, path = '']) => path)
    expect(named.filter(path => !existsSync(join(ROOT, path)))).toEqual([])
  })
})

/** The rows of the table with this header, as cells. */
function tableOf(...header: readonly string[]): string[][] {
  const [, rest = ''] = DOCS.split(`\n| ${header.join(' | ')} |\n`)
  const [table = ''] = rest.split('\n\n')
  const [, ...rows] = table.split('\n')
  return rows.map(row =>
    row
      .slice(1, -1)
      .split('|')
      .map(cell => cell.trim()),
  )
}

const TEMPORARY = temp('')

/** A plan's row of the table of limits. */
function planRow({ name, burst, daily, subnets, clients, count }: Plan): string[] {
  const number = (limit: number | null) => limit?.toLocaleString('en-US') ?? 'unlimited'
  const also = [
    subnets !== null && `proxies from at most ${number(subnets)} /16 networks a day`,
    clients !== null && `clients from ${number(clients)} different networks a day`,
  ]
  return [
    `plan ${quoted(name)}`,
    burst === null ? 'unlimited' : `${burst.requests} in ${burst.seconds} s`,
    number(daily),
    number(count),
    also.filter(text => text !== false).join('; '),
  ]
}

/** The one window that all limit rules of a caller have: `2 in 60 s`. */
function windowOf(caller: Caller): string {
  const windows = limitRulesOf(caller, '192.0.2.1').map(
    ({ window }) => `${window?.limit} in ${(window?.ms ?? 0) / 1000} s`,
  )
  return [...new Set(windows)].join(' or ')
}

describe('the manual’s table of limits', () => {
  const rows = tableOf('key', 'burst', 'a day', 'records', 'also')
  const demo = entitlementsOf(DEMO)
  const expected = [
    ...[builtIn('standard'), builtIn('classic')].map(planRow),
    [
      quoted(DEMO_KEY),
      `${windowOf(DEMO)}, per client address`,
      '',
      `${demo.countMax}`,
      `last two octets 0; \`works=${demo.worksDefault}\` by default`,
    ],
    [
      quoted(`${TEMP_PREFIX}…`),
      `${windowOf(TEMPORARY)}, per key and per client address`,
      '',
      `${entitlementsOf(TEMPORARY).countMax}`,
      'expires',
    ],
  ]
  test('has these keys and no others', () => expect(rows.sort()).toEqual(expected.toSorted()))

  test('agrees with the table in README.md', () => {
    const short = tableOf('plan', 'requests', 'records in an answer', 'also')
    expect(short.map(([plan]) => plan)).toEqual(['standard', 'classic', 'demo', 'temp'].map(quoted))
    short.forEach(([, requests, records], index) => {
      const [, burst = '', daily = '', count] = expected[index] ?? []
      expect(requests).toStartWith(burst.replace(/,.*/, '').replace('in 3600 s', 'per hour'))
      if (daily !== '') expect(requests).toEndWith(`${daily} a day`)
      expect(records).toBe(count)
    })
  })
})

/** The lines that are shown below a command typed at a prompt. */
function shownBelow(command: string): string {
  const [, rest = ''] = DOCS.split(`\n$ ${command}\n`)
  const [lines = ''] = rest.split(/^(?:\$ |```)/m)
  return lines
}

describe('the examples of the server that `make run` starts', () => {
  const [, url = ''] = /^\$ curl '([^']*)'$/m.exec(DOCS) ?? []
  const [, refused = ''] = /\$ curl 'http:\/\/[^/]*([^']*)'( +# .*third.*)\n/.exec(DOCS) ?? []
  let server: Awaited<ReturnType<typeof startChild>>
  beforeAll(async () => {
    server = await startChild(temporaryDirectory(), {}, ['--sample'])
  })
  const ask = async (path: string): Promise<string> => (await server.request(path)).text

  test('use its address and the key demo', () => {
    const run = /^run:.*\n\t.* serve (.*)$/m.exec(readFileSync(join(ROOT, 'Makefile'), 'utf8'))
    expect(run?.[1]).toStartWith('--sample')
    expect(url).toStartWith(`http://${SETTINGS.listen.fallback}/api?`)
    expect(new URL(url).searchParams.get('key')).toBe(DEMO_KEY)
  })

  test('show the answers of the sample list', async () => {
    const { pathname, search } = new URL(url)
    const shown = shownBelow(`curl '${url}'`)
    expect(shown).not.toBeEmpty()
    expect(await ask(pathname + search)).toBe(shown)
  })

  test('has the parameters and members of the OpenAPI document in the manual', async () => {
    const document = JSON.parse(await ask('/openapi.json'))
    const parameters = parameterList(document)
    expect(listBelow('api', 'Parameters', parameters)).toBe(parameters)
    const members = memberList(document)
    expect(listBelow('api', 'Record', members)).toBe(members)
    const names = document.paths['/api'].get.parameters.map(({ name }: { name: string }) => name)
    const [, screen = ''] = readmeOf('.').split('| filters |')
    expect(names.filter((name: string) => !screen.includes(quoted(name)))).toEqual([])
  })

  test('show the report of /key', async () => {
    const [, command = '', path = ''] = /^\$ (curl -H .*8080(\/\S*))$/m.exec(DOCS) ?? []
    const shown = shownBelow(command)
    const init = { headers: { authorization: 'Bearer demo', 'x-forwarded-for': '192.0.2.77' } }
    expect(shown).toBe(`${(await server.request(path, init)).text}\n`)
  })

  test('show the error for an unknown parameter', async () => {
    const [, command = '', query = ''] =
      /^\$ (curl '[^']*(\/api\?[^']*contry[^']*)')$/m.exec(DOCS) ?? []
    const { timestamp, ...shown } = JSON.parse(shownBelow(command))
    expect(JSON.parse(await ask(query))).toEqual({ ...shown, timestamp: expect.any(String) })
    expect(new Date(timestamp).toJSON()).toBe(timestamp)
  })

  test('show the error for the third request within a minute', async () => {
    const [, shown = ''] = DOCS.split(/# .*third.*\n/)
    await ask(refused)
    const seen = JSON.parse(await ask(refused))
    const { timestamp, ...rest } = JSON.parse(shown.split('\n')[0] ?? '')
    expect({ ...rest, timestamp: seen.timestamp }).toEqual(seen)
    expect(new Date(timestamp).toJSON()).toBe(timestamp)
  })
})

/** The id of the first customer's key in the documentation. */
const SHOWN_ID = 'wsu5jcyw'

describe('the example with your own list', () => {
  const cwd = temporaryDirectory()
  const [, csv = ''] = /cat >my\.csv <<'END'\n(.*?)END\n/s.exec(DOCS) ?? []
  writeFileSync(join(cwd, 'my.csv'), csv)
  /** A command's output on both streams, and what the documentation shows of it, as `form` leaves it. */
  async function expectShown(args: string, form: (text: string) => string, id = ''): Promise<void> {
    const words = [...args.matchAll(/"([^"]*)"|(\S+)/g)].map(([, text, word]) => text ?? word ?? '')
    const typed = words.map(word => (word === SHOWN_ID ? id : word))
    const { stdout, stderr } = await proxylist(typed, { cwd })
    const shown = shownBelow(`./proxylist ${args}`)
    expect(shown).not.toBeEmpty()
    expect(form(stderr + stdout)).toBe(form(shown))
  }
  const withoutNumbers = (text: string): string =>
    text.replace(/(before-restore-\w+-)\w+/g, '$1').replace(/\d[\d,]*/g, 'N')

  test('has the output of import', () => expectShown('import my.csv', text => text))
  const withoutKeys = (text: string): string =>
    text
      .replace(/^(key )?[a-z\d]{8}(?=[ :])/gm, '$1ID')
      .replace(/\bpl_\w{32}\b/, 'KEY')
      .replace(/\bpl_\w{5}…/g, 'PREFIX')
  test('has the output of keys add', () =>
    expectShown('keys add --label "first customer"', withoutKeys))
  test('has the output of serve', () =>
    expect(shownBelow('./proxylist serve')).toBe(
      `listening on http://${SETTINGS.listen.fallback}\n`,
    ))
  const withoutTimes = (text: string): string => text.replace(/\d{4}-[\d-]+T[\d:.]+Z/g, 'TIME')
  test('has the output of fetch', () => expectShown('fetch --feed my.csv', withoutTimes))
  test('has the output of backup', () => expectShown('backup backup.tar', withoutNumbers))
  test('has the output of restore', () => expectShown('restore backup.tar --force', withoutNumbers))

  test('has the output of plans and keys', async () => {
    // Keys of one instant are listed in the order of their ids, which are random.
    const form = (text: string): string =>
      withoutTimes(withoutKeys(text)).split('\n').sort().join('\n')
    const list = ['keys', 'list', '--json']
    const [{ id }] = JSON.parse((await proxylist(list, { cwd })).stdout) as [{ id: string }]
    const commands = [...DOCS.matchAll(/^\$ \.\/proxylist ((?:plans|keys) .*)$/gm)]
      .map(([, command = '']) => command)
      .filter(command => !/^keys add --label/.test(command))
    expect(commands).toHaveLength(3)
    for (const command of commands) await expectShown(command, form, id)
  })

  test('has the record that was imported', async () => {
    const [, query = '', json = ''] = /&(country=de&get=json)'\n(.*?)```/s.exec(DOCS) ?? []
    const { stdout } = await proxylist(['list', query], { cwd })
    const withoutTime = (text: string): string => text.trim().replace(/(?<="timecheck": )".*"/, '')
    expect(withoutTime(json)).toBe(withoutTime(stdout))
  })
})

test('nginx passes requests to the address of the server', () => {
  expect(DOCS).toContain(`proxy_pass http://${SETTINGS.listen.fallback};`)
})

test('the five figures agree with test/lab/results.md', () => {
  const rows = tableOf('what', 'figure', 'how it was measured')
  expect(rows).toHaveLength(5)
  const evidence = readFileSync(join(ROOT, 'test/lab/results.md'), 'utf8')
  for (const [, figure = ''] of rows) {
    const numbers = figure.match(/\d[\d.,]+\d/g) ?? []
    expect(numbers).not.toBeEmpty()
    for (const number of numbers) expect(evidence).toContain(number)
  }
})

test.each(['src', 'test'])('%s/README.md names every folder beside it', place => {
  const folders = readdirSync(join(ROOT, place), { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(({ name }) => `\`${name}/\``)
  expect(folders.filter(name => !readmeOf(place).includes(name))).toEqual([])
})

test('src/README.md names only files that exist', () => {
  const named = [...readmeOf('src').matchAll(/`([\w-]+(?:\/[\w.-]+)+\/?|\w+\.ts)`/g)]
  const places = ['src', '.', 'test/support']
  const missing = named
    .map(([, path = '']) => path)
    .filter(path => !places.some(place => existsSync(join(ROOT, place, path))))
  expect(missing).toEqual([])
})

test.each(['README.md', 'src/README.md', 'test/README.md'])(
  'links of %s lead to files that exist',
  page => {
    const text = readFileSync(join(ROOT, page), 'utf8')
    const links = [...text.matchAll(/\]\(([^)#:]+)[^):]*\)/g)].map(([, path = '']) => path)
    expect(links.filter(path => !existsSync(join(ROOT, dirname(page), path)))).toEqual([])
  },
)

describe('the gitleaks rule of the manual', () => {
  const [, toml = ''] = /```toml\n([^`]*)```/.exec(manual('security')) ?? []
  type Rules = { rules: { regex: string; keywords: string[] }[] }
  const { regex = '', keywords = [] } = (Bun.TOML.parse(toml) as Rules).rules[0] ?? {}
  const finds = (text: string): boolean =>
    keywords.some(word => text.includes(word)) && new RegExp(regex).test(text)

  test.each(['regular', 'temp'] as const)('finds %s keys anywhere in a text', kind => {
    for (let n = 0; n < 500; n += 1) {
      const key = newKey(kind)
      for (const text of [key, `?key=${key}&get=json`, `KEY="${key}"`, `Bearer ${key}\n`]) {
        expect(finds(text)).toBeTrue()
      }
    }
  })

  test.each([
    ...['pl_', 'pl_PFhW1…', `pl_${'x'.repeat(31)}`, `pl_${'x'.repeat(33)}`],
    ...[`impl_${'x'.repeat(32)}`, `pl_${'x_'.repeat(16)}`, `PL_${'x'.repeat(32)}`],
    ...[crypto.randomUUID(), 'x'.repeat(35), 'demo'],
  ])('does not find %s', text => expect(finds(text)).toBeFalse())
})
