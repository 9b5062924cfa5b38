/**
 * Holds the rules of the house (src/README.md): what may import, read and name what. Each failure
 * says where a line belongs. That the documentation is complete is held by `docs.test.ts`.
 */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { ROOT } from './support/program.ts'

type File = { name: string; text: string }

/** The text files below a folder of the project, or the one file of that name. */
function readTexts(place: string): File[] {
  const path = join(ROOT, place)
  const names = statSync(path).isFile()
    ? [place]
    : readdirSync(path, { recursive: true, encoding: 'utf8' })
        .filter(
          name => /\.(?:tsx?|mjs|sql|md|css|html)$/.test(name) && !name.includes('node_modules'),
        )
        .map(name => join(place, name))
  return names.map(name => ({ name, text: readFileSync(join(ROOT, name), 'utf8') }))
}

const FILES = readTexts('src').map(({ name, text }) => ({ name: name.slice('src/'.length), text }))
const SOURCES = FILES.filter(({ name }) => /\.tsx?$/.test(name) && !name.endsWith('.d.ts'))

const code = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')

/** The files of src/ that a file imports, as their paths there. */
const importsOf = ({ name, text }: (typeof SOURCES)[number]): string[] =>
  [...code(text).matchAll(/(?:from|import) '(\.[^']+)'/g)]
    .map(([, path = '']) => normalize(join(dirname(name), path)))
    .filter(path => !path.startsWith('..'))

/**
 * Each place may import from the lines above its own, and from itself. The ports of a room are a place
 * of their own where technologies below that room fulfil them.
 */
const LAYERS = [
  ['lib'],
  ['access', 'proxies'],
  ['api'],
  ['config', 'import', 'node/ports.ts'],
  ['feeds', 'judge', 'checker/ports.ts'],
  ['metrics'],
  ['admin', 'checker', 'http', 'jobs', 'postgres', 'sqlite'],
  ['web'],
  ['node'],
  ['stores.ts'],
  ['app.ts'],
  ['backups.ts', 'console.ts', 'doctor.ts', 'server-jobs.ts'],
  ['cli'],
  ['bootstrap.ts', 'main.ts'],
] as const

/** `lib` of `lib/ip.ts`; a file at the root, or one that is named above, is a place of its own. */
const placeOf = (name: string): string =>
  LAYERS.flat().find(place => place === name) ?? name.split('/')[0] ?? ''

const layerOf = (place: string): number =>
  LAYERS.findIndex(places => places.some(name => name === place))

describe('imports point downwards', () => {
  for (const source of SOURCES) {
    const place = placeOf(source.name)
    test(`src/${source.name} imports only from below ${place}/, or from beside itself`, () => {
      expect(layerOf(place)).toBeGreaterThanOrEqual(0)
      const wrong = importsOf(source)
        .filter(path => placeOf(path) !== place && layerOf(placeOf(path)) >= layerOf(place))
        .filter(path => !(source.name === 'main.ts' && path === 'bootstrap.ts'))
        .map(path => `src/${source.name} must not import src/${path}; move what they share down`)
      expect(wrong).toEqual([])
    })
  }

  test('no technology imports another: app.ts, stores.ts and node/ join them', () => {
    const technologies = ['admin', 'cli', 'http', 'postgres', 'sqlite', 'web']
    const crossing = SOURCES.filter(({ name }) => technologies.includes(placeOf(name))).flatMap(
      source =>
        importsOf(source)
          .filter(
            path =>
              technologies.includes(placeOf(path)) &&
              placeOf(path) !== placeOf(source.name) &&
              // The shapes of the admin listener's answers, which its page reads.
              !(placeOf(source.name) === 'web' && path === 'admin/api-types.ts'),
          )
          .map(
            path =>
              `src/${source.name} must not import src/${path}; join them in app.ts or stores.ts`,
          ),
    )
    expect(crossing).toEqual([])
  })

  test('there are no circular imports', () => {
    const graph = new Map(SOURCES.map(source => [source.name, importsOf(source)]))
    const done = new Set<string>()
    const circles: string[] = []
    const walk = (name: string, path: readonly string[]): void => {
      if (path.includes(name)) {
        circles.push([...path.slice(path.indexOf(name)), name].join(' → '))
        return
      }
      if (done.has(name)) return
      for (const next of graph.get(name) ?? []) walk(next, [...path, name])
      done.add(name)
    }
    for (const name of graph.keys()) walk(name, [])
    expect(circles).toEqual([])
  })
})

/** Lines of code that match a pattern outside the files and folders where they belong. */
function strays(pattern: RegExp, homes: readonly string[]): string[] {
  return SOURCES.filter(({ name }) => !homes.some(home => name.startsWith(home))).flatMap(
    ({ name, text }) =>
      code(text)
        .split('\n')
        .filter(line => pattern.test(line))
        .map(line => `src/${name}: ${line.trim()} — belongs in src/${homes.join(' or src/')}`),
  )
}

const HOMES: readonly (readonly [what: string, pattern: RegExp, ...homes: string[]])[] = [
  ['elysia', /from 'elysia/, 'http/', 'admin/'],
  ['bun:sqlite', /from 'bun:sqlite/, 'sqlite/'],
  ['the error class of SQLite', /\bSQLiteError\b|'SQLITE_/, 'sqlite/'],
  ['Bun’s PostgreSQL client', /\bBun\.(?:SQL|sql)\b|\bSQL\b.* from 'bun'/, 'postgres/'],
  ['Preact', /from 'preact/, 'web/'],
  ['commander', /from 'commander/, 'cli/'],
  ['writing to stderr', /\bstderr\.write\(/, 'lib/log.ts', 'bootstrap.ts'],
  ['TypeBox', /from '@sinclair\/typebox/, 'api/query.ts'],
  [
    'the Authorization header',
    /'authorization'|Bearer/i,
    ...['admin/', 'http/', 'feeds/', 'console.ts', 'web/'],
    ...['api/errors.ts', 'api/openapi/'], // they document it
  ],
  [
    'reading a clock',
    /Date\.now\(|new Date\(\)|performance\.now\(/,
    'lib/clock.ts',
    'web/parts/browser.ts',
  ],
  [
    'forms of time',
    /new Date\(/,
    'sqlite/archive.ts',
    'lib/time.ts',
    'lib/clock.ts',
    'web/parts/format.ts',
  ],
  [
    'the environment',
    /process\.env|Bun\.env|import\.meta\.env/,
    'config/environment.ts',
    'web/bundle.ts',
    'web/page/model/snippets.ts', // programs that visitors copy
  ],
  ['the end of the process', /process\.exit\(/, 'main.ts', 'bootstrap.ts'],
  ['worker threads', /new Worker\(/, 'lib/worker.ts'],
  [
    'wire names',
    /'(?:cm|split_ip|timecheck|type_prefix|country_mode|ip_out)'|\b(?:split_ip|type_prefix|country_mode)\b/,
    ...['proxies/filter.ts', 'api/query.ts', 'api/render.ts', 'api/openapi/'],
    ...['import/', 'web/', 'proxies/row.ts', 'postgres/', 'sqlite/'], // columns are so named
  ],
]

describe('everything has one home', () => {
  for (const [what, pattern, ...homes] of HOMES) {
    test(`${what}: only in ${homes.join(', ')}`, () => expect(strays(pattern, homes)).toEqual([]))
  }

  test('lib/ imports nothing of this program', () => {
    const outside = SOURCES.filter(({ name }) => name.startsWith('lib/')).flatMap(source =>
      importsOf(source)
        .filter(path => !path.startsWith('lib/'))
        .map(path => `src/${source.name} imports src/${path}`),
    )
    expect(outside).toEqual([])
  })

  test('pages use nothing that browsers lack', () => {
    const isPage = ({ name }: File): boolean => /^web\/(?:console|page|parts)\//.test(name)
    const lacking = /\b(?:Bun|Buffer|setImmediate)\b|from '(?:node|bun)/
    const found = SOURCES.filter(isPage).filter(({ text }) => lacking.test(code(text)))
    expect(found.map(({ name }) => name)).toEqual([])
  })

  test('SQL reads no clock: the clock is passed in', () => {
    const clock =
      /\b(?:unixepoch|julianday|strftime|datetime|current_(?:timestamp|time|date))\b|\b(?:date|time)\('now/i
    // HTML has an attribute of such a name, and the pages have no SQL.
    const reading = FILES.filter(
      ({ name, text }) => !name.startsWith('web/') && clock.test(code(text)),
    )
    expect(reading.map(({ name }) => name)).toEqual([])
  })
})

/** What the house may weigh. A number only falls; raising one takes a commit that says why. */
const BUDGET = {
  'lines of src (TypeScript, CSS, SQL)': 37_750,
  'lines of test (TypeScript)': 43_870,
  'words of README.md': 1_500,
  'words of src/README.md': 1_484,
  'words of test/README.md': 712,
  'words of the manual': 7_890,
} as const

test('the project stays within its budget', () => {
  const wordsOf = (name: string): number =>
    readFileSync(join(ROOT, name), 'utf8').split(/\s+/).filter(Boolean).length
  const linesOf = (files: readonly File[], kind: RegExp): number =>
    files
      .filter(({ name }) => kind.test(name))
      .reduce((sum, { text }) => sum + text.split('\n').length - 1, 0)
  const weighed = {
    'lines of src (TypeScript, CSS, SQL)': linesOf(FILES, /\.(?:tsx?|css|sql)$/),
    'lines of test (TypeScript)': linesOf(readTexts('test'), /\.tsx?$/),
    'words of README.md': wordsOf('README.md'),
    'words of src/README.md': wordsOf('src/README.md'),
    'words of test/README.md': wordsOf('test/README.md'),
    'words of the manual': readTexts('data/manual').reduce(
      (sum, { name }) => sum + wordsOf(name),
      0,
    ),
  } satisfies Record<keyof typeof BUDGET, number>
  const over = Object.entries(weighed)
    .filter(([what, amount]) => amount > BUDGET[what as keyof typeof BUDGET])
    .map(([what, amount]) => `${amount} ${what}: delete something, or raise the budget and say why`)
  expect(over).toEqual([])
})

test('every file of src/ starts with a comment', () => {
  const silent = SOURCES.filter(({ text }) => !/^(?:#!.*\n)?\/\*\*/.test(text))
  expect(silent.map(({ name }) => name)).toEqual([])
})

test('no comment of src/ says that a file owns something, or only that it is “the same”', () => {
  const empty = FILES.filter(({ text }) =>
    /^(?:\/\*\*| \*) Owns |^\s*\/\*\* The same\b/m.test(text),
  )
  expect(empty.map(({ name }) => name)).toEqual([])
})

/** Words that the field does not use, and what it says instead. */
const PRIVATE_WORDS: { readonly [word: string]: string } = {
  anew: 'again',
  'bulk|large answers?': 'stream',
  'gauges?': 'limit status',
  'gone away': 'closed, missing',
  'has been cut': 'was truncated',
  'in force': 'valid',
  'is told|told of': 'is called with',
  'meters?': 'limit rule',
  'passed over': 'skipped, ignored',
  'questions?': 'query, params',
  'reader is gone': 'stdout is closed',
  'reckon(?:ed|s)?': 'compute',
  'seal(?:ed|s)?': 'checksum',
  shelf: 'response cache',
  'tend(?:s|ed|ing)?': 'supervise, tick',
  terms: 'entitlements',
  'verdicts?': 'decision',
  whoever: 'who',
  'wherever it': 'where',
  worn: 'unusable',
}

/** Where a word has another meaning that the field does use: the type of a metric. */
const OTHER_MEANING: { readonly [word: string]: RegExp } = {
  'gauges?': /^(?:src|test)\/metrics\/|^data\/manual\/metrics\.md$/,
}

describe('texts say', () => {
  /** Texts of src/ and test/, README.md, the manual and the Makefile. */
  const texts = ['src', 'test', 'README.md', 'data/manual', 'Makefile'].flatMap(place =>
    readTexts(place).filter(({ name }) => !/fixtures|lab\/bench\/.*json|tidy/.test(name)),
  )
  for (const [word, instead] of Object.entries(PRIVATE_WORDS)) {
    test(`not “${word}” but “${instead}”`, () => {
      const pattern = new RegExp(`\\b(?:${word})\\b`, 'i')
      const held = texts.filter(({ name }) => !OTHER_MEANING[word]?.test(name))
      const found = held.flatMap(({ name, text }) =>
        text
          .split('\n')
          .filter(line => pattern.test(line))
          .map(line => `${name}: ${line.trim()}`),
      )
      expect(found).toEqual([])
    })
  }
})

describe('make test', () => {
  const makefile = readFileSync(join(ROOT, 'Makefile'), 'utf8')
  const commands = /^test:.*\n((?:\t.*\n)+)/m.exec(makefile)?.[1] ?? ''
  const again = /^SERVICE_TESTS := \$\(patsubst %,test\/%\.test\.ts,([^)]*)\)/m.exec(makefile)?.[1]

  test('runs every file, with the binary as the program and services in process', () => {
    expect(commands.split('\n')).toContain(
      '\tPROXYLIST_TEST_SERVICES=in-process $(WITH_BINARY) test $(TEST_OPTIONS)',
    )
  })

  test('runs each file that tests the service again, with the binary as the service', () => {
    expect(commands.split('\n')).toContain('\t$(WITH_BINARY) test $(TEST_OPTIONS) $(SERVICE_TESTS)')
    const asking = readTexts('test')
      .filter(({ name, text }) => name.endsWith('.test.ts') && /\bstartService\(/.test(text))
      .map(({ name }) => name.replace(/^test\/(.*)\.test\.ts$/, '$1'))
    expect(again?.split(/[\s\\]+/).filter(name => name !== '')).toEqual(asking.sort())
  })
})

test('the top level holds only known files', () => {
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
