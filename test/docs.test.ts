/**
 * Holds the documentation to the code: README.md has every parameter, error, member, command,
 * option, limit and threshold, its examples show what the program prints, and its links lead somewhere.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { FAILURE_DELAY_MS, FAILURES_FREE, FAILURES_WINDOW_MS } from '../src/access/auth-throttle.ts'
import { entitlementsOf, limitRulesOf } from '../src/access/entitlements.ts'
import { type Caller, DEMO_KEY, TEMP_PREFIX } from '../src/access/key.ts'
import type { Plan } from '../src/access/plan.ts'
import { ADMIN_STATUS } from '../src/admin/errors.ts'
import { STATUS } from '../src/api/errors.ts'
import { describeParameters } from '../src/api/query.ts'
import { memberNames } from '../src/api/render.ts'
import { COMMANDS } from '../src/cli/program.ts'
import {
  defaultOf,
  environmentNameOf,
  flagOf,
  SETTINGS,
  type SettingName,
} from '../src/config/settings.ts'
import { FAMILIES } from '../src/metrics/families.ts'
import { builtIn, DEMO, temp } from './support/limits.ts'
import { fileOf, manual, TOPICS } from './support/manual.ts'
import { proxylist, ROOT } from './support/program.ts'
import { HAS_PROMTOOL, promtool } from './support/promtool.ts'
import { startChild } from './support/service.ts'
import { cleanUp, temporaryDirectory } from './support/temporary.ts'

afterAll(cleanUp)

const readmeOf = (folder: string): string => readFileSync(join(ROOT, folder, 'README.md'), 'utf8')
/** What users read: README.md and the topics of the manual. */
const README = [readmeOf('.'), ...TOPICS.map(manual)].join('\n')

/** The paths of the tables of routes in the source of the admin listener. */
const adminPaths = (): string[] =>
  ['admin/keys', 'admin/plans', 'admin/import', 'console'].flatMap(name => {
    const source = readFileSync(join(ROOT, `src/${name}.ts`), 'utf8')
    return [...source.matchAll(/'(\/console\/[^']*)'/g)].map(([, path = '']) => path)
  })

describe('README.md', () => {
  for (const { name, accepts } of describeParameters('the service')) {
    test(`parameter ${name} and what it accepts`, () => {
      expect(README).toContain(`| \`${name}\` | ${accepts} |`)
    })
  }
  for (const [errorCode, status] of Object.entries(STATUS)) {
    test(`error ${errorCode}`, () => expect(README).toContain(`| ${status} | \`${errorCode}\` |`))
  }
  for (const [errorCode, status] of Object.entries(ADMIN_STATUS)) {
    test(`error ${errorCode} of the admin listener`, () =>
      expect(README).toContain(`| ${status} | \`${errorCode}\` |`))
  }
  const routes = ['/', '/api', '/key', '/stats', '/openapi.json', '/docs', '/healthz', '/readyz']
  for (const path of routes) {
    test(`route ${path}`, () => expect(README).toMatch(new RegExp(`GET ${path}[\`?]`)))
  }
  for (const path of adminPaths()) {
    const [, whole, action] = /^(.*?)(\/\*\/\w+)?$/.exec(path) ?? []
    test(`route ${path} of the admin listener`, () => {
      expect(README).toMatch(new RegExp(`[A-Z]+ ${whole?.replace('*', '[A-Z]+')}[\`?]`))
      if (action !== undefined) expect(README).toContain(`\`${action.slice(2)}\``)
    })
  }
  for (const name of memberNames('the service')) {
    test(`record member ${name}`, () => expect(README).toContain(`| \`${name}\` |`))
  }
})

/** The rows of the README's table with this header, as cells. */
function tableOf(...header: readonly string[]): string[][] {
  const [, rest = ''] = README.split(`\n| ${header.join(' | ')} |\n`)
  const [table = ''] = rest.split('\n\n')
  const [, ...rows] = table.split('\n')
  return rows.map(row =>
    row
      .slice(1, -1)
      .split('|')
      .map(cell => cell.trim()),
  )
}

const quoted = (text: string): string => `\`${text}\``
/** A flag without its argument: `--listen`. */
const bareFlag = (name: SettingName): string => flagOf(name).replace(/ .*/, '')

describe('the README’s table of commands', () => {
  const granted = ['data', 'database', 'databaseTimeout'] as const
  const [first, ...others] = granted.map(name => quoted(bareFlag(name)))
  const rows = tableOf(
    'command',
    'what it does',
    `options, besides ${first}, ${others.join(' and ')}`,
  )

  const isGranted = (setting: SettingName): boolean => granted.some(name => name === setting)

  for (const { name, arguments: given, summary, settings } of COMMANDS) {
    test(`has ${name}, what it does and its options`, () => {
      const usage = quoted(given === undefined ? name : `${name} ${given}`)
      const options = settings.filter(setting => !isGranted(setting)).map(bareFlag)
      expect(rows).toContainEqual([usage, summary, options.map(quoted).join(' ')])
    })
  }
  test('has no other command', () => expect(rows).toHaveLength(COMMANDS.length))

  test('takes them for granted, which all have that use data; console uses that of one machine', () => {
    const without = (setting: SettingName): string[] =>
      COMMANDS.filter(({ settings }) => !settings.includes(setting)).map(({ name }) => name)
    expect(without('data')).toEqual(['systemd-unit', 'nodes', 'version', 'help'])
    expect(without('database')).toEqual(['console', 'systemd-unit', 'version', 'help'])
    expect(without('databaseTimeout')).toEqual(without('database'))
  })
})

describe('the README’s table of options', () => {
  const rows = tableOf('option', 'environment', 'default', 'meaning')
  const names = Object.keys(SETTINGS) as SettingName[] // of the table itself

  for (const name of names) {
    test(`has ${flagOf(name)}, its environment twin, default and help`, () => {
      const { help } = SETTINGS[name]
      const fallback = defaultOf(name)
      const twin = quoted(environmentNameOf(name))
      expect(rows).toContainEqual([quoted(flagOf(name)), twin, fallback, help])
    })
  }
  test('has no other option', () => expect(rows).toHaveLength(names.length))
})

describe('the README’s table of metrics', () => {
  const rows = tableOf('metric', 'type', 'labels', 'meaning')

  for (const { name, type, labels, help } of FAMILIES) {
    test(`has ${name}, its type, labels and help`, () => {
      expect(rows).toContainEqual([
        ...[quoted(name), type, labels.map(quoted).join(' ')],
        help.replace(/\.$/, ''),
      ])
    })
  }
  test('has no other metric', () => expect(rows).toHaveLength(FAMILIES.length))

  test.if(HAS_PROMTOOL)('is preceded by a configuration that Prometheus accepts', async () => {
    const [, yaml = ''] = /```yaml\n(# prometheus\.yml\n.*?)```/s.exec(README) ?? []
    const file = join(temporaryDirectory(), 'prometheus.yml')
    writeFileSync(file, yaml)
    expect(await promtool(['check', 'config', '--syntax-only', file])).toBe('')
  })
})

const TEMPORARY = temp('')

/** A plan's row of the table of limits. */
function planRow({ name, burst, daily, subnets, clients, count }: Plan): string[] {
  const number = (limit: number | null) => limit?.toLocaleString('en-US') ?? 'unlimited'
  const also = [
    subnets !== null && `${number(subnets)} unique /16 networks a day`,
    clients !== null && `${number(clients)} unique caller networks a day`,
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

describe('the README’s table of limits', () => {
  const rows = tableOf('key', 'burst', 'a day', 'records', 'also')
  const demo = entitlementsOf(DEMO)
  const expected = [
    ...[builtIn('standard'), builtIn('classic')].map(planRow),
    [
      quoted(DEMO_KEY),
      `${windowOf(DEMO)} for each client address`,
      '',
      `${demo.countMax}`,
      `last two octets are 0; \`works\` is ${demo.worksDefault} when not given`,
    ],
    [
      quoted(`${TEMP_PREFIX}…`),
      `${windowOf(TEMPORARY)} for the key, and for each client address`,
      '',
      `${entitlementsOf(TEMPORARY).countMax}`,
      'expires',
    ],
  ]
  for (const row of expected) {
    test(`has ${row[0]}`, () => expect(rows).toContainEqual(row))
  }
  test('has no other key', () => expect(rows).toHaveLength(expected.length))

  test('is followed by how wrong keys are slowed', () => {
    const seconds = FAILURES_WINDOW_MS / 1000
    expect(README.replaceAll('\n', ' ')).toContain(
      `After ${FAILURES_FREE} wrong keys from one client address within ${seconds} s, ` +
        `each further 403 to it comes ${FAILURE_DELAY_MS} ms later`,
    )
  })
})

/** The lines that README.md shows below a command typed at a prompt. */
function shownBelow(command: string): string {
  const [, rest = ''] = README.split(`\n$ ${command}\n`)
  const [lines = ''] = rest.split(/^(?:\$ |```)/m)
  return lines
}

describe('the examples of the server that `make run` starts', () => {
  const [, url = ''] = /^\$ curl '([^']*)'$/m.exec(README) ?? []
  const [, refused = ''] = /\$ curl 'http:\/\/[^/]*([^']*)'( +# .*third.*)\n/.exec(README) ?? []
  let server: Awaited<ReturnType<typeof startChild>>
  beforeAll(async () => {
    server = await startChild(temporaryDirectory(), {}, ['--sample'])
  })
  const ask = async (path: string): Promise<string> => (await server.request(path)).text

  test('ask where it listens, with the key demo', () => {
    const run = /^run:.*\n\t.* serve (.*)$/m.exec(readFileSync(join(ROOT, 'Makefile'), 'utf8'))
    expect(run?.[1]).toStartWith('--sample')
    expect(url).toStartWith(`http://${SETTINGS.listen.fallback}/api?`)
    expect(new URL(url).searchParams.get('key')).toBe(DEMO_KEY)
  })

  test('show what the sample list answers', async () => {
    const { pathname, search } = new URL(url)
    const shown = shownBelow(`curl '${url}'`)
    expect(shown).not.toBeEmpty()
    expect(await ask(pathname + search)).toBe(shown)
  })

  test('show what is published of it', async () => {
    const [, shown = ''] = /\/stats \| jq .*\n(.*)\n/.exec(README) ?? []
    const { total, cube, cities } = JSON.parse(await ask('/stats'))
    const { hidden, cell, ...rest } = JSON.parse(shown)
    expect(rest).toEqual({ total, city: cities[0] })
    // Ages move while the test runs.
    expect(Object.keys(cell)).toEqual(Object.keys(cube))
    expect(hidden).toBeLessThan(total)
  })

  test('show what /key says of a key', async () => {
    const [, command = '', path = ''] = /^\$ (curl -H .*8080(\/\S*))$/m.exec(README) ?? []
    const shown = shownBelow(command)
    const init = { headers: { authorization: 'Bearer demo', 'x-forwarded-for': '192.0.2.77' } }
    expect(shown).toBe(`${(await server.request(path, init)).text}\n`)
  })

  test('show how it refuses the third request within a minute', async () => {
    const [, shown = ''] = README.split(/# .*third.*\n/)
    await ask(refused)
    const seen = JSON.parse(await ask(refused))
    const { timestamp, ...rest } = JSON.parse(shown.split('\n')[0] ?? '')
    expect({ ...rest, timestamp: seen.timestamp }).toEqual(seen)
    expect(new Date(timestamp).toJSON()).toBe(timestamp)
  })
})

/** The id of the first customer's key in README.md. */
const SHOWN_ID = 'wsu5jcyw'

describe('the example of an own list', () => {
  const cwd = temporaryDirectory()
  const [, csv = ''] = /cat >my\.csv <<'END'\n(.*?)END\n/s.exec(README) ?? []
  writeFileSync(join(cwd, 'my.csv'), csv)
  /** A command's output on both streams, and what README.md shows of it, as `form` leaves it. */
  async function expectShown(args: string, form: (text: string) => string, id = ''): Promise<void> {
    const words = [...args.matchAll(/"([^"]*)"|(\S+)/g)].map(([, text, word]) => text ?? word ?? '')
    const typed = words.map(word => (word === SHOWN_ID ? id : word))
    const { stdout, stderr } = await proxylist(typed, { cwd })
    const shown = shownBelow(`./proxylist ${args}`)
    expect(shown).not.toBeEmpty()
    expect(form(stderr + stdout)).toBe(form(shown))
  }
  const withoutNumbers = (text: string): string => text.replace(/\d[\d,]*/g, 'N')

  test('shows what import says', () => expectShown('import my.csv', text => text))
  const withoutKeys = (text: string): string =>
    text
      .replace(/^(key )?[a-z\d]{8}(?=[ :])/gm, '$1ID')
      .replace(/\bpl_\w{32}\b/, 'KEY')
      .replace(/\bpl_\w{5}…/g, 'PREFIX')
  test('shows what keys add says', () =>
    expectShown('keys add --label "first customer"', withoutKeys))
  test('shows what serve says', () =>
    expect(shownBelow('./proxylist serve')).toBe(
      `listening on http://${SETTINGS.listen.fallback}\n`,
    ))
  test('shows what doctor says', () => expectShown('doctor', withoutNumbers))
  const withoutTimes = (text: string): string => text.replace(/\d{4}-[\d-]+T[\d:.]+Z/g, 'TIME')
  test('shows what fetch says', () => expectShown('fetch --feed my.csv', withoutTimes))
  test('shows what feeds says', () => expectShown('feeds', withoutTimes))
  test('shows what backup says', () => expectShown('backup backup.tar', withoutNumbers))
  test('shows what restore says', () => expectShown('restore backup.tar --force', withoutNumbers))

  test('shows what plans and keys say', async () => {
    // Keys of one instant are listed in the order of their ids, which are random.
    const form = (text: string): string =>
      withoutTimes(withoutKeys(text)).split('\n').sort().join('\n')
    const list = ['keys', 'list', '--json']
    const [{ id }] = JSON.parse((await proxylist(list, { cwd })).stdout) as [{ id: string }]
    const commands = [...README.matchAll(/^\$ \.\/proxylist ((?:plans|keys) .*)$/gm)]
      .map(([, command = '']) => command)
      .filter(command => !/^keys (?:show|add --label)/.test(command))
    expect(commands).toHaveLength(8)
    for (const command of commands) await expectShown(command, form, id)
  })

  test('shows the record that was imported', async () => {
    const [, query = '', json = ''] = /&(country=de&get=json)'\n(.*?)```/s.exec(README) ?? []
    const { stdout } = await proxylist(['list', query], { cwd })
    const withoutTime = (text: string): string => text.trim().replace(/(?<="timecheck": )".*"/, '')
    expect(withoutTime(json)).toBe(withoutTime(stdout))
  })
})

test('nginx passes requests to where the server listens', () => {
  expect(README).toContain(`proxy_pass http://${SETTINGS.listen.fallback};`)
})

test('the rights of the database role are those of rights.sql', () => {
  const script = readFileSync(join(ROOT, 'data/many-machines/rights.sql'), 'utf8')
  const statements = script.replace(/^--.*\n/gm, '').replace(/^\n/gm, '')
  expect(README).toContain(`\`\`\`sql\n${statements}\`\`\``)
})

test('the five figures are those of test/README.md', () => {
  const rows = tableOf('what', 'figure', 'how it was measured')
  expect(rows).toHaveLength(5)
  const evidence = readmeOf('test')
  for (const [, figure = ''] of rows) {
    const numbers = figure.match(/\d[\d.,]+\d/g) ?? []
    expect(numbers).not.toBeEmpty()
    for (const number of numbers) expect(evidence).toContain(number)
  }
})

test('test/README.md has every folder of test/', () => {
  const folders = readdirSync(join(ROOT, 'test'), { withFileTypes: true }).filter(entry =>
    entry.isDirectory(),
  )
  for (const { name } of folders) expect(readmeOf('test')).toContain(`| \`${name}/\` | `)
})

const PAGES = ['README.md', 'src/README.md', 'test/README.md', ...TOPICS.map(fileOf)]
test.each(PAGES)('links of %s lead to files that are there', page => {
  const text = readFileSync(join(ROOT, page), 'utf8')
  const links = [...text.matchAll(/\]\(([^)#:]+)[^):]*\)/g)].map(([, path = '']) => path)
  expect(links.filter(path => !existsSync(join(ROOT, dirname(page), path)))).toEqual([])
})
