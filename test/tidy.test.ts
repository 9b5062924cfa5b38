/** Holds the rules of the house: what may import, read and name what, and that the README is complete. */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Caller, DEMO_KEY, metersOf, TEMP_PREFIX, termsOf } from '../src/access/access.ts'
import { FAILURE_DELAY_MS, FAILURES_FREE, FAILURES_WINDOW_MS } from '../src/access/auth-throttle.ts'
import { BUILT_IN_PLANS, type Plan } from '../src/access/plan.ts'
import { STATUS } from '../src/api/errors.ts'
import { describeParameters } from '../src/api/params.ts'
import { createQuestions } from '../src/api/query.ts'
import { createRenderer, maskProxy, memberNames } from '../src/api/render.ts'
import { openList } from '../src/app.ts'
import { COMMANDS } from '../src/cli/program.ts'
import { environmentNameOf, flagOf, SETTINGS, type SettingName } from '../src/config/settings.ts'
import { loadSample } from '../src/import/sample.ts'
import { T0 } from './support/fixtures.ts'
import { ROOT } from './support/program.ts'

const SOURCES = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter(name => name.endsWith('.ts') && !name.endsWith('.d.ts'))
  .map(name => ({ name, text: readFileSync(join(ROOT, 'src', name), 'utf8') }))
const code = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')

/** Lines of code that match a pattern outside the files and folders where they belong. */
function strays(pattern: RegExp, home: readonly string[]): string[] {
  return SOURCES.filter(({ name }) => !home.some(place => name.startsWith(place))).flatMap(
    ({ name, text }) =>
      code(text)
        .split('\n')
        .filter(line => pattern.test(line))
        .map(line => `src/${name}: ${line.trim()} — belongs in src/${home.join(' or src/')}`),
  )
}

const HOMES: readonly (readonly [what: string, pattern: RegExp, home: readonly string[]])[] = [
  ['elysia', /from 'elysia/, ['http/']],
  ['bun:sqlite', /from 'bun:sqlite/, ['sqlite/']],
  ['commander', /from 'commander/, ['cli/']],
  ['TypeBox', /from '@sinclair\/typebox/, ['api/params.ts']],
  ['the clock', /Date\.now\(|new Date\(|performance\.now\(/, ['lib/time.ts']],
  ['the environment', /process\.env|Bun\.env|import\.meta\.env/, ['config/settings.ts']],
  ['the end of the process', /process\.exit\(/, ['main.ts']],
  [
    'wire names',
    /'(?:cm|split_ip|timecheck|type_prefix|country_mode|ip_out)'|\b(?:split_ip|type_prefix|country_mode)\b/,
    ['api/params.ts', 'api/render.ts', 'import/'],
  ],
]

describe('everything has one home', () => {
  for (const [what, pattern, home] of HOMES) {
    test(`${what}: only in ${home.join(', ')}`, () => {
      const allowed = what === 'wire names' ? [...home, 'sqlite/'] : home
      expect(strays(pattern, allowed)).toEqual([])
    })
  }

  test('http, sqlite and cli do not import each other, save serve', () => {
    const folders = ['http', 'sqlite', 'cli']
    const crossing = SOURCES.flatMap(({ name, text }) => {
      const own = name.split('/')[0] ?? ''
      if (!folders.includes(own) || name === 'cli/serve.ts') return []
      const others = folders.filter(folder => folder !== own)
      return others
        .filter(other => new RegExp(`from '\\.\\./${other}/`).test(text))
        .map(other => `src/${name} imports from src/${other}; go through a file at the root`)
    })
    expect(crossing).toEqual([])
  })
})

describe('files stay small', () => {
  for (const { name, text } of SOURCES) {
    test(`src/${name} opens with what it owns and is under 300 lines`, () => {
      expect(text.split('\n').length).toBeLessThanOrEqual(300)
      expect(text.replace(/^#!.*\n/, '')).toMatch(/^\/\*\*/)
    })
  }
})

test('the top level holds nothing else', () => {
  const listed = Bun.spawnSync(['git', 'ls-files'], { cwd: ROOT }).stdout.toString()
  const allowed =
    /^(?:\..*|package\.json|tsconfig\.json|bunfig\.toml|src|test|data|Makefile|README\.md|LICENSE|bun\.lock)$/
  const top = new Set(listed.split('\n').map(path => path.split('/')[0] ?? ''))
  expect([...top].filter(name => name !== '' && !allowed.test(name))).toEqual([])
})

test('dependencies are pinned to exact versions', () => {
  const { dependencies, devDependencies } = JSON.parse(
    readFileSync(join(ROOT, 'package.json'), 'utf8'),
  )
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
    expect(`${name} ${version}`).toMatch(/ \d+\.\d+\.\d+$/)
  }
})

describe('the README tells of', () => {
  for (const { name, accepts } of describeParameters('the service')) {
    test(`parameter ${name} and what it accepts`, () => {
      expect(README).toContain(`| \`${name}\` | ${accepts} |`)
    })
  }
  for (const [errorCode, status] of Object.entries(STATUS)) {
    test(`error ${errorCode}`, () => expect(README).toContain(`| ${status} | \`${errorCode}\` |`))
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
  const rows = tableOf('command', 'what it does', 'options, beside `--data`')

  for (const { name, arguments: given, summary, settings } of COMMANDS) {
    test(`has ${name}, what it does and its options`, () => {
      const usage = quoted(given === undefined ? name : `${name} ${given}`)
      const options = settings.filter(setting => setting !== 'data').map(bareFlag)
      expect(rows).toContainEqual([usage, summary, options.map(quoted).join(' ')])
    })
  }
  test('has no other command', () => expect(rows).toHaveLength(COMMANDS.length))

  test('takes `--data` for granted, which all have that touch it', () => {
    const without = COMMANDS.filter(({ settings }) => !settings.includes('data'))
    expect(without.map(({ name }) => name)).toEqual(['systemd-unit', 'version'])
  })
})

describe('the README’s table of options', () => {
  const rows = tableOf('option', 'environment', 'default', 'meaning')
  const names = Object.keys(SETTINGS) as SettingName[] // of the table itself

  for (const name of names) {
    test(`has ${flagOf(name)}, its environment twin, default and help`, () => {
      const { fallback = '', help }: { fallback?: string; help: string } = SETTINGS[name]
      const twin = quoted(environmentNameOf(name))
      expect(rows).toContainEqual([quoted(flagOf(name)), twin, fallback, help])
    })
  }
  test('has no other option', () => expect(rows).toHaveLength(names.length))
})

const DEMO: Caller = { kind: 'demo', id: DEMO_KEY }
const TEMPORARY: Caller = { kind: 'temp', id: '' }

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

/** The one window that all of a caller's meters have: `2 in 60 s`. */
function windowOf(caller: Caller): string {
  const windows = metersOf(caller, '192.0.2.1').map(
    ({ window }) => `${window?.limit} in ${(window?.ms ?? 0) / 1000} s`,
  )
  return [...new Set(windows)].join(' or ')
}

describe('the README’s table of limits', () => {
  const rows = tableOf('key', 'burst', 'a day', 'records', 'also')
  const demo = termsOf(DEMO)
  const expected = [
    ...BUILT_IN_PLANS.map(planRow),
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
      `${termsOf(TEMPORARY).countMax}`,
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

describe('the README’s first example', () => {
  const [, url = '', output] = /## Try it\n.*?\n\$ curl '([^']*)'\n(.*?)```/s.exec(README) ?? []

  test('asks the server that `make run` starts, with the key demo', () => {
    expect(url).toStartWith(`http://${SETTINGS.listen.fallback}/api?`)
    expect(createQuestions('the service')(url, null).key).toBe(DEMO_KEY)
  })

  test('shows what the sample list answers', () => {
    const list = openList(null)
    loadSample(list, readFileSync(join(ROOT, 'data/sample.ndjson'), 'utf8'), T0)
    const {
      filter,
      output: form,
      masked,
    } = createQuestions('the service')(url, null).ask(termsOf(DEMO))
    const shown = list.proxies.select(filter, masked, T0).map(maskProxy)
    expect(output).toBe(createRenderer('the service')(shown, filter, form, T0))
    expect(shown).not.toBeEmpty()
    list.close()
  })
})
