/** A request of the list from top to bottom (src/http/api.ts): which refusal it gets, and what counts (contract A2). */
import { afterAll, describe, expect, test } from 'bun:test'
import type { UsageStore } from '../../src/access/ports.ts'
import type { AnswerStream, AnswerStreamer, Totals } from '../../src/api/answer.ts'
import { ApiError, type ErrorCode } from '../../src/api/errors.ts'
import { StoreError } from '../../src/lib/errors.ts'
import type { ProxyReader } from '../../src/proxies/store.ts'
import type { Answer } from '../support/answer.ts'
import { ASK, dataDirectory, type Limits, type TestRow } from '../support/fixtures.ts'
import { type Exchange, startInProcess } from '../support/in-process.ts'
import type { Service } from '../support/service.ts'
import { NO_STREAMER } from '../support/streamer.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = [
  { ip: '10.1.0.1:80', type: 'http' },
  { ip: '10.2.0.1:80', type: 'http' },
]
const BURST: Partial<Limits> = { burst: { requests: 2, seconds: 60 }, daily: 3 }
const ALL_LEFT = 'burst 2, daily 3'
const ONE_LESS = 'burst 1, daily 2'
const TWO_LESS = 'burst 0, daily 1'

const start = (limits: Partial<Limits>, exchange?: Exchange): Promise<Service> =>
  startInProcess(dataDirectory(ROWS, limits), {}, exchange)

/** The error code, `ok` for none, and the rest of each limit by the field `RateLimit`. */
function outcomeOf({ status, text, headers }: Answer): [code: string, left: string] {
  const code = status === 200 ? 'ok' : JSON.parse(text).code
  const left = (headers.get('ratelimit') ?? '').matchAll(/"(\w+)";r=(\d+)/g)
  return [code, [...left].map(([, name, remaining]) => `${name} ${remaining}`).join(', ')]
}
const ask = async ({ request }: Service, query = ''): Promise<[code: string, left: string]> =>
  outcomeOf(await request(ASK + query))

test('the first check that fails decides', async () => {
  const service = await start({ burst: { requests: 1, seconds: 60 }, daily: 2, subnets: 1 })
  const codes: string[] = []
  for (const [seconds, path] of [
    [0, '/api?works=x'],
    [0, '/api?key=pl_x&works=x'],
    [0, '/api?key=temp_x&works=x'],
    [0, `${ASK}&count=1`],
    [0, `${ASK}&works=x`],
    [0, `${ASK}&port=9`],
    [60, `${ASK}&port=9`],
    [120, `${ASK}&port=9`],
    [86_400, `${ASK}&time=99999`],
  ] as const) {
    service.setClock(seconds)
    codes.push(outcomeOf(await service.request(path))[0])
  }
  expect(codes).toEqual([
    ...['KEY_MISSING', 'INVALID_KEY', 'TEMP_KEY_INVALID', 'ok', 'INVALID_PARAMETER'],
    ...['RATE_LIMIT_EXCEEDED', 'PROXIES_NOT_FOUND', 'DAILY_LIMIT_REACHED', 'SUBNET_LIMIT_REACHED'],
  ])
})

describe('a refusal shows the rest of each limit', () => {
  const BAD = { query: '&works=101', code: 'INVALID_PARAMETER' } as const
  test.each<{
    what: string
    limits?: Partial<Limits>
    /** Requests that are answered before. */
    before?: number
    query?: string
    code: ErrorCode
    left: string
  }>([
    { what: 'a bad query, which does not count', ...BAD, left: ALL_LEFT },
    { what: 'a bad query after a request', before: 1, ...BAD, left: ONE_LESS },
    { what: 'a full window', before: 2, code: 'RATE_LIMIT_EXCEEDED', left: TWO_LESS },
    {
      ...{ what: 'a full day', limits: { daily: 1 }, before: 1 },
      ...{ code: 'DAILY_LIMIT_REACHED', left: 'daily 0' },
    },
    {
      ...{ what: 'an answer without a match, which counts', query: '&port=9' },
      ...{ code: 'PROXIES_NOT_FOUND', left: ONE_LESS },
    },
    {
      ...{ what: 'too many networks, which counts', limits: { ...BURST, subnets: 1 } },
      ...{ code: 'SUBNET_LIMIT_REACHED', left: ONE_LESS },
    },
  ])('$what: $code', async ({ limits = BURST, before = 0, query, code, left }) => {
    const service = await start(limits)
    for (let i = 0; i < before; i += 1) expect((await ask(service))[0]).toBe('ok')
    expect(await ask(service, query)).toEqual([code, left])
  })
})

const FAILURE = new StoreError('access.db is locked')
const MISTAKE = new TypeError('a mistake of ours')

type Fail = () => never
const failWith = (thrown: Error) => (): never => {
  throw thrown
}
const ofUsage =
  (method: keyof UsageStore) =>
  (fail: Fail): Exchange =>
  ({ usage }) => ({ usage: { ...usage, [method]: fail } })
const ofUsageLater = (method: keyof UsageStore) => (fail: Fail) =>
  ofUsage(method)((async () => fail()) as unknown as Fail)
const ofReader =
  (method: keyof ProxyReader) =>
  (fail: Fail): Exchange =>
  ({ proxies }) => ({ proxies: { ...proxies, [method]: fail } })
const ofKeys =
  (fail: Fail): Exchange =>
  ({ keys }) => ({ keys: { ...keys, find: fail } })
/** All answers must be streamed, by a streamer that streams like this. */
const streaming =
  (stream: AnswerStreamer['stream'], more: Partial<AnswerStreamer> = {}): Exchange =>
  ({ proxies }) => ({
    proxies: { ...proxies, find: () => 'must-stream' },
    streamer: { ...NO_STREAMER, ...more, stream },
  })
const ofStreamer = (fail: Fail) => streaming(async () => fail(), { matches: async () => fail() })

describe.each([
  ['a store', FAILURE, 'DB_EXECUTE_FAILED', 'INVALID_PARAMETER'],
  ['our own code', MISTAKE, 'INTERNAL_ERROR', 'INTERNAL_ERROR'],
] as const)('when %s fails', (_, thrown, code, codeOfBad) => {
  const fail = failWith(thrown)
  const SUBNETS = { ...BURST, subnets: 5 }

  test.each<
    [what: string, query: string, exchange: (fail: Fail) => Exchange, limits?: Partial<Limits>]
  >([
    ['the usage, at admission', '', ofUsage('admit')],
    ['the usage, later, at admission', '', ofUsageLater('admit')],
    ['the version of the list', '', ofReader('version')],
    ['the list', '', ofReader('find')],
    ['the list, for a draw', '&sort=random', ofReader('find')],
    ['the list, for the reason of a 404', '&port=1', ofReader('explainEmpty')],
    ['the streamer', '', ofStreamer],
    ['the streamer, for a draw', '&sort=random&count=1', ofStreamer],
    ['the usage, for networks', '', ofUsage('consume'), SUBNETS],
    ['the usage, later, for networks', '', ofUsageLater('consume'), SUBNETS],
  ])('in %s, the request does not count', async (_, query, exchange, limits = BURST) => {
    const service = await start(limits, exchange(fail))
    expect(await ask(service, query)).toEqual([code, ALL_LEFT])
    // A store says itself that it fails, and once.
    const said = service.output().includes(` failed: ${thrown.name}: ${thrown.message}`)
    expect(said).toBe(thrown === MISTAKE)
  })

  test('a bad query is refused as such even when the keys cannot be read', async () => {
    const service = await start(BURST, ofKeys(fail))
    expect(await ask(service)).toEqual([code, ''])
    expect(await ask(service, '&works=101')).toEqual([codeOfBad, ''])
  })

  test.each([
    ['limits', ofUsage('peek')],
    ['limits, later,', ofUsageLater('peek')],
  ])('while %s cannot be read, a bad query is refused without them', async (_, exchange) => {
    const service = await start(BURST, exchange(fail))
    expect(await ask(service, '&works=101')).toEqual(['INVALID_PARAMETER', ''])
  })
})

describe('a request waits for its store no longer than its bound', () => {
  const LATE = new StoreError('the database took too long for a request')
  const never = (): Promise<never> => new Promise(() => {})
  /** Methods of the store that never answer. */
  const hanging =
    (...methods: readonly ('consume' | 'refund' | 'peek')[]): Exchange =>
    ({ usage }) => ({
      usage: {
        ...usage,
        bound: { msMax: 50, elapsedMs: () => 0, failure: () => LATE },
        ...Object.fromEntries(methods.map(method => [method, never])),
      },
    })

  test.each([
    ['networks are counted', '', hanging('consume'), 'DB_EXECUTE_FAILED', ALL_LEFT],
    ['it is refunded', '', hanging('consume', 'refund'), 'DB_EXECUTE_FAILED', ONE_LESS],
    ['limits are read', '&works=101', hanging('peek'), 'INVALID_PARAMETER', ''],
  ])('while %s', async (_, query, exchange, code, left) => {
    const service = await start({ ...BURST, subnets: 5 }, exchange)
    expect(await ask(service, query)).toEqual([code, left])
  })
})

describe('a stream', () => {
  const TOTALS: Totals = { records: 2, subnets: [1, 2] }
  const uncounted = { consume: failWith(FAILURE) }
  test.each([
    ['is opened', 'GET', 5, TOTALS, {}, 'ok', ONE_LESS],
    ['of a HEAD request is cancelled', 'HEAD', 5, TOTALS, {}, 'ok', ONE_LESS],
    [
      'with too many networks is cancelled',
      ...(['GET', 1, TOTALS, {}, 'SUBNET_LIMIT_REACHED', ONE_LESS] as const),
    ],
    [
      'whose networks cannot be counted is cancelled, and does not count',
      ...(['GET', 5, TOTALS, uncounted, 'DB_EXECUTE_FAILED', ALL_LEFT] as const),
    ],
    [
      'that lacks its totals is cancelled, and does not count',
      ...(['GET', 5, null, {}, 'INTERNAL_ERROR', ALL_LEFT] as const),
    ],
  ] as const)('%s', async (_, method, subnets, totals, more, code, left) => {
    const ends: string[] = []
    const stream: AnswerStream = {
      ...{ kind: 'stream', totals },
      open() {
        ends.push('opened')
        return new ReadableStream({ start: controller => controller.close() })
      },
      cancel: async () => void ends.push('cancelled'),
    }
    const { request } = await start({ ...BURST, subnets }, stores => ({
      ...streaming(async () => stream)(stores),
      usage: { ...stores.usage, ...more },
    }))
    expect(outcomeOf(await request(ASK, { method }))).toEqual([code, left])
    expect(ends).toEqual([code === 'ok' && method === 'GET' ? 'opened' : 'cancelled'])
  })

  test('that gets no slot does not count', async () => {
    const busy = new ApiError('RATE_LIMIT_EXCEEDED', 'wait', { retryAfterSeconds: 1 })
    const service = await start(BURST, ofStreamer(failWith(busy)))
    expect(await ask(service)).toEqual(['RATE_LIMIT_EXCEEDED', ALL_LEFT])
  })
})
