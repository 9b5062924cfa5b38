/**
 * What a request ends with: an `Outcome`, whatever happens, with the id of its key and the status
 * of its limits as far as they are known.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { createAccess } from '../../src/access/access.ts'
import type { KeyReader, UsageStore } from '../../src/access/ports.ts'
import type { AnswerStream, AnswerStreamer, Totals } from '../../src/api/answer.ts'
import { ApiError, type ErrorCode } from '../../src/api/errors.ts'
import { createAdmissionCounts, createHandler, type Outcome } from '../../src/api/handler.ts'
import { createQueryReader } from '../../src/api/query.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import { StoreError } from '../../src/lib/errors.ts'
import type { ProxyReader } from '../../src/proxies/store.ts'
import { openMemoryList } from '../../src/sqlite/server-list.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { fillList, type Limits, T0, UNLIMITED } from '../support/fixtures.ts'
import { manual } from '../support/manual.ts'
import { NO_STREAMER } from '../support/streamer.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

const PROVIDER = 'the service'
const KEY = 'k-5f4dcc3b5aa765d61d8327deb882cf99'
const BURST: Partial<Limits> = { burst: { requests: 2, seconds: 60 }, daily: 3 }

type Parts = {
  keys: KeyReader
  usage: UsageStore
  reader: ProxyReader
  streamer: AnswerStreamer | null
}
/** Parts that replace those of a whole service. */
type Exchange = (whole: Parts) => Partial<Parts>

const list = openMemoryList()
fillList(list.list, [
  { ip: '10.1.0.1:80', type: 'http' },
  { ip: '10.2.0.1:80', type: 'http' },
])
afterAll(async () => {
  list.close()
  await cleanUp()
})

/** A handler on stores of its own, with a key on a plan of these limits. */
function createWorld(limits: Partial<Limits>, exchange: Exchange = () => ({})) {
  const registry = openRegistry(temporaryDirectory())
  onCleanUp(registry.close)
  registry.plans.set({ ...UNLIMITED, ...limits, name: 'own' })
  const { id } = registry.keys.add(
    { key: KEY, label: '', note: '', plan: 'own', expiresAt: null },
    T0,
  )
  const whole: Parts = { keys: registry.keys, usage: registry.usage, reader: list, streamer: null }
  const { keys, usage, reader, streamer } = { ...whole, ...exchange(whole) }
  const handle = createHandler({
    admissions: createAdmissionCounts(),
    clock: () => T0,
    access: createAccess(keys, usage),
    readQuery: createQueryReader(PROVIDER),
    cache: createResponseCache({ reader, streamer, provider: PROVIDER, bytesMax: 2 ** 20 }),
  })
  const request = { key: KEY, queryString: '', ip: () => '192.0.2.200', nowMs: T0 }
  const ask = async (queryString = '', key = KEY): Promise<Outcome> =>
    handle({ ...request, key, queryString }, outcome => outcome)
  /** What of an outcome is compared: its code, and what is left of its limits, `null` without a key. */
  function shown(outcome: Outcome) {
    const code = outcome.kind === 'answered' ? 'answered' : outcome.error.code
    if (outcome.keyId === null) return [code, null]
    expect(outcome.keyId).toBe(id)
    return [code, outcome.limits.map(({ name, remaining }) => `${name} ${remaining}`).join(', ')]
  }
  return { handle, request, ask, shown, askShown: async (query = '') => shown(await ask(query)) }
}

type Case = {
  what: string
  /** By default `BURST`. */
  limits?: Partial<Limits>
  exchange?: Exchange
  /** Requests that are answered before. */
  before?: number
  query?: string
  key?: string
  code: ErrorCode
  /** As `shown` has it. */
  left: string | null
  /** What the refusal comes of; by default itself. */
  cause?: Error
}

const outcomesAre = (cases: readonly Case[]) =>
  test.each(cases)('$what: $code, with what is known', async each => {
    const { limits = BURST, exchange, before = 0, query, key, code, left, cause } = each
    const { ask, shown } = createWorld(limits, exchange)
    for (let i = 0; i < before; i += 1) expect((await ask()).kind).toBe('answered')
    const outcome = await ask(query, key)
    expect(shown(outcome)).toEqual([code, left])
    if (outcome.kind === 'refused') expect(outcome.cause).toBe(cause ?? outcome.error)
  })

const ALL_LEFT = 'burst 2, daily 3'
const ONE_LESS = 'burst 1, daily 2'
const TWO_LESS = 'burst 0, daily 1'
const QUOTAS = { limits: { ...BURST, subnets: 9, clients: 4 } }
const BAD = { query: 'works=101', code: 'INVALID_PARAMETER' } as const
const NONE = { query: 'port=9', code: 'PROXIES_NOT_FOUND' } as const

describe('a request that is refused', () => {
  outcomesAre([
    { what: 'a bad query, which uses nothing', ...BAD, left: ALL_LEFT },
    { what: 'a bad query after a request', before: 1, ...BAD, left: ONE_LESS },
    { what: 'a full window', before: 2, code: 'RATE_LIMIT_EXCEEDED', left: TWO_LESS },
    {
      ...{ what: 'a full day', limits: { daily: 1 }, before: 1 },
      ...{ code: 'DAILY_LIMIT_REACHED', left: 'daily 0' },
    },
    { what: 'nothing that matches, which counts', ...NONE, left: ONE_LESS },
    {
      ...{ what: 'too many networks, which counts', limits: { ...BURST, subnets: 1 } },
      ...{ code: 'SUBNET_LIMIT_REACHED', left: `${ONE_LESS}, subnets 1` },
    },
    { what: 'an unknown key', key: 'pl_x', code: 'INVALID_KEY', left: null },
    { what: 'a temporary one', key: 'temp_x', code: 'TEMP_KEY_INVALID', left: null },
    { what: 'an unknown key, bad query', key: 'pl_x', ...BAD, code: 'INVALID_KEY', left: null },
  ])
})

describe('a request that is refused, on a plan with quotas of networks', () => {
  const after = ', subnets 7, clients 3'
  outcomesAre([
    { what: 'a bad query', ...QUOTAS, ...BAD, left: `${ALL_LEFT}, subnets 9, clients 4` },
    { what: 'a bad query after a request', ...QUOTAS, before: 1, ...BAD, left: ONE_LESS + after },
    {
      ...{ what: 'a full window', ...QUOTAS, before: 2 },
      ...{ code: 'RATE_LIMIT_EXCEEDED', left: TWO_LESS + after },
    },
    { what: 'nothing that matches', ...QUOTAS, before: 1, ...NONE, left: TWO_LESS + after },
  ])
})

test('an answer comes with its query, the id of the key and what is left', async () => {
  const { ask, shown } = createWorld(BURST)
  const outcome = await ask('count=1')
  expect(shown(outcome)).toEqual(['answered', ONE_LESS])
  if (outcome.kind !== 'answered') throw new Error('it was refused')
  expect(outcome.query.filter.count).toBe(1)
  expect(outcome.answer).toMatchObject({ kind: 'answer', records: 1, subnets: [10 * 256 + 1] })
})

const FAILURE = new StoreError('access.db is locked')
const MISTAKE = new TypeError('a mistake of ours')

type Fail = () => never
const failWith = (thrown: Error) => (): never => {
  throw thrown
}
const ofUsage = (method: keyof UsageStore) => (fail: Fail) => (whole: Parts) => ({
  usage: { ...whole.usage, [method]: fail },
})
const ofUsageLater = (method: keyof UsageStore) => (fail: Fail) => (whole: Parts) => ({
  usage: { ...whole.usage, [method]: async () => fail() },
})
const ofReader = (method: keyof ProxyReader) => (fail: Fail) => (whole: Parts) => ({
  reader: { ...whole.reader, [method]: fail },
})
const ofKeys = (fail: Fail) => () => ({ keys: { find: fail } })
/** The reader finds everything too large, and a streamer streams so. */
const streaming =
  (stream: AnswerStreamer['stream'], more: Partial<AnswerStreamer> = {}): Exchange =>
  ({ reader }) => ({
    reader: { ...reader, find: () => 'too-large', findEndpoints: () => 'too-large' },
    streamer: { ...NO_STREAMER, ...more, stream },
  })
const ofStreamer = (fail: Fail) => streaming(async () => fail(), { matches: async () => fail() })
/** The list, and what is left of the networks. */
const ofBoth = (fail: Fail) => (whole: Parts) => ({
  ...ofReader('findEndpoints')(fail)(whole),
  ...ofUsage('countNetworks')(fail)(whole),
})
const SUBNETS = { ...BURST, subnets: 5 }
const CLIENTS = { ...BURST, clients: 5 }

/** What fails, of which request, and what is known; what was used is given back. */
const FAILURES: readonly (readonly [
  ...[what: string, query: string, exchange: (fail: Fail) => Exchange, left: string | null],
  ...[limits?: Partial<Limits>],
])[] = [
  ['the keys', '', ofKeys, null],
  ['the usage, at admission', '', ofUsage('admit'), ''],
  ['the usage, later, at admission', '', ofUsageLater('admit'), ''],
  ['the version of the list', '', ofReader('version'), ALL_LEFT],
  ['the list', '', ofReader('findEndpoints'), ALL_LEFT],
  ['the list, for records', 'get=json', ofReader('find'), ALL_LEFT],
  ['the list, for a draw', 'sort=random', ofReader('find'), ALL_LEFT],
  ['the list, for what it lacks', 'port=1', ofReader('lacks'), ALL_LEFT],
  ['the streamer', '', ofStreamer, ALL_LEFT],
  ['the streamer, for a draw', 'sort=random&count=1', ofStreamer, ALL_LEFT],
  ['the usage, for networks', '', ofUsage('consume'), `${ALL_LEFT}, subnets 5`, SUBNETS],
  ['it, later, for networks', '', ofUsageLater('consume'), `${ALL_LEFT}, clients 5`, CLIENTS],
  ['what is left of the networks', 'port=9', ofBoth, ONE_LESS, CLIENTS],
]

describe.each([
  ['a store', FAILURE, 'DB_EXECUTE_FAILED', 'INVALID_PARAMETER'],
  ['our own code', MISTAKE, 'INTERNAL_ERROR', 'INTERNAL_ERROR'],
] as const)('when %s fails', (_, thrown, code, codeOfBad) => {
  const fail = failWith(thrown)
  outcomesAre(
    FAILURES.map(([what, query, exchange, left, limits = BURST]) => ({
      ...{ what, query, exchange: exchange(fail), left, limits, code, cause: thrown },
    })),
  )

  const ofBadQuery = [
    ['keys', ofKeys, null],
    ['limits', ofUsage('peek'), ''],
    ['limits, later,', ofUsageLater('peek'), ''],
  ] as const
  test.each(ofBadQuery)(
    'a bad query is refused for what is wrong with it where %s fail',
    async (...of) => {
      const [, exchange, left] = of
      const { askShown } = createWorld(BURST, exchange(fail))
      expect(await askShown('works=101')).toEqual([codeOfBad, left])
    },
  )
})

describe('a request waits no longer than its store allows, whatever it asks of it', () => {
  const never = (): Promise<never> => new Promise(() => {})
  const LATE = new StoreError('the database took too long for a request')
  /** A store whose clock is moved by hand, of which these methods hang. */
  const hanging =
    (waitedMs: () => number, ...methods: readonly ('consume' | 'refund' | 'peek')[]): Exchange =>
    ({ usage }) => ({
      usage: {
        ...usage,
        bound: { msMax: 50, elapsedMs: waitedMs, failure: () => LATE },
        ...Object.fromEntries(methods.map(method => [method, never])),
      },
    })
  const BURST_ONLY = { burst: { requests: 2, seconds: 60 } }
  const OF_SUBNETS = { limits: { ...BURST_ONLY, subnets: 5 }, code: 'DB_EXECUTE_FAILED' } as const

  outcomesAre([
    {
      ...{ what: 'while its networks are counted', ...OF_SUBNETS, left: 'burst 2, subnets 5' },
      ...{ exchange: hanging(() => 0, 'consume'), cause: LATE },
    },
    {
      ...{ what: 'while it is given back', ...OF_SUBNETS, left: 'burst 1' },
      ...{ exchange: hanging(() => 0, 'consume', 'refund'), cause: LATE },
    },
    {
      ...{ what: 'while its limits are read', limits: BURST_ONLY, ...BAD, left: '' },
      exchange: hanging(() => 0, 'peek'),
    },
  ])

  test('its admission included', async () => {
    let nowMs = 0
    const { askShown } = createWorld({ subnets: 5 }, whole => {
      const { usage } = hanging(() => nowMs, 'consume')(whole)
      return {
        usage: {
          ...whole.usage,
          ...usage,
          bound: { msMax: 3_600_000, elapsedMs: () => nowMs, failure: () => LATE },
          async admit(batch) {
            nowMs = 3_600_000
            return whole.usage.admit(batch)
          },
        },
      }
    })
    expect((await askShown())[0]).toBe('DB_EXECUTE_FAILED')
  })
})

describe('a stream', () => {
  const TOTALS: Totals = { records: 2, subnets: [1, 2] }
  const ALL = `${ALL_LEFT}, subnets 5`
  const uncounted = { consume: failWith(FAILURE) }
  test.each([
    ['is given unopened', 5, TOTALS, {}, 'answered', `${ONE_LESS}, subnets 3`],
    ['of too many networks', 1, TOTALS, {}, 'SUBNET_LIMIT_REACHED', `${ONE_LESS}, subnets 1`],
    ['whose networks cannot be counted', 5, TOTALS, uncounted, 'DB_EXECUTE_FAILED', ALL],
    ['without the totals it was asked for, our mistake,', 5, null, {}, 'INTERNAL_ERROR', ALL],
  ] as const)(
    '%s; one that is refused is cancelled',
    async (_, subnets, totals, more, code, left) => {
      const ends: string[] = []
      const stream: AnswerStream = {
        ...{ kind: 'stream', totals },
        open() {
          ends.push('opened')
          return new ReadableStream()
        },
        cancel: async () => void ends.push('cancelled'),
      }
      const { ask, shown } = createWorld({ ...BURST, subnets }, whole => ({
        ...streaming(async () => stream)(whole),
        usage: { ...whole.usage, ...more },
      }))
      const outcome = await ask()
      expect(shown(outcome)).toEqual([code, left])
      if (outcome.kind === 'answered') expect(outcome.answer).toBe(stream)
      expect(ends).toEqual(outcome.kind === 'answered' ? [] : ['cancelled'])
    },
  )
})

describe('the manual’s sentence on refused requests', () => {
  const SENTENCE =
    'A request that a limit refuses does not count; one that is refused for its networks counts as a ' +
    'request, because its answer was found. What proxylist fails to answer (500, 503) is given back: ' +
    'windows and day are as before it.'

  test('is there', () => {
    expect(manual('limits').replaceAll(/\s+/g, ' ')).toContain(SENTENCE)
  })

  test.each([
    ['503', FAILURE, 'DB_EXECUTE_FAILED'],
    ['500', MISTAKE, 'INTERNAL_ERROR'],
  ] as const)('is true of %s: windows and day are as before it', async (_, thrown, code) => {
    let isFailing = false
    const { askShown } = createWorld(BURST, ({ reader }) => ({
      reader: {
        ...reader,
        findEndpoints(...of) {
          if (isFailing) throw thrown
          return reader.findEndpoints(...of)
        },
      },
    }))
    expect(await askShown('count=1')).toEqual(['answered', ONE_LESS])
    isFailing = true
    expect(await askShown()).toEqual([code, ONE_LESS])
    isFailing = false
    expect(await askShown()).toEqual(['answered', TWO_LESS])
  })
})

describe('what an admitted request uses is given back', () => {
  const busy = new ApiError('RATE_LIMIT_EXCEEDED', 'wait', { retryAfterSeconds: 1 })
  outcomesAre([
    {
      ...{ what: 'when a long answer did not get its turn', exchange: ofStreamer(failWith(busy)) },
      ...{ code: 'RATE_LIMIT_EXCEEDED', left: ALL_LEFT },
    },
  ])

  /** A world, and how many requests are given back at a time. */
  function countingWorld() {
    const batches: number[] = []
    const world = createWorld(BURST, ({ usage }) => ({
      usage: {
        ...usage,
        refund(batch) {
          batches.push(batch.length)
          return usage.refund(batch)
        },
      },
    }))
    return { ...world, batches }
  }

  test('not when a window refuses it, which counted nothing', async () => {
    const { askShown, batches } = countingWorld()
    for (const code of ['answered', 'answered', 'RATE_LIMIT_EXCEEDED']) {
      expect((await askShown())[0]).toBe(code)
    }
    expect(batches).toEqual([])
  })

  test('once, though making the reply fails again and again', async () => {
    const { handle, request, askShown, batches } = countingWorld()
    let left = 2
    const reply = async (outcome: Outcome): Promise<Outcome> => {
      left -= 1
      if (left >= 0) throw MISTAKE
      return outcome
    }
    await Promise.allSettled([handle(request, reply)])
    expect(batches).toEqual([1])
    expect(await askShown()).toEqual(['answered', ONE_LESS])
  })
})

test('a reply that fails is made again, of our own failure, with what is known', async () => {
  const { handle, request, shown } = createWorld({})
  const replied: Outcome[] = []
  const last = await handle(request, outcome => {
    replied.push(outcome)
    if (outcome.kind === 'answered') throw MISTAKE
    return outcome
  })
  expect(replied.map(shown)).toEqual([
    ['answered', ''],
    ['INTERNAL_ERROR', ''],
  ])
  expect(last).toMatchObject({ cause: MISTAKE })
})

test.each([
  ['without quotas of networks', {}, 0],
  ['with one for the networks served', { subnets: 5 }, 1],
  ['with one for the networks of callers', { clients: 5 }, 1],
] as const)('on a plan %s the client is looked up at once or never', async (_, limits, times) => {
  const { handle, request } = createWorld(limits)
  let lookedUp = 0
  const ip = (): string => {
    lookedUp += 1
    return '192.0.2.200'
  }
  const pending = handle({ ...request, ip }, outcome => outcome.kind)
  expect(lookedUp).toBe(times) // before anything is waited for: later the client may be gone
  expect(await pending).toBe('answered')
  expect(lookedUp).toBe(times)
})
