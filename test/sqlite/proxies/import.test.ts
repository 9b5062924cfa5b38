/**
 * How SQLite writes the list, besides what `proxies/import.test.ts` holds: kills, names of cities, and that an export imports
 * as it was.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import fc from 'fast-check'
import { memberNames, type Output } from '../../../src/api/render.ts'
import { importSources } from '../../../src/import/import.ts'
import type { Filter } from '../../../src/proxies/filter.ts'
import { type IncomingProxy, LANGS, type Proxy, SERVICES } from '../../../src/proxies/proxy.ts'
import type { Row } from '../../../src/proxies/row.ts'
import type { ImportCounts, ImportMode } from '../../../src/proxies/store.ts'
import { type BatchRow, beginImport, createBatch } from '../../../src/sqlite/proxies/import.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { NO_FILTER, T0 } from '../../support/fixtures.ts'
import { anyIncoming, BARE, BIG, BY_CITY, FULL, LATER } from '../../support/incoming.ts'
import { ROOT } from '../../support/program.ts'
import { createRenderer } from '../../support/render.ts'
import { proxiesOf } from '../../support/rows.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../../support/temporary.ts'

const EVERYTHING: Filter = { ...NO_FILTER, ageMaxSeconds: BIG }

function open(dir: string | null = null): List {
  const list = openList(dir)
  onCleanUp(list.close)
  return list
}
afterAll(cleanUp)

function load(
  list: List,
  rows: readonly IncomingProxy[],
  mode: ImportMode = 'merge',
): ImportCounts {
  const importTx = beginImport(list.db, mode)
  for (const row of rows) importTx.add(row)
  return importTx.commit()
}
const contents = (list: List, filter: Partial<Filter> = {}): Proxy[] =>
  proxiesOf(list.proxies.findAll({ ...EVERYTHING, ...filter }, { nowMs: T0, addressBits: 32 }))
/** Every row, with the names of its city in place of their id. */
const stored = (list: List): unknown[] =>
  list.db
    .query(
      `select p.*, null as city, c.name, c.name_en
       from proxies p left join cities c on c.id = p.city order by p.id`,
    )
    .all()

test('an import keeps its own error when its list was closed before the rollback', () => {
  const list = openList(temporaryDirectory())
  const importTx = list.begin('merge')
  importTx.add(BARE)
  list.close()
  expect(() => importTx.rollback()).not.toThrow()
})

describe('a city is found by its names after', () => {
  for (const [[city, cityEn], [newCity, newEn], expected] of BY_CITY) {
    test(`${city}/${cityEn} meets ${newCity}/${newEn}: ${expected.join('/')}`, () => {
      const list = open()
      load(list, [{ ...BARE, city, cityEn }])
      load(list, [{ ...BARE, ...LATER, city: newCity, cityEn: newEn }])
      const found = (name: string, lang: 'ru' | 'en') =>
        contents(list, { cities: [name.toLowerCase()], lang }).length
      for (const name of ['Берлин', 'Berlin', 'Berlin City', 'Париж', 'Paris']) {
        expect([name, found(name, 'ru')]).toEqual([name, expected.includes(name) ? 1 : 0])
        expect([name, found(name, 'en')]).toEqual([
          name,
          (expected[1] || expected[0]) === name ? 1 : 0,
        ])
      }
    })
  }
})

/** Runs an import in a process of its own, which kills itself at a step. */
const IMPORTING = `
  import { openList } from './src/sqlite/stores.ts'
  import { BARE } from './test/support/incoming.ts'
  const [dir, mode, deadly, rows] = process.argv.slice(1)
  const reach = step => step === deadly && process.kill(process.pid, 'SIGKILL')
  const importTx = openList(dir).begin(mode)
  await importTx.lock()
  reach('locked')
  for (let n = 0; n < Number(rows); n += 1) importTx.add({ ...BARE, ip: '10.1.0.0', port: 1 + (n % 65_535) })
  reach('written')
  await importTx.commit()
  reach('committed')`

/** More rows than are written at once, so that some are in the WAL when the process is killed. */
const MANY = '140000'
test.each([
  ['merge', 'locked', '1', 1],
  ['merge', 'written', MANY, 1],
  ['set', 'written', MANY, 1],
  ['replace', 'written', MANY, 1],
  ['merge', 'committed', '500', 501],
  ['replace', 'committed', '500', 500],
] as const)(
  'a killed import leaves the list of before or of after: %s, %s',
  (mode, step, rows, left) => {
    const dir = temporaryDirectory()
    const list = open(dir)
    load(list, [FULL])
    const before = stored(list)
    const run = [process.execPath, '-e', IMPORTING, dir, mode, step, rows]
    expect(Bun.spawnSync(run, { cwd: ROOT }).signalCode).toBe('SIGKILL')
    expect(stored(list)).toHaveLength(left)
    if (step !== 'committed') expect(stored(list)).toEqual(before)
    expect(load(list, [{ ...BARE, ip: '10.9.9.9' }])).toMatchObject({ added: 1 })
  },
)

test('an import into a file that was removed fails', () => {
  const list = open(temporaryDirectory())
  const importTx = list.begin('merge')
  importTx.add(BARE)
  rmSync(list.file)
  expect(() => importTx.commit()).toThrow(`${list.file} is missing`)
})

const PROVIDER = 'the service'
const render = createRenderer(PROVIDER)
type Export = { lang: Filter['lang']; output: Output }
const exported = (list: List, { lang, output }: Export): string =>
  render(contents(list, { lang }), { ...EVERYTHING, lang }, output, T0)

/** Imports a text as `proxylist import` does, into a new list, and hands that to `use`. */
async function withImported(text: string, use: (list: List) => void | Promise<void>) {
  async function* bytes(): AsyncIterable<Uint8Array> {
    yield new TextEncoder().encode(text)
  }
  const list = openList(null)
  try {
    const importTx = beginImport(list.db, 'merge')
    const refuse = (...what: unknown[]): never => {
      throw new Error(`not taken whole: ${what.join(' ')}`)
    }
    const { ignored } = await importSources(
      [{ name: 'export', bytes: bytes() }],
      {
        format: 'auto',
        defaults: { type: undefined, nowMs: T0, provider: PROVIDER },
        strict: true,
      },
      importTx.add,
      { progress: () => {}, rejected: refuse },
    )
    expect(ignored).toEqual([])
    importTx.commit()
    await use(list)
  } finally {
    list.close()
  }
}

const someExport = (): fc.Arbitrary<Export> =>
  fc.record({
    lang: fc.constantFrom(...LANGS),
    output: fc.record({
      kind: fc.constantFrom('json', 'csv', 'ndjson'),
      isDownload: fc.boolean(),
      line: fc.constant(null),
      fields: fc.constantFrom(null, memberNames(PROVIDER)), // all of them, with `types`
      splitIp: fc.boolean(),
      shape: fc.constantFrom('array', 'object'),
      wrap: fc.boolean(),
      pretty: fc.boolean(),
    }),
  })

test('property: export, import, export is byte-identical for any list and form, and does not change the list', async () => {
  const someRows = fc.array(anyIncoming(), { minLength: 1, maxLength: 10 })
  const property = fc.asyncProperty(someRows, someExport(), async (rows, form) => {
    const list = openList(null)
    try {
      load(list, rows)
      const before = stored(list)
      const first = exported(list, form)
      await withImported(first, copy => {
        expect(exported(copy, form)).toBe(first)
        const servicesStated = new Set(SERVICES)
        const back = contents(copy).map(proxy => ({ ...proxy, servicesStated }))
        expect(load(list, back)).toMatchObject({ added: 0, updated: 0 })
      })
      expect(stored(list)).toEqual(before)
    } finally {
      list.close()
    }
  })
  await fc.assert(property, { numRuns: 120 })
})

const MAX = 2 ** 48 - 1
const upTo = (max: number) => fc.integer({ min: 0, max })

/** Rows of few ids, so that some are the same, and of the smallest and largest values. */
const someRow = (): fc.Arbitrary<Row> =>
  fc.tuple(
    fc.oneof(fc.constantFrom(65_537, 65_538, 2 ** 40, MAX), upTo(MAX)),
    upTo(2 ** 33),
    fc.constantFrom(0, 532, Number.MAX_SAFE_INTEGER),
    upTo(3),
    upTo(3),
    fc.integer({ min: -1, max: 100 }),
    fc.constantFrom(-1, 0, 999_999_999_999_999),
    upTo(31),
    upTo(1023),
    upTo(100_000),
    fc.oneof(fc.constantFrom('', '2001:db8::1', '::1'), upTo(2 ** 32 - 1)),
  )
const someRows = fc.array(fc.tuple(someRow(), upTo(31)), { maxLength: 60 })

const drained = (batch: ReturnType<typeof createBatch>): BatchRow[] => {
  const rows: BatchRow[] = []
  batch.drain(row => rows.push([...row]))
  return rows
}

describe('a batch', () => {
  test('property: returns every row once, by address, the same address in its order', () => {
    const batch = createBatch()
    fc.assert(
      fc.property(someRows, rows => {
        for (const [row, stated] of rows) batch.add(row, stated)
        const added = rows.map(([row, stated]): BatchRow => [...row, stated])
        const ip = (row: BatchRow): number => Math.floor(row[0] / 65_536)
        const out = drained(batch)
        expect(out.map(ip)).toEqual(added.map(ip).sort((a, b) => a - b))
        for (const id of new Set(added.map(([id]) => id))) {
          const of = (list: readonly BatchRow[]) => list.filter(row => row[0] === id)
          expect(of(out)).toEqual(of(added))
        }
        expect(drained(batch)).toEqual([])
      }),
      { numRuns: 300 },
    )
  })
})
