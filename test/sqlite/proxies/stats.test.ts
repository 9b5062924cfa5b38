/**
 * Holds what a list answers about itself (contract F4): every number is what SQL counts, whatever the list and the
 * filter; and the worker that answers: whatever goes wrong is a `StoreError` for those who wait and one sentence
 * for the operator.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import type { EncodedBodies } from '../../../src/lib/compression.ts'
import { StoreError } from '../../../src/lib/errors.ts'
import { filterOf, fold } from '../../../src/proxies/filter.ts'
import { ANONS, serviceNames, TYPES } from '../../../src/proxies/proxy.ts'
import { countryText, countryToNumber, UNKNOWN_PING } from '../../../src/proxies/row.ts'
import { AGES_SECONDS, freshRows, type StatsRequest } from '../../../src/proxies/stats.ts'
import type { Facet, StatsDocument } from '../../../src/proxies/stats-document.ts'
import { typeBits } from '../../../src/proxies/types.ts'
import { PROXY_FILE } from '../../../src/sqlite/data-directory.ts'
import { createStatsReader, createStatsSource } from '../../../src/sqlite/proxies/stats.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { addList, listOf, T0, type TestRow } from '../../support/fixtures.ts'
import { countedRows, queries } from '../../support/list-statistics.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const AT = T0 / 1000
const PROVIDER = 'the service'
const NAMES = serviceNames(PROVIDER)

type Texts = { readonly [name: string]: string }
const asking = (texts: Texts, more: Partial<StatsRequest> = {}): StatsRequest => ({
  ...{ filter: filterOf(texts, NAMES), nowMs: T0, version: '1', part: 'full', provider: PROVIDER },
  ...more,
})
const parsed = ({ identity }: EncodedBodies): StatsDocument =>
  JSON.parse(new TextDecoder().decode(identity))
const documentOf = (list: List, texts: Texts): StatsDocument =>
  parsed(createStatsReader(list.db)(asking(texts)))

// ---------------------------------------------------------------------------------------------
// The same in SQL

const quoted = (names: readonly string[]): string =>
  names.map(name => `'${fold(name).replaceAll("'", "''")}'`).join()

/** What each filter asks, in SQL written by hand. */
function conditionsOf(texts: Texts): { [name: string]: string } {
  const items = (name: string): string[] => (texts[name] ?? '').split(',').filter(Boolean)
  const isIn = (column: string, numbers: readonly number[]): string =>
    numbers.length === 0 ? 'true' : `${column} in (${numbers})`
  const cities = quoted(items('city'))
  const shown =
    texts.lang === 'en'
      ? "(folded_en in (C) or name_en = '' and folded in (C))"
      : '(folded in (C) or folded_en in (C))'
  const bits = items('service').reduce((sum, name) => sum | (1 << NAMES.indexOf(name)), 0)
  const country = isIn(
    'country',
    items('country').map(code => countryToNumber(code.toUpperCase())),
  )
  return {
    type: items('type').length === 0 ? 'true' : `types & ${typeBits(items('type') as ['http'])}`,
    anon: isIn(
      'anon',
      items('anon').map(anon => 1 + ANONS.indexOf(anon as 'elite')),
    ),
    country: texts.country && texts.cm === 'except' ? `not ${country}` : country,
    city:
      cities === ''
        ? 'true'
        : `exists (select 1 from cities where id = proxies.city and ${shown.replaceAll('C', cities)})`,
    service: `services & ${bits} = ${bits}`,
    ping: texts.ping === undefined ? 'true' : `ping_ms <= ${texts.ping}`,
    speed: texts.speed === undefined ? 'true' : `speed >= ${texts.speed}`,
    works: texts.works === undefined ? 'true' : `works >= ${texts.works}`,
    time: `checked_at >= ${AT} - ${texts.time ?? 600}`,
  }
}

/** Every number of a document, in its form, by a count in SQL for each. */
function countedBySql({ db }: List, texts: Texts, { histograms }: StatsDocument) {
  const all = conditionsOf(texts)
  const but = (name: string): string =>
    Object.entries({ ...all, [name]: 'true' })
      .map(([, sql]) => sql)
      .join(' and ')
  const count = (where: string): number =>
    db.query<{ n: number }, []>(`select count(*) as n from proxies where ${where}`).get()?.n ?? -1
  const by = (name: string, label: (value: number) => string): Facet => {
    const rows = db.query<{ value: number; n: number }, []>(
      `select ${name} as value, count(*) as n from proxies where ${but(name)} group by 1`,
    )
    return Object.fromEntries(rows.all().map(({ value, n }) => [label(value), n]))
  }
  const bins = (name: 'ping' | 'speed' | 'works', column: string, unknown: string) => {
    const { edges } = histograms[name]
    const [below, from] = name === 'ping' ? ['<=', '>'] : ['<', '>=']
    const within = (i: number): string => {
      const least = i === 0 ? 'true' : `${column} ${from} ${edges[i]}`
      return `${least} and ${i === edges.length - 2 ? 'true' : `${column} ${below} ${edges[i + 1]}`}`
    }
    const counts = edges
      .slice(1)
      .map((_, i) => count(`${but(name)} and not ${unknown} and ${within(i)}`))
    return { edges, counts, unknown: count(`${but(name)} and ${unknown}`) }
  }
  const cities = db.query<{ city: string; city_en: string; country: number; count: number }, []>(
    `select name as city, name_en as city_en, country, count(*) as count from proxies join cities on cities.id = city
     where ${but('city')} group by city, country order by count desc, cities.id, country limit 50`,
  )
  return {
    ...{ at: AT, version: '1', total: count('true'), matching: count(but('')) },
    facets: {
      type: Object.fromEntries(
        TYPES.map((type, n) => [type, count(`${but('type')} and types & ${1 << n}`)]),
      ),
      anon: by('anon', anon => ['', ...ANONS][anon] ?? '?'),
      country: by('country', countryText),
      service: Object.fromEntries(
        NAMES.map((name, n) => [name, count(`${but('')} and services & ${1 << n}`)]),
      ),
      age: Object.fromEntries([
        ...AGES_SECONDS.map(age => [age, count(`${but('time')} and checked_at >= ${AT - age}`)]),
        ['', count(but('time'))],
      ]),
    },
    histograms: {
      ping: bins('ping', 'ping_ms', `ping_ms = ${UNKNOWN_PING}`),
      speed: bins('speed', 'speed', 'speed = -1'),
      works: bins('works', 'works', 'works = -1'),
    },
    cities: cities.all().map(city => ({ ...city, country: countryText(city.country) })),
  }
}

/** Values without rows may be missing. */
const withoutZeros = (document: Omit<StatsDocument, 'examples'>) => ({
  ...document,
  facets: Object.fromEntries(
    Object.entries(document.facets).map(([name, facet]) => [
      name,
      Object.fromEntries(Object.entries(facet).filter(([, n]) => n > 0)),
    ]),
  ),
})

function expectSame(list: List, texts: Texts): StatsDocument {
  const document = documentOf(list, texts)
  const { examples, ...numbers } = document
  expect([texts, withoutZeros(numbers)]).toEqual([
    texts,
    withoutZeros(countedBySql(list, texts, document)),
  ])
  return document
}

describe('a document', () => {
  test('has the numbers that SQL counts, for any list and filter', () => {
    let matching = 0
    fc.assert(
      fc.property(countedRows, fc.array(queries, { minLength: 1, maxLength: 8 }), (rows, asked) => {
        const list = listOf(rows)
        for (const texts of asked) matching += expectSame(list, texts).matching
        list.close()
      }),
      { numRuns: 200 },
    )
    expect(matching).toBeGreaterThan(100)
  }, 120_000)

  test('compares numbers of more than 32 bits exactly, too', () => {
    const large = [2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32, 5e9, 5e9 + 1, 999_999_999_999_999]
    const list = listOf(
      large.map((n, i) => ({ ip: `192.0.2.${i}:80`, type: 'http', speed: n, ping: n / 1000 })),
    )
    for (const n of large.flatMap(n => [n - 1, n])) {
      expectSame(list, { speed: `${n}` })
      expectSame(list, { ping: `${n}` })
    }
    const { examples } = documentOf(list, {})
    expect(examples.map(({ speed }) => speed)).toEqual([2 ** 31 - 1])
  })

  test('has only the totals when the other parts are hidden', () => {
    const list = listOf([{ ip: '192.0.2.1:80', type: 'http' }])
    const document = parsed(createStatsReader(list.db)(asking({}, { part: 'totals' })))
    expect(document as object).toEqual({ at: AT, version: '1', total: 1, matching: 1 })
  })

  test('uses the operator’s name for the provider’s service', () => {
    const list = listOf([{ ip: '192.0.2.1:80', type: 'http', 'the service': true }])
    const document = parsed(createStatsReader(list.db)(asking({}, { provider: 'яндекс' })))
    expect(document.facets.service).toEqual({
      smtp: 0,
      telegram: 0,
      avito: 0,
      google: 0,
      яндекс: 1,
    })
    expect(document.examples[0]?.яндекс).toBe(true)
  })
})

describe('examples', () => {
  test('are the twenty freshest matches, masked, without twins, in the language', () => {
    const list = listOf(
      Array.from({ length: 200 }, (_, i) => ({
        // Five of each network look the same.
        ...{ ip: `10.${i % 40}.${i}.1:80`, type: i % 2 === 0 ? 'http' : 'socks5', age: i },
        ...{ city: 'Берлин', city_en: 'Berlin', ip_out: '192.0.2.77' },
      })),
    )
    const { examples } = documentOf(list, { type: 'socks5', lang: 'en' })
    expect(examples.map(({ ip }) => ip)).toEqual(
      Array.from({ length: 20 }, (_, n) => `10.${2 * n + 1}.0.0:80`),
    )
    expect(examples[0]).toMatchObject({ type: 'socks5', city: 'Berlin', ip_out: '192.0.0.0' })
  })

  test('match the filter even when their twin does not', () => {
    const twin = { age: 5, ping: 0.1 }
    const list = listOf([
      { ...twin, ip: '10.1.0.1:80', type: 'http', works: 10 },
      { ...twin, ip: '10.1.0.2:80', type: 'socks5', works: 99 },
      { ...twin, ip: '10.1.0.3:80', type: 'socks5', works: 98 },
    ])
    const { examples } = documentOf(list, { type: 'socks5' })
    expect(examples).toMatchObject([{ ip: '10.1.0.0:80', type: 'socks5', works: '99' }])
  })
})

test('an answer has one snapshot, also when another process changed the list', () => {
  const dir = temporaryDirectory()
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }])
  const { db, close } = openList(dir)
  const answer = createStatsReader(db)
  const ask = (): StatsDocument => parsed(answer(asking({})))
  expect(ask()).toMatchObject({ total: 1, examples: [{ ip: '192.0.0.0:80' }] })
  addList(dir, [{ ip: '192.1.2.2:80', type: 'http', age: 5 }])
  expect(ask()).toMatchObject({
    total: 2,
    examples: [{ ip: '192.0.0.0:80' }, { ip: '192.1.0.0:80' }],
  })
  expect(db.inTransaction).toBeFalse()
  close()
})

/** More rows than are read at a time. */
const ROWS: readonly TestRow[] = Array.from({ length: 4_100 }, (_, i) => ({
  ip: `10.0.${i >> 8}.${i & 255}:80`,
  type: i % 2 === 0 ? 'http' : 'socks5',
  country: i % 3 === 0 ? 'DE' : 'NL',
  age: i % 700,
  works: i % 101,
}))

/** A source on a list, and what it has reported. */
function sourceOf({ verify = () => {}, later }: Partial<Hooks> = {}) {
  const dir = temporaryDirectory()
  addList(dir, ROWS)
  const failures: unknown[] = []
  const onFailure = (failure: unknown) => void failures.push(failure)
  const file = join(dir, PROXY_FILE)
  return { dir, file, failures, ...createStatsSource(file, { verify, onFailure }, later) }
}
type Hooks = { verify: () => void; later: Parameters<typeof createStatsSource>[2] }

describe('the worker', () => {
  test('answers like the process itself, also when another process changed the list', async () => {
    const { dir, answer, failures, close } = sourceOf()
    const request = asking({ country: 'de' })
    const coded = await answer(request)
    const text = new TextDecoder().decode(coded.identity)
    expect(text).toBe(
      new TextDecoder().decode(createStatsReader(listOf(ROWS).db)(request).identity),
    )
    expect(new TextDecoder().decode(Bun.gunzipSync(new Uint8Array(coded.gzip)))).toBe(text)
    expect(new TextDecoder().decode(Bun.zstdDecompressSync(coded.zstd))).toBe(text)
    addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }])
    expect(parsed(await answer(request)).total).toBe(ROWS.length + 1)
    expect(failures).toEqual([])
    close()
  })

  test('reads the file that replaced its own', async () => {
    const { file, answer, close } = sourceOf()
    expect(parsed(await answer(asking({}))).total).toBe(ROWS.length)
    const other = temporaryDirectory()
    addList(other, ROWS.slice(0, 7))
    for (const end of ['-wal', '-shm']) rmSync(file + end, { force: true })
    renameSync(join(other, PROXY_FILE), file)
    expect(parsed(await answer(asking({}))).total).toBe(7)
    close()
  })

  test('ends a minute after the last query, and starts again with the next', async () => {
    const idle: { run: () => void; isOn: boolean }[] = []
    const { answer, close } = sourceOf({
      later(run, ms) {
        const timer = { run, isOn: true }
        if (ms === 60_000) idle.push(timer)
        return () => {
          timer.isOn = false
        }
      },
    })
    for (const country of ['de', 'nl']) await answer(asking({ country }))
    expect(idle.map(({ isOn }) => isOn)).toEqual([false, true])
    idle.at(-1)?.run()
    expect(parsed(await answer(asking({}))).total).toBe(ROWS.length)
    close()
    expect(idle.every(({ isOn }) => !isOn)).toBe(true)
  })
})

describe('a failure', () => {
  test('to open the list is reported, and thrown as a StoreError', async () => {
    const { file, answer, failures } = sourceOf()
    rmSync(file)
    await expect(answer(asking({}))).rejects.toBeInstanceOf(StoreError)
    expect(String(failures)).toInclude('is missing')
  })

  test('to answer in time ends the worker', async () => {
    const { answer, failures } = sourceOf({
      later(run, ms) {
        if (ms === 20_000) queueMicrotask(run)
        return () => {}
      },
    })
    await expect(answer(asking({}))).rejects.toThrow(
      new StoreError('the statistics could not be made'),
    )
    expect(String(failures)).toInclude('longer than 20000 ms')
  })

  test('reaches waiting queries when the server stops, and is not reported', async () => {
    const { answer, count, close, failures } = sourceOf()
    const waiting = Promise.allSettled([answer(asking({})), count(T0)])
    close()
    const reason = expect.any(StoreError)
    const rejected = { status: 'rejected', reason } as const
    expect(await waiting).toEqual([rejected, rejected])
    expect(failures).toEqual([])
  })
})

const rowsOf = (ages: readonly number[]): TestRow[] =>
  ages.map((age, i) => ({ ip: `10.0.${i >> 8}.${i & 255}:80`, type: 'http', age }))

test('fresh rows are the rows that a query without time finds', () => {
  const list = listOf(rowsOf([0, 60, 599, 600, 601, 86_400, 10 ** 7]))
  expect(freshRows(list.breakdown(T0))).toBe(4)
})

test('a breakdown counts rows by type, by country and by age', () => {
  fc.assert(
    fc.property(countedRows, rows => {
      const list = listOf(rows)
      const { types, countries, ages } = list.breakdown(T0)
      const all = parsed(createStatsReader(list.db)(asking({ time: '999999999' })))
      const { type, country, age } = all.facets
      expect(Object.fromEntries(types.map(each => [each.type, each.count]))).toEqual(type)
      expect(Object.fromEntries(countries.map(each => [each.country, each.count]))).toEqual(country)
      const sizes = countries.map(each => each.count)
      expect(sizes).toEqual(sizes.toSorted((a, b) => b - a))
      const upTo = ages.map((_, i) =>
        ages.slice(0, i + 1).reduce((sum, { count }) => sum + count, 0),
      )
      expect(upTo).toEqual(ages.map(({ seconds }) => age[seconds ?? ''] ?? -1))
      list.close()
    }),
    { numRuns: 50 },
  )
})
