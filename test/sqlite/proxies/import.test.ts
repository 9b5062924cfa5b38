/**
 * Holds how the list is written (contract D2, D5): what an update makes of a stored row, what is
 * counted, that an import is one step for every reader, and that an export imports as it was.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Output } from '../../../src/api/render.ts'
import { importSources } from '../../../src/import/import.ts'
import type { Filter } from '../../../src/proxies/filter.ts'
import {
  ANONS,
  type IncomingProxy,
  LANGS,
  type Proxy,
  SERVICES,
  type Service,
  TYPES,
} from '../../../src/proxies/proxy.ts'
import type { ImportCounts, ImportMode } from '../../../src/proxies/store.ts'
import { isChecksumRight } from '../../../src/sqlite/integrity/checksum.ts'
import { beginImport } from '../../../src/sqlite/proxies/import.ts'
import { type List, openList, PROXY_FILE } from '../../../src/sqlite/stores.ts'
import { NO_FILTER, T0 } from '../../support/fixtures.ts'
import { createRenderer } from '../../support/render.ts'
import { proxiesOf } from '../../support/rows.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

const NOW = T0 / 1000
const BIG = 999_999_999_999_999
const EVERYTHING: Filter = { ...NO_FILTER, ageMaxSeconds: BIG }
const MODES: readonly ImportMode[] = ['merge', 'replace']

const opened: List[] = []
function open(dir: string | null = null): List {
  const list = openList(dir)
  opened.push(list)
  return list
}
afterAll(async () => {
  for (const list of opened) list.close()
  await cleanUp()
})

/** A row of a file that says nothing but its address, type and time. */
const BARE: IncomingProxy = {
  ip: '10.0.0.1',
  port: 80,
  ipOut: '',
  type: 'http',
  anon: '',
  speed: null,
  pingMs: null,
  checkedAt: NOW - 100,
  country: '',
  city: '',
  cityEn: '',
  works: null,
  services: new Set(),
  servicesStated: new Set(),
}
/** A row that says everything. */
const FULL: IncomingProxy = {
  ...BARE,
  ipOut: '192.0.2.1',
  anon: 'elite',
  speed: 1000,
  pingMs: 500,
  country: 'DE',
  city: 'Берлин',
  cityEn: 'Berlin',
  works: 97,
  services: new Set(['smtp', 'google']),
  servicesStated: new Set(SERVICES),
}
const LATER = { checkedAt: NOW - 50 }

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
  proxiesOf(list.finder.find({ ...EVERYTHING, ...filter }, { nowMs: T0, addressBits: 32 }))
/** Every row, with the names of its city in place of their id. */
const stored = (list: List): unknown[] =>
  list.db
    .query(
      `select p.*, null as city, c.name, c.name_en
       from proxies p left join cities c on c.id = p.city order by p.id`,
    )
    .all()

const stripped = ({ servicesStated: _, ...proxy }: IncomingProxy): Proxy => proxy

/** What the list holds for one address after rows that came in files of their own. */
function after(rows: readonly IncomingProxy[]): Proxy | undefined {
  const list = open()
  for (const row of rows) load(list, [row])
  const [only, ...more] = contents(list)
  expect(more).toEqual([])
  return only
}

const KNOWN = ['ipOut', 'anon', 'speed', 'pingMs', 'country', 'works'] as const
const OTHER: IncomingProxy = {
  ...FULL,
  ...LATER,
  ...{ ipOut: '192.0.2.2', type: 'socks5', anon: 'transparent', speed: 0, pingMs: 0 },
  ...{ country: 'FR', city: 'Париж', cityEn: 'Paris', works: 0 },
  services: new Set(['telegram', 'provider']),
}

describe('rows imported while a clock was ahead', () => {
  /** A list with a row checked `aheadSeconds` after the clock, to which others are then added. */
  function frozen(aheadSeconds: number) {
    const list = openList(null, { clock: () => T0 })
    opened.push(list)
    load(list, [{ ...FULL, checkedAt: NOW + aheadSeconds }])
    return (row: Partial<IncomingProxy>): ImportCounts => {
      const importTx = list.begin('merge')
      importTx.add({ ...BARE, ...row })
      const counts = importTx.commit()
      expect(contents(list)).toEqual([expect.objectContaining({ checkedAt: expect.any(Number) })])
      return { ...(counts as ImportCounts), added: contents(list)[0]?.checkedAt ?? 0 }
    }
  }

  test('take any update once the clock is right, and are ordinary rows from then on', () => {
    const add = frozen(8 * 86_400)
    const now = { removed: 0, unchanged: 0, updated: 1, added: NOW - 100 }
    expect(add({})).toEqual(now)
    expect(add({ checkedAt: NOW - 200 })).toEqual({ ...now, updated: 0, unchanged: 1 })
  })

  test.each([
    [301, NOW - 100],
    [300, NOW + 300],
  ])('are those more than 5 minutes ahead: a check %d s ahead', (ahead, checkedAt) => {
    expect(frozen(ahead)({}).added).toBe(checkedAt)
  })
})

describe('an update', () => {
  test('is by address: another port is another proxy', () => {
    const list = open()
    expect(load(list, [FULL, { ...FULL, port: 81 }, { ...FULL, ip: '10.0.0.2' }]).added).toBe(3)
    expect(load(list, [{ ...OTHER, port: 81 }]).updated).toBe(1)
    expect(contents(list)).toEqual([
      stripped({ ...OTHER, port: 81 }),
      stripped(FULL),
      stripped({ ...FULL, ip: '10.0.0.2' }),
    ])
  })
  test('takes over everything a newer row says, zeros too', () => {
    expect(after([FULL, OTHER])).toEqual(stripped(OTHER))
  })
  test('keeps everything a newer row does not say', () => {
    const bare = { ...BARE, ...LATER, type: 'socks4' } as const
    expect(after([FULL, bare])).toEqual(stripped({ ...FULL, ...LATER, type: 'socks4' }))
  })
  for (const member of KNOWN) {
    test(`takes ${member} alone when that is all a row says`, () => {
      const row = { ...BARE, ...LATER, [member]: OTHER[member] }
      const expected = { ...FULL, ...LATER, [member]: OTHER[member] }
      expect(after([FULL, row])).toEqual(stripped(expected))
    })
    test(`keeps ${member} alone when that is all a row does not say`, () => {
      const row = { ...OTHER, [member]: BARE[member] }
      expect(after([FULL, row])).toEqual(stripped({ ...OTHER, [member]: FULL[member] }))
    })
    test(`fills in ${member} where it was unknown`, () => {
      const row = { ...BARE, ...LATER, [member]: FULL[member] }
      expect(after([BARE, row])).toEqual(stripped(row))
    })
  }
})

const NEWEST = NOW - 100
const BY_AGE: readonly (readonly [what: string, row: IncomingProxy, count: keyof ImportCounts])[] =
  [
    ['older and different', { ...OTHER, checkedAt: NEWEST - 1 }, 'unchanged'],
    ['older and more is known', { ...FULL, checkedAt: NEWEST - 1 }, 'unchanged'],
    ['as old and different', { ...OTHER, checkedAt: NEWEST }, 'updated'],
    ['as old and the same', { ...FULL, checkedAt: NEWEST }, 'unchanged'],
    ['as old and says less', { ...BARE, checkedAt: NEWEST }, 'unchanged'],
    ['newer and the same', { ...FULL, checkedAt: NEWEST + 1 }, 'updated'],
    ['newer and says less', { ...BARE, checkedAt: NEWEST + 1 }, 'updated'],
  ]

describe('a check that is', () => {
  for (const [what, row, count] of BY_AGE) {
    test(`${what} counts as ${count}`, () => {
      const list = open()
      load(list, [FULL])
      const before = stored(list)
      const counts = { added: 0, updated: 0, unchanged: 0, removed: 0, [count]: 1 }
      expect(load(list, [row])).toEqual(counts)
      if (count === 'unchanged') expect(stored(list)).toEqual(before)
      else expect(stored(list)).not.toEqual(before)
    })
  }
  test('older changes nothing even where nothing was known', () => {
    expect(after([BARE, { ...FULL, checkedAt: NEWEST - 1 }])).toEqual(stripped(BARE))
  })
})

type Names = readonly Service[]
const BY_SERVICES: readonly (readonly [granted: Names, stated: Names, expected: Names])[] = [
  [[], [], ['smtp', 'google']],
  [[], ['smtp'], ['google']],
  [['smtp'], ['smtp'], ['smtp', 'google']],
  [['avito'], ['avito'], ['smtp', 'avito', 'google']],
  [['provider'], ['google', 'provider'], ['smtp', 'provider']],
  [[], SERVICES, []],
  [SERVICES, SERVICES, SERVICES],
  [['telegram'], SERVICES, ['telegram']],
]

describe('services', () => {
  for (const [granted, stated, expected] of BY_SERVICES) {
    test(`granted ${granted} of stated ${stated} leave ${expected}`, () => {
      const services = { services: new Set(granted), servicesStated: new Set(stated) }
      const proxy = after([FULL, { ...BARE, ...LATER, ...services }])
      expect(proxy?.services).toEqual(new Set(expected))
    })
  }
  test('of a new row are false unless stated', () => {
    const services = { services: new Set(['avito'] as const), servicesStated: new Set(SERVICES) }
    expect(after([{ ...BARE, ...services }])?.services).toEqual(new Set(['avito']))
    expect(after([BARE])?.services).toEqual(new Set())
  })
})

type Pair = readonly [city: string, cityEn: string]
const BY_CITY: readonly (readonly [stored: Pair, incoming: Pair, expected: Pair])[] = [
  [
    ['', ''],
    ['', ''],
    ['', ''],
  ],
  [
    ['', ''],
    ['Берлин', ''],
    ['Берлин', ''],
  ],
  [
    ['', ''],
    ['', 'Berlin'],
    ['', 'Berlin'],
  ],
  [
    ['', ''],
    ['Берлин', 'Berlin'],
    ['Берлин', 'Berlin'],
  ],
  [
    ['Берлин', 'Berlin'],
    ['', ''],
    ['Берлин', 'Berlin'],
  ],
  [
    ['Берлин', 'Berlin'],
    ['Берлин', ''],
    ['Берлин', 'Berlin'],
  ],
  [
    ['Берлин', 'Berlin'],
    ['Berlin', ''],
    ['Берлин', 'Berlin'],
  ], // from an export with lang=en
  [
    ['Берлин', 'Berlin'],
    ['Берлин', 'Berlin City'],
    ['Берлин', 'Berlin City'],
  ],
  [
    ['Берлин', 'Berlin'],
    ['', 'Berlin City'],
    ['Берлин', 'Berlin City'],
  ],
  [
    ['Берлин', 'Berlin'],
    ['Париж', ''],
    ['Париж', ''],
  ], // no Paris called Berlin
  [
    ['Берлин', 'Berlin'],
    ['Париж', 'Paris'],
    ['Париж', 'Paris'],
  ],
  [
    ['Берлин', ''],
    ['Париж', ''],
    ['Париж', ''],
  ],
  [
    ['Берлин', ''],
    ['', 'Berlin'],
    ['Берлин', 'Berlin'],
  ],
  [
    ['Берлин', ''],
    ['Берлин', 'Berlin'],
    ['Берлин', 'Berlin'],
  ],
  [
    ['', 'Berlin'],
    ['Берлин', ''],
    ['Берлин', ''],
  ],
  [
    ['', 'Berlin'],
    ['Берлин', 'Berlin'],
    ['Берлин', 'Berlin'],
  ],
]

describe('a city', () => {
  for (const [[city, cityEn], [newCity, newEn], expected] of BY_CITY) {
    test(`${city}/${cityEn} meets ${newCity}/${newEn}: ${expected.join('/')}`, () => {
      const list = open()
      load(list, [{ ...BARE, city, cityEn }])
      load(list, [{ ...BARE, ...LATER, city: newCity, cityEn: newEn }])
      expect(contents(list)).toMatchObject([{ city: expected[0], cityEn: expected[1] }])
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

const at = (host: number, more: Partial<IncomingProxy> = {}): IncomingProxy => ({
  ...BARE,
  ip: `10.0.0.${host}`,
  ...more,
})
const older = { checkedAt: NOW - 200 }
type Counts = readonly [added: number, updated: number, unchanged: number, removed: number]
type Counted = readonly [
  what: string,
  file: readonly IncomingProxy[],
  plain: Counts,
  replaced: Counts,
]

/** Into a list of 10.0.0.1 to 10.0.0.3. */
const COUNTED: readonly Counted[] = [
  ['nothing', [], [0, 0, 0, 0], [0, 0, 0, 3]],
  ['the same', [at(1), at(2), at(3)], [0, 0, 3, 0], [0, 0, 3, 0]],
  ['some of the same', [at(1), at(3)], [0, 0, 2, 0], [0, 0, 2, 1]],
  ['new ones', [at(4), at(5)], [2, 0, 0, 0], [2, 0, 0, 3]],
  ['newer ones', [at(1, LATER), at(2, LATER)], [0, 2, 0, 0], [0, 2, 0, 1]],
  ['older ones', [at(1, older), at(2, older)], [0, 0, 2, 0], [0, 2, 0, 1]],
  ['some of each', [at(1), at(2, LATER), at(3, older), at(4), at(5)], [2, 1, 2, 0], [2, 2, 1, 0]],
  ['a new one twice, alike', [at(4), at(4)], [1, 0, 1, 0], [1, 0, 1, 3]],
  ['an old one twice, alike', [at(1), at(1)], [0, 0, 2, 0], [0, 0, 2, 2]],
  ['a new one twice, the older last', [at(4), at(4, older)], [1, 0, 1, 0], [1, 0, 1, 3]],
]

describe('counts of an import of', () => {
  for (const [what, file, ...expected] of COUNTED) {
    for (const [i, mode] of MODES.entries()) {
      test(`${what}, ${mode}`, () => {
        const list = open()
        load(list, [at(1), at(2), at(3)])
        const [added, updated, unchanged, removed] = expected[i] ?? []
        expect<unknown>(load(list, file, mode)).toEqual({ added, updated, unchanged, removed })
      })
    }
  }
  test('a new one twice, the newer last, sum up to the rows', () => {
    for (const mode of MODES) {
      const list = open()
      const counts = load(list, [at(4, older), at(4)], mode)
      expect(counts).toMatchObject({ added: 1, removed: 0 })
      expect(counts.added + counts.updated + counts.unchanged).toBe(2)
      expect(contents(list)).toEqual([stripped(at(4))])
    }
  })
})

describe('an import of more rows than are written at once', () => {
  const ROWS = 140_000
  const addressed = (n: number): IncomingProxy => ({
    ...BARE,
    ip: '10.1.0.0',
    port: 1 + (n % 65535),
  })
  for (const mode of MODES) {
    test(`merges rows of one address wherever they are, ${mode}`, () => {
      const list = open()
      load(list, [at(7)])
      function* rows(): Generator<IncomingProxy> {
        yield FULL
        for (let n = 0; n < ROWS; n += 1) yield addressed(n)
        yield { ...BARE, ...LATER, works: 5 }
        yield { ...BARE, ...LATER, city: 'Berlin' }
      }
      const importTx = beginImport(list.db, mode)
      for (const row of rows()) importTx.add(row)
      const removed = mode === 'replace' ? 1 : 0
      const [added, updated] = [65_536, mode === 'replace' ? 0 : 1]
      expect(importTx.commit()).toEqual({
        added,
        updated,
        unchanged: ROWS + 3 - added - updated,
        removed,
      })
      expect(contents(list, { address: FULL })).toEqual([stripped({ ...FULL, ...LATER, works: 5 })])
      expect(isChecksumRight(list.db)).toBeTrue()
      const cache = list.db
        .query<{ n: number }, []>('select cache_size as n from pragma_cache_size')
        .get()
      expect(cache?.n).toBe(-32 * 1024)
      expect(
        list.db.query("select name from sqlite_schema where name like 'proxies_by_%'").all(),
      ).toHaveLength(4)
    })
  }
})

describe('replacing', () => {
  test('keeps nothing of what a row does not say', () => {
    const list = open()
    load(list, [FULL])
    expect(load(list, [BARE], 'replace').updated).toBe(1)
    expect(contents(list)).toEqual([stripped(BARE)])
  })
  test('takes an older check as it is', () => {
    const list = open()
    load(list, [FULL])
    load(list, [{ ...OTHER, checkedAt: 7 }], 'replace')
    expect(contents(list)).toEqual([stripped({ ...OTHER, checkedAt: 7 })])
  })
  test('merges rows of the same address within the file', () => {
    const list = open()
    load(list, [OTHER])
    load(list, [FULL, { ...BARE, ...LATER, works: 5 }], 'replace')
    expect(contents(list)).toEqual([stripped({ ...FULL, ...LATER, works: 5 })])
  })
  test('can be done again on the same connection', () => {
    const list = open()
    for (const host of [1, 2, 3]) {
      load(list, [at(host)], 'replace')
      expect(contents(list)).toEqual([stripped(at(host))])
    }
  })
})

test('replacing a list gives it a right checksum, though it had a wrong one', () => {
  const list = open()
  load(list, [FULL])
  list.db.run('update checksum set proxies = proxies + 1')
  expect(isChecksumRight(list.db)).toBeFalse()
  load(list, [OTHER], 'replace')
  expect(isChecksumRight(list.db)).toBeTrue()
})

describe('a rollback', () => {
  for (const mode of MODES) {
    test(`leaves the list as it was, ${mode}`, () => {
      const list = open()
      load(list, [FULL, at(2), at(3)])
      const before = stored(list)
      const importTx = beginImport(list.db, mode)
      importTx.add(OTHER)
      importTx.add(at(9))
      importTx.rollback()
      expect(stored(list)).toEqual(before)
      expect(load(list, [at(9)], mode)).toMatchObject({ added: 1 })
    })
  }
  for (const mode of MODES) {
    test(`undoes an import that found no room on the disk, ${mode}`, () => {
      const list = open(temporaryDirectory())
      load(list, [FULL])
      const before = stored(list)
      const { page_count: pages } = list.db
        .query<{ page_count: number }, []>('pragma page_count')
        .get() ?? { page_count: 0 }
      list.db.run(`pragma max_page_count = ${pages + 2}`)
      const importTx = beginImport(list.db, mode)
      const fill = (): void => {
        for (let port = 1; port <= 5000; port += 1) importTx.add({ ...FULL, port })
        importTx.commit()
      }
      expect(fill).toThrow(/full/)
      expect(() => importTx.rollback()).not.toThrow()
      expect(stored(list)).toEqual(before)
      expect(load(list, [at(2)], mode)).toMatchObject({ added: 1 })
    })
  }
})

describe('another connection', () => {
  for (const mode of MODES) {
    test(`sees nothing of an import before its commit and all of it after, ${mode}`, () => {
      const dir = temporaryDirectory()
      const [writer, reader] = [open(dir), open(dir)]
      load(writer, [FULL, at(2)])
      const before = contents(reader)
      expect(before).toHaveLength(2)
      const importTx = beginImport(writer.db, mode)
      expect(contents(reader)).toEqual(before)
      for (let host = 10; host < 200; host += 1) {
        importTx.add(at(host))
        if (host % 50 === 0) expect(contents(reader)).toEqual(before)
      }
      importTx.add(OTHER)
      expect(contents(reader)).toEqual(before)
      importTx.commit()
      expect(contents(reader)).toHaveLength(mode === 'replace' ? 191 : 192)
      expect(contents(reader)).toEqual(contents(writer))
      expect(contents(reader)[0]).toEqual(stripped(OTHER))
    })
    test(`sees nothing of an import that is rolled back, ${mode}`, () => {
      const dir = temporaryDirectory()
      const [writer, reader] = [open(dir), open(dir)]
      load(writer, [FULL])
      const importTx = beginImport(writer.db, mode)
      importTx.add(at(7))
      expect(contents(reader)).toEqual([stripped(FULL)])
      importTx.rollback()
      expect(contents(reader)).toEqual([stripped(FULL)])
    })
  }
  test('imports after it, on top of it', () => {
    const dir = temporaryDirectory()
    const [one, two] = [open(dir), open(dir)]
    load(one, [FULL])
    expect(load(two, [{ ...BARE, ...LATER }])).toMatchObject({ updated: 1 })
    expect(load(one, [FULL])).toMatchObject({ unchanged: 1 })
    expect(contents(one)).toEqual([stripped({ ...FULL, ...LATER })])
  })
})

/** A process that writes to the list in `dir` until the file `go` is there; resolves when it does. */
async function startWriter(dir: string, go: string) {
  const script = `
    const { Database } = require('bun:sqlite')
    const db = new Database(${JSON.stringify(join(dir, PROXY_FILE))})
    db.run('begin immediate')
    process.stdout.write('writing')
    while (!require('node:fs').existsSync(${JSON.stringify(go)})) Bun.sleepSync(2)
    db.run('commit')
    db.close()`
  const writer = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' })
  await writer.stdout.getReader().read()
  return writer
}

describe('before a list is replaced', () => {
  test('the caller sees both sizes, and what it throws leaves the list as it was', () => {
    const list = open()
    load(list, [at(1), at(2), at(3)])
    const before = stored(list)
    const importTx = beginImport(list.db, 'replace')
    for (const row of [at(3), at(4), at(4)]) importTx.add(row)
    const refuse = (sizes: unknown): void => {
      expect(sizes).toEqual({ before: 3, after: 2 })
      throw new Error('no')
    }
    expect(() => importTx.commit(refuse)).toThrow('no')
    importTx.rollback()
    expect(stored(list)).toEqual(before)
    expect(isChecksumRight(list.db)).toBeTrue()
    expect(load(list, [at(9)], 'replace')).toMatchObject({ added: 1, removed: 3 })
  })
})

describe('while another process imports', () => {
  for (const mode of MODES) {
    test(`an import says that it waits, then does its work, ${mode}`, async () => {
      const dir = temporaryDirectory()
      const list = open(dir)
      load(list, [FULL])
      const go = join(dir, 'go')
      const writer = await startWriter(dir, go)
      try {
        const said: string[] = []
        const importTx = beginImport(list.db, mode, () => {
          said.push('waiting')
          writeFileSync(go, '')
        })
        expect(said).toEqual([]) // it begins with its first row
        importTx.add(at(9))
        expect(said).toEqual(['waiting'])
        importTx.commit()
        expect(contents(list)).toHaveLength(mode === 'replace' ? 1 : 2)
        expect(await writer.exited).toBe(0)
      } finally {
        writer.kill()
      }
    })
  }
  test('an import that need not wait does not say so', () => {
    const list = open(temporaryDirectory())
    const importTx = beginImport(list.db, 'merge', () => {
      throw new Error('it waited')
    })
    importTx.add(FULL)
    expect(importTx.commit()).toMatchObject({ added: 1 })
  })
})

const unknownOr = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null, freq: 2 })
const upTo = (max: number) => fc.integer({ min: 0, max })
const someSet = fc.subarray([...SERVICES]).map(services => new Set<Service>(services))

/** Rows of few addresses and few values, so that they meet, and sometimes are the same. */
const someIncoming = (): fc.Arbitrary<IncomingProxy> =>
  fc
    .record({
      ip: fc.constantFrom('9.0.0.1', '10.0.0.1', '100.0.0.1', '255.255.255.255'),
      port: fc.constantFrom(1, 65535),
      ipOut: fc.constantFrom('', '192.0.2.1', '2001:db8::1'),
      type: fc.constantFrom(...TYPES),
      anon: fc.constantFrom('', ...ANONS),
      speed: unknownOr(fc.constantFrom(0, 5, BIG)),
      pingMs: unknownOr(fc.constantFrom(0, 5, BIG)),
      checkedAt: fc.constantFrom(NOW, NOW - 1, NOW - 2),
      country: fc.constantFrom('', 'DE', 'FR'),
      city: fc.constantFrom('', 'Берлин', 'Париж', 'Berlin'),
      cityEn: fc.constantFrom('', 'Berlin', 'Paris'),
      works: unknownOr(fc.constantFrom(0, 50, 100)),
      granted: someSet,
      servicesStated: someSet,
    })
    .map(({ granted, ...row }) => ({ ...row, services: granted.intersection(row.servicesStated) }))

const isUnknown = (value: unknown): boolean => value === '' || value === null

/** The names after an update (a new default name replaces the pair of names). */
function citiesAfter(old: Proxy, row: IncomingProxy): Pick<Proxy, 'city' | 'cityEn'> {
  const isShown = ['', old.city, old.cityEn].includes(row.city)
  if (row.cityEn === '' && isShown) return { city: old.city, cityEn: old.cityEn }
  return { city: row.city || old.city, cityEn: row.cityEn }
}

/** What a stored proxy becomes by a row about it: contract D2 as plain code. */
function merge(old: Proxy, incoming: IncomingProxy): Proxy {
  if (incoming.checkedAt < old.checkedAt) return old
  const row = stripped(incoming)
  const known = Object.fromEntries(Object.entries(row).filter(([, value]) => !isUnknown(value)))
  const unstated = old.services.difference(incoming.servicesStated)
  return {
    ...old,
    ...known,
    ...citiesAfter(old, incoming),
    services: new Set([...SERVICES].filter(s => unstated.has(s) || row.services.has(s))),
  }
}

/** A list and its counts as plain code. */
function createModel() {
  const proxies = new Map<string, Proxy>()
  const counts = { added: 0, updated: 0, unchanged: 0, removed: 0 }
  return {
    proxies,
    counts,
    add(row: IncomingProxy): void {
      const address = `${row.ip}:${row.port}`
      const old = proxies.get(address)
      const next = old ? merge(old, row) : stripped(row)
      if (old === undefined) counts.added += 1
      else if (Bun.deepEquals(old, next)) counts.unchanged += 1
      else counts.updated += 1
      proxies.set(address, next)
    },
  }
}

const byAddress = (proxies: Iterable<Proxy>): Map<string, Proxy> =>
  new Map([...proxies].map(proxy => [`${proxy.ip}:${proxy.port}`, proxy]))
const someFile = fc.array(someIncoming(), { maxLength: 25 })

describe('property: importing', () => {
  test('row after row gives what the rules say, and counts it', () => {
    fc.assert(
      fc.property(someFile, someFile, (first, second) => {
        const list = openList(null)
        try {
          const model = createModel()
          for (const file of [first, second]) {
            Object.assign(model.counts, { added: 0, updated: 0, unchanged: 0 })
            for (const row of file) model.add(row)
            expect(load(list, file)).toEqual(model.counts)
            expect(byAddress(contents(list))).toEqual(byAddress(model.proxies.values()))
          }
        } finally {
          list.close()
        }
      }),
      { numRuns: 300 },
    )
  })
  test('with replace gives what importing into an empty list gives', () => {
    fc.assert(
      fc.property(someFile, someFile, (before, file) => {
        const [list, fresh] = [openList(null), openList(null)]
        try {
          load(list, before)
          const old = byAddress(contents(list))
          const counts = load(list, file, 'replace')
          load(fresh, file)
          expect(stored(list)).toEqual(stored(fresh))
          const now = byAddress(contents(fresh))
          const kept = [...now.keys()].filter(address => old.has(address))
          const same = kept.filter(key => Bun.deepEquals(now.get(key), old.get(key)))
          expect(counts.added).toBe(now.size - kept.length)
          expect(counts.removed).toBe(old.size - kept.length)
          expect(counts.updated).toBe(kept.length - same.length)
          expect(counts.added + counts.updated + counts.unchanged).toBe(file.length)
        } finally {
          list.close()
          fresh.close()
        }
      }),
      { numRuns: 300 },
    )
  })
  test('and rolling back, with or without replace, changes nothing', () => {
    fc.assert(
      fc.property(someFile, someFile, fc.constantFrom(...MODES), (before, file, mode) => {
        const list = openList(null)
        try {
          load(list, before)
          const rows = stored(list)
          const importTx = beginImport(list.db, mode)
          for (const row of file) importTx.add(row)
          importTx.rollback()
          expect(stored(list)).toEqual(rows)
        } finally {
          list.close()
        }
      }),
    )
  })
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
    await importSources(
      [{ name: 'export', bytes: bytes() }],
      {
        format: 'auto',
        defaults: { type: undefined, nowMs: T0, provider: PROVIDER },
        strict: true,
      },
      importTx.add,
      { progress: () => {}, rejected: refuse, ignored: refuse },
    )
    importTx.commit()
    await use(list)
  } finally {
    list.close()
  }
}

const cityCharacter = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  fc.constantFrom(...'"\\{}[]:#; ёЁ'),
)
const someCity = fc.string({ unit: cityCharacter, maxLength: 12 }).map(name =>
  name
    .replace(/[\u0000-\u001f\u007f,]/g, '')
    .toWellFormed()
    .trim(),
)

/** Rows of any value a file may hold. */
const anyIncoming = (): fc.Arbitrary<IncomingProxy> =>
  fc.record({
    ip: fc.ipV4(),
    port: fc.integer({ min: 1, max: 65535 }),
    ipOut: fc.oneof(fc.constantFrom('', '2001:db8::1'), fc.ipV4()),
    type: fc.constantFrom(...TYPES),
    anon: fc.constantFrom('', ...ANONS),
    speed: unknownOr(upTo(BIG)),
    pingMs: unknownOr(upTo(BIG)),
    checkedAt: fc.oneof(upTo(NOW + 300), fc.constant(NOW)),
    country: fc.constantFrom('', 'DE', 'RU'),
    city: someCity,
    cityEn: fc.oneof(fc.constant(''), someCity),
    works: unknownOr(upTo(100)),
    services: someSet,
    servicesStated: fc.constant(new Set(SERVICES)),
  })

const someExport = (): fc.Arbitrary<Export> =>
  fc.record({
    lang: fc.constantFrom(...LANGS),
    output: fc.record({
      kind: fc.constantFrom('json', 'csv', 'ndjson'),
      isDownload: fc.boolean(),
      hasTypePrefix: fc.boolean(),
      fields: fc.constant(null),
      splitIp: fc.boolean(),
      shape: fc.constantFrom('array', 'object'),
      wrap: fc.boolean(),
      pretty: fc.boolean(),
    }),
  })

describe('property: export, import, export', () => {
  test('is byte-identical, whatever the list and the form', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyIncoming(), { minLength: 1, maxLength: 10 }),
        someExport(),
        async (rows, form) => {
          const list = openList(null)
          try {
            load(list, rows)
            const first = exported(list, form)
            await withImported(first, copy => expect(exported(copy, form)).toBe(first))
          } finally {
            list.close()
          }
        },
      ),
      { numRuns: 300 },
    )
  })
  test('gives an equal record, but for the name in the other language', async () => {
    await fc.assert(
      fc.asyncProperty(anyIncoming(), someExport(), async (row, { output }) => {
        const list = openList(null)
        try {
          load(list, [row])
          const first = exported(list, { lang: 'ru', output })
          const expected = [{ ...stripped(row), cityEn: '' }]
          await withImported(first, copy => expect(contents(copy)).toEqual(expected))
        } finally {
          list.close()
        }
      }),
    )
  })
  test('into the list it came from changes nothing, in either language', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyIncoming(), { minLength: 1, maxLength: 10 }),
        someExport(),
        async (rows, form) => {
          const list = openList(null)
          try {
            load(list, rows)
            const before = stored(list)
            await withImported(exported(list, form), copy => {
              const back = contents(copy).map(proxy => ({
                ...proxy,
                servicesStated: new Set(SERVICES),
              }))
              expect(load(list, back)).toMatchObject({ added: 0, updated: 0 })
            })
            expect(stored(list)).toEqual(before)
          } finally {
            list.close()
          }
        },
      ),
    )
  })
})
