/** Holds the rules of the house: what may import, read and name what. */
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './support/program.ts'

const SOURCES = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter(name => name.endsWith('.ts') && !name.endsWith('.d.ts'))
  .map(name => ({ name, text: readFileSync(join(ROOT, 'src', name), 'utf8') }))
const code = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')

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
  ['the environment', /process\.env|Bun\.env|import\.meta\.env/, ['config/environment.ts']],
  ['the end of the process', /process\.exit\(/, ['main.ts', 'bootstrap.ts']],
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
