/** Holds src/README.md to the packages that package.json names and the binary holds. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { dependencies, devDependencies } from '../package.json'
import { IN_PAGES, packageOf, sourcesIn } from './lab/release/sbom.ts'
import { BINARY, ROOT } from './support/program.ts'

const README = readFileSync(join(ROOT, 'src/README.md'), 'utf8')
const [, SECTION = ''] = /\n## Dependencies\n(.*?)(?:\n## |$)/s.exec(README) ?? []
const ROWS = [...SECTION.matchAll(/^\| `(\S+)` \| ([^|]+) \| ([^|]+) \|$/gm)].map(
  ([, name = '', use = '', why = '']) => ({ name, use, by: /^brought by `(\S+)`$/.exec(why)?.[1] }),
)
const LISTED = ROWS.map(({ name }) => name).sort()

/** The version of an installed package, and what it says it needs. */
const installed = (name: string): { dependencies?: { [name: string]: string } } =>
  JSON.parse(readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8'))

describe('the list of dependencies in src/README.md', () => {
  test('names each dependency of package.json with its use', () => {
    const direct = ROWS.filter(({ by }) => by === undefined).map(({ name }) => name)
    expect(direct.sort()).toEqual(Object.keys(dependencies).sort())
    expect(ROWS.filter(({ use }) => use.length < 3)).toEqual([])
  })

  test.each(ROWS.filter(({ by }) => by !== undefined))('knows that $by brings $name', row => {
    expect(LISTED).toContain(`${row.by}`)
    expect(Object.keys(installed(`${row.by}`).dependencies ?? {})).toContain(row.name)
  })

  test.each(Object.keys(devDependencies))('names %s as a development dependency', name => {
    expect(SECTION).toContain(`\`${name}\``)
    expect(LISTED).not.toContain(name)
  })
})

if (BINARY !== undefined) {
  const sources = sourcesIn(dirname(BINARY))

  test('the binary holds the packages of the list and no other', () => {
    const held = new Set(sources.map(packageOf).filter(name => name !== null))
    expect([...held, ...IN_PAGES].sort()).toEqual(LISTED)
  })

  test.each([
    'src/main.ts',
    'src/sqlite/database.worker.ts',
    'src/sqlite/proxies/stream.worker.ts',
    'src/node/list.worker.ts',
  ])('its source maps name %s', entry =>
    expect(sources.filter(source => source.endsWith(entry))).not.toBeEmpty(),
  )
}
