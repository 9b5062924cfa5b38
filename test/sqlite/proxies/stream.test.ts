/** Holds how queries and chunks of streams share the one worker, and what becomes of its failures. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Tenant } from '../../../src/access/entitlements.ts'
import {
  type AnswerStream,
  bodyOf,
  createAnswerRenderer,
  type Sent,
} from '../../../src/api/answer.ts'
import { ApiError } from '../../../src/api/errors.ts'
import { createQueryReader, type Query } from '../../../src/api/query.ts'
import { StoreError } from '../../../src/lib/errors.ts'
import { addressText } from '../../../src/proxies/proxy.ts'
import { AT } from '../../../src/proxies/row.ts'
import { PROXY_FILE } from '../../../src/sqlite/data-directory.ts'
import { isDamage } from '../../../src/sqlite/errors.ts'
import { createStreamer } from '../../../src/sqlite/proxies/stream.ts'
import type { SlotLimits } from '../../../src/sqlite/proxies/stream-slots.ts'
import { openList } from '../../../src/sqlite/stores.ts'
import { fillList, T0, type TestRow } from '../../support/fixtures.ts'
import { TENANT } from '../../support/limits.ts'
import { endpointOf } from '../../support/rows.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

const PROVIDER = 'the service'
const AT_T0 = { nowMs: T0, addressBits: 32 } as const
const ENTITLEMENTS = {
  ...({ countMax: null, worksDefault: null, addressBits: 32, streamsMax: null } as const),
}

const QUERY = createQueryReader(PROVIDER)('get=json', 'k', ENTITLEMENTS)
const rowsOf = (length: number) =>
  Array.from({ length }, (_, n) => ({
    ip: `10.${n % 3}.${n >> 8}.${n & 255}:80`,
    type: 'http',
    city: ['Кёльн', 'São "Paulo"', undefined][n % 3],
    city_en: ['Cologne', undefined][n % 2],
    age: n % 7,
    ping: n % 5 === 0 ? undefined : (n % 50) / 1000,
    speed: n % 3 === 0 ? undefined : (n % 11) * 100,
    works: n % 4 === 0 ? undefined : n % 101,
  }))
const ROWS = rowsOf(5_000)

type Options = { rows?: readonly TestRow[]; limits?: Partial<SlotLimits>; verify?: () => void }

/** A streamer of a list, asked for all of its rows. */
function streamerOf({ rows = ROWS, limits, verify = () => {} }: Options = {}) {
  const dir = temporaryDirectory()
  const file = join(dir, PROXY_FILE)
  const list = openList(dir)
  fillList(list, rows)
  const failures: unknown[] = []
  const streamer = createStreamer(
    { file, provider: PROVIDER },
    { verify, onFailure: error => void failures.push(error) },
    limits,
  )
  return {
    file,
    failures,
    ask: (query = QUERY, tenant = TENANT) => streamer.stream(query, T0, true, tenant),
    matches: (query: Query) => streamer.matches(query, T0),
    find: list.proxies.findAll,
    clear: () => void list.begin('replace').commit(),
    closeList: list.close,
    [Symbol.dispose](): void {
      streamer.close()
      list.close()
    },
  }
}
type Streamer = ReturnType<typeof streamerOf>

/** One for all tests that only ask. */
let shared: Streamer | null = null
function usual(): Streamer {
  shared ??= streamerOf()
  return shared
}
afterAll(() => shared?.[Symbol.dispose]())
afterAll(cleanUp)

/** The stream of an answer that is one. */
async function streamOf(asked: ReturnType<Streamer['ask']>): Promise<AnswerStream> {
  const answer = await asked
  if (answer.kind !== 'stream') throw new Error('the answer is not a stream')
  return answer
}

/** The ApiError that a query is refused with. */
async function refusalOf(asked: Promise<unknown>): Promise<readonly unknown[]> {
  const refusal = await asked.catch((error: unknown) => error)
  if (!(refusal instanceof ApiError)) throw new Error('it was answered')
  return [refusal.code, refusal.context]
}
const REFUSED = ['DB_EXECUTE_FAILED', { retryAfterSeconds: 1 }]

test.each([
  'get=json',
  'get=json&wrap=1&pretty=0&lang=en',
  'get=json&format=object&split_ip=1',
  'get=json&fields=ip,city&count=4000',
  'type_prefix=1',
  'get=csv',
  'get=csv&split_ip=1&fields=ip,port,city&lang=en',
  'get=ndjson',
  'get=ndjson&fields=city,works&count=1001',
  ...['checked', 'ping', 'speed', 'works'].flatMap(sort => [
    `sort=${sort}`,
    `sort=${sort}&get=json&wrap=1`,
    `sort=${sort}&get=csv&count=1001&ping=40`,
    `sort=${sort}&get=ndjson&count=4000`,
  ]),
])('a stream equals the whole rendered answer, and has its totals: %s', async text => {
  const streamer = usual()
  const query = createQueryReader(PROVIDER)(text, 'k', ENTITLEMENTS)
  const found = streamer.find(query.filter, AT_T0)
  const { answer } = createAnswerRenderer(PROVIDER)(query, found)
  const stream = await streamOf(streamer.ask(query))
  expect(stream.totals).toEqual({ records: answer.records, subnets: answer.subnets })
  const sent = Promise.withResolvers<Sent>()
  const body = await new Response(stream.open(sent.resolve)).bytes()
  expect(Buffer.from(body).equals(Buffer.from(bodyOf(answer, T0)))).toBeTrue()
  expect(await sent.promise).toEqual({
    ...{ records: answer.records, bytes: body.length, isTruncated: false },
  })
})

describe('a stream in random order', () => {
  const asked = ['', 'get=json&wrap=1', 'get=csv&fields=ip', 'get=ndjson&count=1500&time=4']

  test.each(asked)('holds each proxy once, and has its own totals: %s', async text => {
    const streamer = usual()
    const query = createQueryReader(PROVIDER)(`sort=random&${text}`, 'k', ENTITLEMENTS)
    const { filter } = query
    const { rows } = streamer.find({ ...filter, sort: null, count: null }, AT_T0)
    const matching = new Set(rows.map(row => addressText(endpointOf(row))))
    const bodies: string[][] = []
    for (const _ of [1, 2]) {
      const stream = await streamOf(streamer.ask(query))
      const body = await new Response(stream.open(() => {})).text()
      const addresses = body.match(/\d+\.\d+\.\d+\.\d+:\d+/g) ?? []
      const networks = new Set(addresses.map(address => /^\d+\.\d+/.exec(address)?.[0]))
      expect(new Set(addresses).size).toBe(filter.count ?? matching.size)
      expect(addresses.every(address => matching.has(address))).toBe(true)
      expect(stream.totals?.records).toBe(addresses.length)
      expect(stream.totals?.subnets).toHaveLength(networks.size)
      bodies.push(addresses)
    }
    expect(bodies[0]).not.toEqual(bodies[1])
  })
})

describe('the source of a draw', () => {
  test('is all matches of a query, for any order and count', async () => {
    const streamer = usual()
    const query = createQueryReader(PROVIDER)('time=3&count=2&sort=ping', 'k', ENTITLEMENTS)
    const { ids, checkedAt } = await streamer.matches(query)
    const { rows } = streamer.find({ ...query.filter, sort: null, count: null }, AT_T0)
    expect(rows.length).toBeGreaterThan(1000)
    expect(Array.from(ids, (id, n) => [id, checkedAt[n]])).toEqual(
      rows.map(row => [row[AT.id], row[AT.checkedAt]]),
    )
    const masked = await streamer.matches({ ...query, addressBits: 16 })
    expect(masked.ids).toHaveLength(3)
  })
})

describe('the slots of a key', () => {
  const key = (id: string): Tenant => ({ id, isTrial: false, streamsMax: 4 })

  test('make an answer wait until another one has ended', async () => {
    using streamer = streamerOf()
    const order: string[] = []
    const ask = () => streamOf(streamer.ask(QUERY, { ...key('a'), streamsMax: 1 }))
    const [first, second] = [ask(), ask()]
    void second.then(() => order.push('the second begins'))
    const stream = await first
    await streamer.matches(QUERY) // the worker has done all that it was asked
    order.push('the first ends')
    await stream.cancel()
    await (await second).cancel()
    expect(order).toEqual(['the first ends', 'the second begins'])
  })
})

test('an answer that takes too long is refused with 503, and frees its slot', async () => {
  let isLate = true
  const later = (run: () => void) => {
    if (isLate) queueMicrotask(run) // before the worker can reply
    return () => {}
  }
  using streamer = streamerOf({ limits: { total: 1, later } })
  for (const asked of [streamer.ask(), streamer.matches(QUERY)]) {
    expect(await refusalOf(asked)).toEqual(REFUSED)
  }
  isLate = false
  const next = await streamOf(streamer.ask())
  expect(next.totals?.records).toBe(ROWS.length)
  await next.cancel()
  expect(await streamer.matches(QUERY)).toHaveProperty('ids')
  expect(streamer.failures).toEqual([])
})

describe('streams', () => {
  test('are masked for demo, each record once', async () => {
    const rows = Array.from({ length: 1_500 }, (_, n) => ({
      ...{ ip: `10.${n % 100}.0.${n & 255}:${1 + (n >> 1)}`, type: 'http' },
    }))
    using streamer = streamerOf({ rows })
    const query = createQueryReader(PROVIDER)('', 'k', { ...ENTITLEMENTS, addressBits: 16 })
    const stream = await streamOf(streamer.ask(query))
    const body = await new Response(stream.open(() => {})).text()
    const { answer } = createAnswerRenderer(PROVIDER)(
      query,
      streamer.find(query.filter, { ...AT_T0, addressBits: 16 }),
    )
    expect(body).toBe(bodyOf(answer, T0).toString())
    expect(stream.totals?.records).toBe(answer.records)
    expect(body).toMatch(/^10\.\d+\.0\.0:\d+$/m)
  })

  test('end their snapshot: the next answer reads the list again', async () => {
    using streamer = streamerOf()
    for (const _ of [1, 2, 3]) {
      const stream = await streamOf(streamer.ask())
      const reader = stream.open(() => {}).getReader()
      await reader.read()
      await reader.cancel()
    }
    streamer.clear()
    expect(await streamer.ask()).toMatchObject({ kind: 'rendered', answer: { records: 0 } })
  })

  test('end after ten minutes: the body fails, and the slot is free', async () => {
    const timers: (() => void)[] = []
    const later = (run: () => void, ms: number) => {
      if (ms === 600_000) timers.push(run)
      return () => {}
    }
    using streamer = streamerOf({ limits: { total: 1, later } })
    const sent: Sent[] = []
    const stream = await streamOf(streamer.ask())
    const reader = stream.open(each => void sent.push(each)).getReader()
    await reader.read()
    const waiting = streamOf(streamer.ask())
    timers[0]?.()
    expect(await reader.read().catch(() => 'failed')).toBe('failed')
    expect(sent).toMatchObject([{ isTruncated: true }])
    await (await waiting).cancel()
    expect(streamer.failures).toEqual([])
  })
})

describe('a failure of the worker is a StoreError', () => {
  const damage = 'is damaged; import the whole list again with: proxylist import --replace FILE'
  const LOSSES: readonly (readonly [string, (file: string) => void, string, isDamage: boolean])[] =
    [
      // Only the first page is left: the file opens, and reading it fails.
      [
        'overwritten',
        file => writeFileSync(file, readFileSync(file).fill(255, 4096)),
        damage,
        true,
      ],
      ['removed', file => rmSync(file), 'is missing', false],
    ]
  test.each(LOSSES)(
    'that says whether the list is damaged when it is %s',
    async (_, lose, says, is) => {
      using streamer = streamerOf()
      streamer.closeList()
      lose(streamer.file)
      const thrown = await streamer.ask().catch((error: unknown) => error)
      if (!(thrown instanceof StoreError)) throw new Error(`not a StoreError: ${thrown}`)
      expect(thrown.message).toStartWith(`${streamer.file} ${says}`)
      expect(thrown.isDamage).toBe(is)
      expect(streamer.failures.map(isDamage)).toEqual([is])
    },
  )

  // The chunk after the first has been rendered by then: it must not be sent either.
  test.each([0, 1])('when the list must no longer be shown, after %d chunks', async chunks => {
    let failure: StoreError | null = null
    using streamer = streamerOf({
      verify() {
        if (failure) throw failure
      },
    })
    const reader = (await streamOf(streamer.ask())).open(() => {}).getReader()
    for (let n = 0; n < chunks; n += 1) expect((await reader.read()).done).toBeFalse()
    failure = new StoreError('replaced')
    expect(await reader.read().catch((error: unknown) => error)).toBe(failure)
    expect(await streamer.ask().catch((error: unknown) => error)).toBe(failure)
    expect(streamer.failures).toEqual([failure, failure])
  })
})
