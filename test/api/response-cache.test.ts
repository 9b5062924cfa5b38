/**
 * The response cache against an uncached twin on the same list, whatever is imported, requested
 * and done to the clock; that answers are really cached, exactly as long as they are right; and what its
 * entries count.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Entitlements, entitlementsOf } from '../../src/access/entitlements.ts'
import { BUILT_IN_PLANS } from '../../src/access/plan.ts'
import {
  type Answer,
  type AnswerStream,
  type AnswerStreamer,
  bodyOf,
  createAnswerRenderer,
} from '../../src/api/answer.ts'
import type { Query } from '../../src/api/query.ts'
import { createCacheEntries, createResponseCache } from '../../src/api/response-cache.ts'
import { createDoorkeeper } from '../../src/lib/bounded-map.ts'
import type { Encoding } from '../../src/lib/compression.ts'
import { ANONS, type IncomingProxy, SERVICES } from '../../src/proxies/proxy.ts'
import type { ProxyReader } from '../../src/proxies/store.ts'
import { type List, openList } from '../../src/sqlite/stores.ts'
import { fillList, listOf, T0, type TestRow } from '../support/fixtures.ts'
import { DEMO as DEMO_CALLER, TENANT, temp } from '../support/limits.ts'
import { NO_STREAMER, nextTurn, PROVIDER, queryOf, REGULAR, readerOf } from '../support/streamer.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const DEMO = entitlementsOf(DEMO_CALLER)

const DECODERS: { [E in Encoding]: (body: Uint8Array) => Uint8Array } = {
  gzip: body => Bun.gunzipSync(Uint8Array.from(body)),
  zstd: body => Bun.zstdDecompressSync(body),
}

/** Stores every answer at its first request. */
const AT_ONCE: ReturnType<typeof createDoorkeeper> = () => true

/** `select`: the reader finds all, only quick answers as in the server, or nothing. */
type Parts = {
  bytesMax?: number
  select?: 'all' | 'quickly' | 'nothing'
  isRepeated?: typeof AT_ONCE
  /** Called by the streamer once it has read. */
  beforeReply?: () => Promise<unknown>
}

/** A cache over a list; `finds` counts reads of the list, `asked` lists the calls of the streamer. */
function cacheOver(list: List, parts: Parts = {}) {
  const { bytesMax = 2 ** 20, select = 'all', isRepeated = AT_ONCE } = parts
  const { beforeReply = async () => {} } = parts
  const { findAll, findQuickly, matches } = list.proxies
  let finds = 0
  const asked: string[] = []
  const render = createAnswerRenderer(PROVIDER)
  const reader: ProxyReader = {
    ...readerOf(list),
    find(filter, options) {
      finds += 1
      if (select === 'all') return findAll(filter, options)
      return (select === 'quickly' && findQuickly(filter, options)) || 'must-stream'
    },
  }
  const streamer: AnswerStreamer = {
    async stream(query, nowMs) {
      asked.push('stream')
      const { filter, addressBits } = query
      const answer = render(query, findAll(filter, { nowMs, addressBits }))
      await beforeReply()
      return { kind: 'rendered', ...answer }
    },
    async matches({ filter, addressBits }, nowMs) {
      asked.push('matches')
      const found = matches(filter, { nowMs, addressBits })
      await beforeReply()
      return found
    },
    refuseWaiting() {},
  }
  const cache = createResponseCache({ reader, streamer, provider: PROVIDER, bytesMax }, isRepeated)
  const find = async (query: Query, nowMs = T0): Promise<Answer | null> => {
    const found = await cache.find(query, nowMs, true, () => TENANT)
    if (found === null || found.kind === 'answer') return found
    throw new Error('neither an answer nor null')
  }
  return {
    ...{ find, finds: () => finds },
    /** The calls of the streamer since the last look. */
    asked: (): string[] => asked.splice(0),
    compress: async (query: Query, answer: Answer, nowMs: number, encoding: Encoding) =>
      cache.compressed(query, answer, encoding, nowMs),
    /** The addresses of an answer. */
    addresses: async (query: Query, nowMs = T0): Promise<string[]> =>
      textOf(await find(query, nowMs), nowMs)?.match(/\d+\.\d+\.\d+\.\d+:\d+/g) ?? [],
  }
}
type Cache = ReturnType<typeof cacheOver>

/** The answer to a query that has one. */
async function answerTo(cache: Cache, query: Query): Promise<Answer> {
  const answer = await cache.find(query, T0)
  if (answer === null) throw new Error('nothing matched')
  return answer
}

const textOf = (answer: Answer | null, nowMs: number): string | null =>
  answer && Buffer.from(bodyOf(answer, nowMs)).toString()

/** The older row is the better one in every order but by age. */
const OLD_AND_YOUNG: readonly TestRow[] = [
  { ip: '10.1.0.1:80', type: 'http', age: 100, ping: 2, speed: 10, works: 50 },
  { ip: '10.2.0.2:80', type: 'socks5', age: 300, ping: 1, speed: 20, works: 99 },
]

const MANY = Array.from({ length: 250 }, (_, i) => ({ ip: `10.9.0.${i}:3128`, type: 'http' }))

/** Asks at `first` and at `again`, in seconds; says whether the first answer was used again. */
async function isReused(text: string, first: number, again: number): Promise<boolean> {
  const cache = cacheOver(listOf(OLD_AND_YOUNG))
  const query = queryOf(text)
  const before = await cache.find(query, T0 + first * 1000)
  const after = await cache.find(query, T0 + again * 1000)
  const isDrawn = query.filter.sort === 'random'
  expect(before === after || isDrawn || cache.finds() === 2).toBe(true)
  return cache.finds() === 1
}

const REUSES: readonly (readonly [text: string, first: number, again: number, is: boolean])[] = [
  ['', 0, 0, true],
  ['', 0, 300, true], // the older row is 600 s old
  ['', 0, 300.001, false],
  ['', 0.001, 299.999, true],
  ['', 0, 301, false],
  ['time=900', 0, 600, true],
  ['time=900', 0, 601, false],
  ['time=0', 0, 1e6, true], // nothing matches, and nothing will
  ['count=1', 0, 500, true], // the younger row alone counts
  ['count=1', 0, 501, false],
  ['type=http', 0, 500, true],
  ['type=socks5', 0, 301, false],
  ['type=socks4', 0, 1e6, true],
  ['', 10, 9, false], // a row that was too old may be young enough
  ['', 10, 9.001, true], // all ages are rounded up
  ['', 10.9, 10.1, true],
  ['', 10.9, 10, false],
  ['type=socks4', 10, 9, false],
  ['get=json&wrap=1', 0, 300, true],
  ['get=json&wrap=1', 0, 301, false],
  ['get=ndjson', 0, 300, true],
  ['get=ndjson', 0, 301, false],
  // A row in it ages out, and another enters, though it was older when the answer was made.
  ...['ping', 'speed', 'works'].flatMap(
    sort =>
      [
        [`sort=${sort}&count=1`, 0, 300, true],
        [`sort=${sort}&count=1`, 0, 301, false],
        [`sort=${sort}`, 0, 300, true],
        [`sort=${sort}`, 0, 301, false],
        [`sort=${sort}&count=1&type=http`, 0, 500, true],
        [`sort=${sort}&type=socks4`, 0, 1e6, true],
        [`sort=${sort}&count=1`, 10, 9, false],
      ] as const,
  ),
  ['sort=checked&count=1', 0, 500, true], // a row outside it ages out: nothing changes
  // What a draw is made from is used again, whatever has aged out, for every count and form.
  ['sort=random', 0, 301, true],
  ['sort=random&count=1', 0, 501, true],
  ['sort=random&get=json', 0, 1e6, true],
  ['sort=random', 10, 9, false],
]

describe('a cached answer', () => {
  test.each(REUSES)('to %p of T0 + %p s is used again at T0 + %p s: %p', async (text, a, b, is) => {
    expect(await isReused(text, a, b)).toBe(is)
  })
})

describe('an answer', () => {
  const QUERY = queryOf('')
  const cacheOf = (list: List, more: Parts = {}) =>
    cacheOver(list, { isRepeated: createDoorkeeper(), ...more })

  test('is stored at the second request', async () => {
    const cache = cacheOf(listOf(OLD_AND_YOUNG))
    const first = await answerTo(cache, QUERY)
    const second = await answerTo(cache, QUERY)
    expect(second).toMatchObject(first ?? {})
    expect([await answerTo(cache, QUERY), cache.finds()]).toEqual([second, 2])
  })

  test('is stored at once when it replaces an outdated one', async () => {
    const list = listOf(OLD_AND_YOUNG)
    const cache = cacheOf(list)
    for (const _ of [1, 2]) await answerTo(cache, QUERY)
    const late = T0 + 301_000
    expect(await cache.find(QUERY, late)).toBe(await cache.find(QUERY, late))
    expect(cache.finds()).toBe(3)
    fillList(list, [{ ip: '10.3.0.3:80', type: 'http' }])
    await nextTurn()
    expect(await answerTo(cache, QUERY)).toBe(await answerTo(cache, QUERY))
    expect(cache.finds()).toBe(4)
  })

  test('requested once does not replace one that is requested often', async () => {
    const cache = cacheOf(listOf(OLD_AND_YOUNG), { bytesMax: 8192 })
    for (const _ of [1, 2]) await answerTo(cache, QUERY)
    for (let port = 1; port <= 1000; port += 1) await cache.find(queryOf(`port=${port}`), T0)
    const before = cache.finds()
    await answerTo(cache, QUERY)
    expect(cache.finds()).toBe(before)
  })
})

describe('the size limit', () => {
  /** How often the list is read for two rounds of these queries. */
  async function findsOf(bytesMax: number, queries: readonly string[]): Promise<number> {
    const cache = cacheOver(listOf(MANY), { bytesMax })
    for (const query of [...queries, ...queries]) await cache.find(queryOf(query), T0)
    return cache.finds()
  }

  test('of 0 stores nothing, not even an empty result', async () => {
    expect(await findsOf(0, ['', 'type=socks5'])).toBe(4)
  })

  test('keeps out only larger bodies', async () => {
    expect(await findsOf(8192, ['get=json'])).toBe(2)
    expect(await findsOf(8192, ['count=1', 'get=json'])).toBe(3)
    expect(await findsOf(2 ** 20, ['count=1', 'get=json'])).toBe(2)
  })

  test('counts an overhead, so that it limits empty answers too', async () => {
    const queries = Array.from({ length: 100 }, (_, i) => `type=socks5&port=${i + 1}`)
    expect(await findsOf(8192, queries)).toBe(200)
    expect(await findsOf(2 ** 20, queries)).toBe(100)
  })
})

const STREAM: AnswerStream = {
  ...{ kind: 'stream', totals: null },
  open: () => new ReadableStream(),
  cancel: async () => {},
}

/** A cache whose reader finds nothing and whose streamer streams all, and what both were asked. */
function streamingCache(list: List) {
  let finds = 0
  const streamed: boolean[] = []
  const find = (): 'must-stream' => {
    finds += 1
    return 'must-stream'
  }
  const streamer: AnswerStreamer = {
    ...NO_STREAMER,
    async stream(_, __, needsTotals) {
      streamed.push(needsTotals)
      return STREAM
    },
  }
  const reader = { ...readerOf(list), find }
  const cache = createResponseCache({ reader, streamer, provider: PROVIDER, bytesMax: 2 ** 20 })
  return { ...cache, streamed, finds: () => finds }
}

describe('an answer that must be streamed', () => {
  test('is streamed each time, and tried once as long as the list is unchanged', async () => {
    const list = listOf(OLD_AND_YOUNG)
    const cache = streamingCache(list)
    for (const later of [0, 1, 1e9, -1e9]) {
      expect(await cache.find(queryOf(''), T0 + later * 1000, false, () => TENANT)).toBe(STREAM)
    }
    expect([cache.finds(), cache.streamed.length]).toEqual([1, 4])
    fillList(list, [{ ip: '10.3.0.3:80', type: 'http' }])
    await nextTurn()
    expect(await cache.find(queryOf(''), T0, false, () => TENANT)).toBe(STREAM)
    expect([cache.finds(), cache.streamed.length]).toEqual([2, 5])
  })

  test.each([
    ['', false, false],
    ['', true, true],
    ['get=json', false, false],
    ['get=json&wrap=1', false, true], // the envelope says how many
  ])('to %p, with subnets needed: %p, has totals: %p', async (text, needs, totals) => {
    const cache = streamingCache(listOf(OLD_AND_YOUNG))
    await cache.find(queryOf(text), T0, needs, () => TENANT)
    expect(cache.streamed).toEqual([totals])
  })
})

/** Rows in 300 /16 networks; every second one is of socks5, and each is a second older. */
const LONG: readonly TestRow[] = Array.from({ length: 3000 }, (_, i) => ({
  ip: `${10 + (i % 3)}.${i % 100}.${i >> 8}.${i & 255}:80`,
  ...{ type: i % 2 === 0 ? 'http' : 'socks5', age: i },
}))
const DRAW = 'time=9999&sort=random'

describe('an answer of the streamer', () => {
  test.each(['type=http', 'type=https', `${DRAW}&count=1`])(
    'is not stored when the list changes meanwhile: %s',
    async text => {
      const list = listOf(OLD_AND_YOUNG)
      const beforeReply = (): Promise<void> => {
        list.proxies.shiftChecks(1)
        return nextTurn()
      }
      const cache = cacheOver(list, { select: 'nothing', beforeReply })
      for (const _ of [1, 2]) {
        expect((await cache.find(queryOf(text)))?.records ?? 0).toBe(text === 'type=https' ? 0 : 1)
        expect(cache.asked()).toHaveLength(1)
      }
    },
  )

  test('for a draw holds all matches, which serve every count and format', async () => {
    const list = listOf(LONG)
    const cache = cacheOver(list, { select: 'nothing' })
    const drawn = new Set<string>()
    const forms = ['', 'type_prefix=1', 'get=json', 'get=csv', 'get=ndjson&fields=ip,city']
    for (const form of forms) {
      for (const count of [1, 2, 1000]) {
        const addresses = await cache.addresses(queryOf(`${DRAW}&count=${count}&${form}`))
        expect(new Set(addresses).size).toBe(count)
        drawn.add(addresses.join())
      }
    }
    expect(drawn.size).toBe(forms.length * 3)
    expect(cache.asked()).toEqual(['matches'])
    fillList(list, [{ ip: '192.0.2.1:1', type: 'http' }])
    await nextTurn()
    await cache.find(queryOf(`${DRAW}&count=1000`))
    expect(cache.asked()).toEqual(['matches'])
    const small = cacheOver(list, { select: 'nothing', bytesMax: 16 * 1024 })
    for (let n = 0; n < 3; n += 1) await small.find(queryOf(`${DRAW}&count=1`))
    expect(small.asked()).toHaveLength(3)
  })

  test('for a draw of more than a thousand is the answer itself', async () => {
    const cache = cacheOver(listOf(LONG), { select: 'nothing' })
    for (const [count, most] of [
      ['', 3000],
      ['&count=1001', 1001],
    ] as const) {
      expect(await cache.addresses(queryOf(DRAW + count))).toHaveLength(most)
    }
    expect(cache.asked()).toEqual(['stream', 'stream'])
  })

  test('has no record that another process changed in the same turn', async () => {
    const dir = temporaryDirectory()
    const [writer, list] = [openList(dir), openList(dir, { isServer: true })]
    for (const { close } of [writer, list]) onCleanUp(close)
    fillList(writer, LONG)
    await nextTurn()
    const cache = cacheOver(list, { select: 'nothing' })
    const query = queryOf(`type=socks5&${DRAW}&count=1000&get=ndjson`)
    for (let n = 0; n < 3; n += 1) await cache.find(query)
    list.proxies.version() // read once in this turn
    fillList(writer, LONG.map(row => ({ ...row, type: 'http', age: 0 })).slice(0, 2000), 'set')
    const found = await cache.addresses(query)
    expect(found).toHaveLength(500)
    expect(cache.asked()).toContain('stream')
    const left = new Set(LONG.slice(2000).map(({ ip }) => ip))
    expect(found.every(address => left.has(address))).toBe(true)
  })
})

test('a read by ids fails when a row was removed or is too old', () => {
  const { proxies } = listOf(LONG)
  const { filter } = queryOf('type=http')
  const at = { nowMs: T0, addressBits: 32 } as const
  const all = proxies.findAll(filter, at).rows.map(([id]) => id)
  const some = [all[5] ?? 0, all[2] ?? 0, all[5] ?? 0, all[0] ?? 0]
  expect(proxies.findByIds(filter, at, some)?.rows.map(([id]) => id)).toEqual(some)
  expect(proxies.findByIds(filter, at, [...some, 1])).toBeNull()
  expect(proxies.findByIds(queryOf('type=https').filter, at, some)).toBeNull()
  const oldest = all.at(-1) ?? 0
  expect(proxies.findByIds(filter, at, [oldest])?.rows).toHaveLength(1)
  expect(proxies.findByIds(filter, { ...at, nowMs: T0 + 3000 }, [oldest])).toBeNull()
})

const answerOf = (bytes: number): Answer => ({
  ...{ kind: 'answer', records: 1, subnets: [] },
  chunks: [new Uint8Array(bytes)],
})

/** Entries that hold an answer of 1,000 bytes for each of these ids, right for one version. */
function holding(bytesMax: number, ids: readonly string[]) {
  const entries = createCacheEntries(bytesMax)
  for (const id of ids) {
    const content = answerOf(1000)
    entries.set(id, { content, listVersion: 'v', fromSeconds: 0, toSeconds: 10 })
  }
  return entries
}

test('an entry that makes room counts as evicted; a replaced entry does not', () => {
  const entries = holding(5000, ['a', 'b', 'b'])
  expect(entries.counts()).toMatchObject({ evictions: 0, entries: 2 })
  const { bytes } = entries.counts()
  const full = holding(5000, ['a', 'b', 'c', 'd'])
  expect(full.counts()).toEqual({
    ...{ hits: 0, misses: 0, evictions: 2, entries: 2 },
    ...{ bytes, bytesMax: 5000 },
  })
  expect(full.has('a')).toBeFalse()
})

test('an answer counts with its compressed bodies, which are stored while they fit', () => {
  const entries = createCacheEntries(5000)
  const content = answerOf(1000)
  entries.set('a', { content, listVersion: 'v', fromSeconds: 0, toSeconds: 10 })
  const { bytes } = entries.counts()
  entries.keepBody('a', content, 'gzip', new Uint8Array(500))
  entries.keepBody('a', content, 'zstd', new Uint8Array(5000))
  expect(entries.counts()).toMatchObject({ bytes: bytes + 500, entries: 1, evictions: 0 })
  expect([content.gzip?.length, content.zstd]).toEqual([500, undefined])
})

/** What can happen; times in seconds, ages relative to the clock at that moment. */
type Step =
  | { kind: 'ask'; which: number; encoding: Encoding | null }
  | { kind: 'import'; rows: readonly Row[]; replace: boolean }
  | { kind: 'clock'; ms: number }
  | { kind: 'remove'; olderThan: number }
  | { kind: 'shift'; seconds: number }
type Row = Omit<IncomingProxy, 'checkedAt'> & { age: number }

const CITIES = [
  { city: '', cityEn: '' },
  { city: 'Берлин', cityEn: 'Berlin' },
  { city: 'Köln', cityEn: '' },
]
const services = fc.subarray([...SERVICES]).map(chosen => new Set(chosen))

const anyAge = fc.integer({ min: -20, max: 700 })

/** Few addresses, of which some are the same when masked. */
const row: fc.Arbitrary<Row> = fc
  .record({
    ip: fc.constantFrom('10.1.0.1', '10.1.0.2', '10.1.9.1', '10.2.0.1', '192.0.2.1', '192.0.2.7'),
    port: fc.constantFrom(80, 1080),
    ipOut: fc.constantFrom('', '10.1.7.7', '2001:db8::1'),
    types: fc.integer({ min: 1, max: 15 }),
    anon: fc.constantFrom('' as const, ...ANONS),
    speed: fc.constantFrom(null, 0, 500),
    pingMs: fc.constantFrom(null, 0, 250),
    country: fc.constantFrom('', 'DE', 'US'),
    city: fc.constantFrom(...CITIES),
    works: fc.constantFrom(null, 0, 90, 100),
    services,
    servicesStated: services,
    age: anyAge,
  })
  .map(({ city, ...rest }) => ({ ...rest, ...city }))

const PARAMETERS: readonly string[] = [
  ...['type=http', 'type=http,socks5', 'anon=elite', 'ping=250', 'speed=1', 'works=90'],
  ...['time=0', 'time=60', 'time=300', 'time=86400', 'country=de', 'cm=except', 'city=berlin'],
  ...['city=k%C3%B6ln', 'port=80', 'ip=10.1.0.0:80', 'ip=10.2.0.1:80', 'service=smtp'],
  ...['count=1', 'count=2', 'count=5', 'lang=en', 'type_prefix=1', 'fields=ip,timecheck'],
  ...['split_ip=1', 'format=object', 'wrap=1', 'pretty=0', 'get=json', 'get=txt.file'],
  ...['get=csv', 'get=ndjson', 'sort=ping', 'sort=speed', 'sort=works', 'sort=random'],
]
const FORMS = ['', 'get=json', 'get=csv', 'get=ndjson', 'sort=ping', 'sort=works', 'sort=random']
const someQuery = fc
  .tuple(fc.subarray([...PARAMETERS], { maxLength: 5 }), fc.constantFrom(...FORMS))
  .map(([parameters, get]) => {
    const named = new Map([...parameters, get].map(text => [text.split('=')[0], text]))
    return [...named.values()].join('&')
  })
const someEntitlements = fc.constantFrom<Entitlements>(
  REGULAR,
  REGULAR,
  DEMO,
  entitlementsOf(temp()),
  ...BUILT_IN_PLANS.map(plan =>
    entitlementsOf({ kind: 'regular', id: 'x', plan: { ...plan, count: 3 } }),
  ),
)
/** The few queries of one run: each is asked many times. */
const someQueries = fc.array(
  fc.tuple(someQuery, someEntitlements).map(([text, under]) => queryOf(text, under)),
  { minLength: 1, maxLength: 9 },
)

const stepOf = <K extends string, T>(kind: K, parts: { [N in keyof T]: fc.Arbitrary<T[N]> }) =>
  fc.record(parts).map(all => ({ kind, ...all }))
const rows = fc.array(row, { minLength: 1, maxLength: 6 })
const encodings = fc.constantFrom(null, 'gzip', 'zstd')
const near = fc.integer({ min: -3000, max: 3000 })
const far = fc.integer({ min: -700_000, max: 700_000 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 9, arbitrary: stepOf('ask', { which: fc.nat(8), encoding: encodings }) },
  { weight: 3, arbitrary: stepOf('import', { rows, replace: fc.boolean() }) },
  { weight: 4, arbitrary: stepOf('clock', { ms: fc.oneof(near, far) }) },
  { weight: 1, arbitrary: stepOf('remove', { olderThan: anyAge }) },
  { weight: 1, arbitrary: stepOf('shift', { seconds: fc.integer({ min: -300, max: 300 }) }) },
)

const shownOf = (answer: Answer | null, nowMs: number) =>
  answer && { records: answer.records, subnets: [...answer.subnets], body: textOf(answer, nowMs) }

/** What a client gets compressed is the body, cached or not. */
async function checkCompressed(
  cache: Cache,
  { query, answer, nowMs }: { query: Query; answer: Answer; nowMs: number },
  encoding: Encoding | null,
): Promise<void> {
  if (encoding === null) return
  const body = Buffer.from(bodyOf(answer, nowMs))
  for (const _ of ['first', 'again']) {
    const compressed = await cache.compress(query, answer, nowMs, encoding)
    expect(Buffer.from(DECODERS[encoding](compressed ?? new Uint8Array())).equals(body)).toBe(true)
  }
}

/** Each draw has as many records as it should, each once, and all of them match now. */
async function expectDrawn(
  query: Query,
  nowMs: number,
  [fresh, ...cached]: readonly [Cache, ...Cache[]],
): Promise<void> {
  const { filter, output } = query
  const bare = { ...output, fields: ['ip'], splitIp: false, wrap: false, shape: 'array' } as const
  const drawn = { ...query, id: `${query.id} bare`, output: bare }
  const all = { ...drawn, id: '', filter: { ...filter, sort: null, count: null } }
  const matching = await fresh.addresses(all, nowMs)
  for (const cache of [fresh, ...cached, ...cached]) {
    const found = await cache.addresses(drawn, nowMs)
    expect(found).toHaveLength(Math.min(filter.count ?? matching.length, matching.length))
    expect(new Set(found).size).toBe(found.length)
    expect(matching).toEqual(expect.arrayContaining(found))
    expect((await cache.find(query, nowMs))?.records ?? 0).toBe(found.length)
  }
}

/**
 * A list, and three caches beside an uncached twin; imports go through the list `importing`. Two caches read
 * as the server does, for one of them all must be streamed; the twin reads all of the list.
 */
function createWorld(list: List, importing: List, queries: readonly Query[]) {
  const isRepeated = createDoorkeeper()
  const fresh = cacheOver(list, { bytesMax: 0 })
  const large = cacheOver(list, { select: 'quickly', isRepeated: createDoorkeeper() })
  const tiny = cacheOver(list, { select: 'quickly', bytesMax: 8192, isRepeated })
  const streaming = cacheOver(list, { select: 'nothing' })
  let nowMs = T0

  async function ask(query: Query, encoding: Encoding | null): Promise<void> {
    if (query.filter.sort === 'random')
      return expectDrawn(query, nowMs, [fresh, large, tiny, streaming])
    const expected = shownOf(await fresh.find(query, nowMs), nowMs)
    for (const cache of [large, tiny, streaming]) {
      const answer = await cache.find(query, nowMs)
      expect(shownOf(answer, nowMs)).toEqual(expected)
      if (answer !== null) await checkCompressed(cache, { query, answer, nowMs }, encoding)
    }
    await large.find(query, nowMs) // the second request at least: now it is stored
    const { finds } = large
    const before = finds()
    expect(shownOf(await large.find(query, nowMs), nowMs)).toEqual(expected)
    expect(finds()).toBe(before)
  }

  async function importRows({ rows, replace }: Step & { kind: 'import' }): Promise<void> {
    const target = importing.begin(replace ? 'replace' : 'merge')
    const seconds = Math.floor(nowMs / 1000)
    for (const { age, ...proxy } of rows) target.add({ ...proxy, checkedAt: seconds - age })
    await target.commit()
  }

  return async function take(step: Step): Promise<void> {
    const query = step.kind === 'ask' && queries[step.which % queries.length]
    if (query) return ask(query, step.encoding)
    if (step.kind === 'clock') nowMs += step.ms
    if (step.kind === 'import') await importRows(step)
    if (step.kind === 'remove') list.proxies.removeStale(step.olderThan * 1000, nowMs)
    if (step.kind === 'shift') list.proxies.shiftChecks(step.seconds)
    await nextTurn()
  }
}

const steps = fc.array(step, { minLength: 5, maxLength: 40 })

describe('a cached answer always equals a fresh one', () => {
  async function follow(list: List, importing: List): Promise<void> {
    const property = fc.asyncProperty(someQueries, steps, async (asked, taken) => {
      await importing.begin('replace').commit()
      await nextTurn()
      const take = createWorld(list, importing, asked)
      for (const step of taken) await take(step)
    })
    await fc.assert(property, { numRuns: 80 })
  }

  test('with a list in memory', async () => {
    const list = listOf([])
    await follow(list, list)
  })

  test('with a list in files that another process imports into', async () => {
    const dir = temporaryDirectory()
    const [list, importing] = [openList(dir, { isServer: true }), openList(dir)]
    for (const { close } of [list, importing]) onCleanUp(close)
    await follow(list, importing)
  })
})
