/**
 * What a request ends with: an `Outcome`, whatever happens, with the id of its key and the status
 * of its limits as far as they are known.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { createAccess } from '../../src/access/access.ts'
import type { KeyReader, UsageStore } from '../../src/access/ports.ts'
import type { AnswerStream, AnswerStreamer, Totals } from '../../src/api/answer.ts'
import { ApiError, type ErrorCode } from '../../src/api/errors.ts'
import { createAdmissions, createHandler, type Outcome } from '../../src/api/handler.ts'
import { createQueryReader } from '../../src/api/query.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import { StoreError } from '../../src/lib/errors.ts'
import type { ProxyReader } from '../../src/proxies/store.ts'
import { openMemoryList } from '../../src/sqlite/server-list.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { fillList, type Limits, T0, UNLIMITED } from '../support/fixtures.ts'
import { manual } from '../support/manual.ts'
import { NO_STREAMER } from '../support/streamer.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

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
  registry.plans.set({ ...UNLIMITED, ...limits, name: 'own' })
  const { id } = registry.keys.add({ key: KEY, label: '', plan: 'own', expiresAt: null }, T0)
  const whole: Parts = { keys: registry.keys, usage: registry.usage, reader: list, streamer: null }
  const { keys, usage, reader, streamer } = { ...whole, ...exchange(whole) }
  const handle = createHandler({
    admissions: createAdmissions(),
    clock: () => T0,
    access: createAccess(keys, usage),
    readQuery: createQueryReader(PROVIDER),
    cache: createResponseCache({ reader, streamer, provider: PROVIDER, bytesMax: 2 ** 20 }),
  })
  const ip = () => '192.0.2.200'
  const ask = async (queryString = '', key = KEY): Promise<Outcome> =>
    handle({ key, queryString, ip, nowMs: T0 }, outcome => outcome)
  return { id, handle, ask, close: registry.close }
}

/** What of an outcome is compared: its code, whether the key is known, what is left of its limits. */
function shown(outcome: Outcome, id: string) {
  const code = outcome.kind === 'answered' ? 'answered' : outcome.error.code
  if (outcome.keyId !== null) expect(outcome.keyId).toBe(id)
  const left = outcome.limits.map(({ name, remaining }) => `${name} ${remaining}`).join(', ')
  return [code, outcome.keyId === null ? 'no key' : 'key', left]
}

type Case = readonly [
  what: string,
  /** Requests that are answered before, and then what is asked. */
  before: number,
  queryString: string,
  code: ErrorCode,
  /** As `shown` has it. */
  left: string,
  limits?: Partial<Limits>,
]
const QUOTAS = { ...BURST, subnets: 9, clients: 4 }
const FRESH = 'burst 2, daily 3, subnets 9, clients 4'

const REFUSALS: readonly Case[] = [
  ['a bad query, which uses nothing', 0, 'works=101', 'INVALID_PARAMETER', 'burst 2, daily 3'],
  ['a bad query after a request', 1, 'nonsense=1', 'INVALID_PARAMETER', 'burst 1, daily 2'],
  ['a full window', 2, '', 'RATE_LIMIT_EXCEEDED', 'burst 0, daily 1'],
  ['a full day', 1, '', 'DAILY_LIMIT_REACHED', 'daily 0', { daily: 1 }],
  ['nothing that matches, which counts', 0, 'port=9', 'PROXIES_NOT_FOUND', 'burst 1, daily 2'],
  ['a bad query, with quotas of networks', 0, 'works=101', 'INVALID_PARAMETER', FRESH, QUOTAS],
  ...(
    [
      ['a bad query after a request', 1, 'x=1', 'INVALID_PARAMETER', 'burst 1, daily 2'],
      ['a full window', 2, '', 'RATE_LIMIT_EXCEEDED', 'burst 0, daily 1'],
      ['nothing that matches', 1, 'port=9', 'PROXIES_NOT_FOUND', 'burst 0, daily 1'],
    ] as const
  ).map(([what, before, queryString, code, left]): Case => {
    const all = `${left}, subnets 7, clients 3`
    return [`${what}, with quotas of networks`, before, queryString, code, all, QUOTAS]
  }),
  [
    ...(['too many networks, which counts', 0, '', 'SUBNET_LIMIT_REACHED'] as const),
    ...(['burst 1, daily 2, subnets 1', { ...BURST, subnets: 1 }] as const),
  ],
]

test.each(REFUSALS)('%s: refused with what is known', async (...refusal) => {
  const [, before, queryString, code, left, limits = BURST] = refusal
  const { id, ask, close } = createWorld(limits)
  for (let i = 0; i < before; i += 1) expect((await ask()).kind).toBe('answered')
  const outcome = await ask(queryString)
  expect(shown(outcome, id)).toEqual([code, 'key', left])
  if (outcome.kind === 'refused') expect(outcome.cause).toBe(outcome.error)
  close()
})

test.each([
  ['an unknown key', 'pl_x', '', 'INVALID_KEY'],
  ['a temporary one', 'temp_x', '', 'TEMP_KEY_INVALID'],
  ['an unknown key with a bad query', 'pl_x', 'works=101', 'INVALID_KEY'],
])('%s: refused, and nothing is known', async (_, key, queryString, code) => {
  const { id, ask, close } = createWorld(BURST)
  expect(shown(await ask(queryString, key), id)).toEqual([code, 'no key', ''])
  close()
})

test('an answer comes with its query, the id of the key and what is left', async () => {
  const { id, ask, close } = createWorld(BURST)
  const outcome = await ask('count=1')
  expect(shown(outcome, id)).toEqual(['answered', 'key', 'burst 1, daily 2'])
  if (outcome.kind !== 'answered') throw new Error('it was refused')
  expect(outcome.query.filter.count).toBe(1)
  expect(outcome.answer).toMatchObject({ kind: 'answer', records: 1, subnets: [10 * 256 + 1] })
  close()
})

const FAILURE = new StoreError('access.db is locked')
const MISTAKE = new TypeError('a mistake of ours')

type Fail = () => never
type Failing = readonly [
  what: string,
  queryString: string,
  exchange: (fail: Fail) => Exchange,
  left: string,
  limits?: Partial<Limits>,
]

const ONE_LESS = 'burst 1, daily 2'
const ALL_LEFT = 'burst 2, daily 3'
const COUNTED = ['key', ONE_LESS] as const
const GIVEN_BACK = ['key', ALL_LEFT] as const
const ofUsage = (method: keyof UsageStore) => (fail: Fail) => (whole: Parts) => ({
  usage: { ...whole.usage, [method]: fail },
})
const ofUsageLater = (method: keyof UsageStore) => (fail: Fail) => (whole: Parts) => ({
  usage: { ...whole.usage, [method]: async () => fail() },
})
const ofReader = (method: keyof ProxyReader) => (fail: Fail) => (whole: Parts) => ({
  reader: { ...whole.reader, [method]: fail },
})
const tooLarge = () => 'too-large' as const
/** The reader finds everything too large, and the streamer fails. */
const ofStreamer = (fail: Fail) => (whole: Parts) => ({
  reader: { ...whole.reader, find: tooLarge, findEndpoints: tooLarge },
  streamer: { ...NO_STREAMER, stream: async () => fail(), matches: async () => fail() },
})
/** The list, and what is left of the networks. */
const ofBoth = (fail: Fail) => (whole: Parts) => ({
  ...ofReader('findEndpoints')(fail)(whole),
  ...ofUsage('countNetworks')(fail)(whole),
})
const SUBNETS = { ...BURST, subnets: 5 }
const CLIENTS = { ...BURST, clients: 5 }

const FAILURES: readonly Failing[] = [
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
  ['a store', FAILURE, 'DB_EXECUTE_FAILED'],
  ['our own code', MISTAKE, 'INTERNAL_ERROR'],
] as const)('when %s fails', (_, thrown, code) => {
  const fail = (): never => {
    throw thrown
  }

  test.each(FAILURES)('in %s, the outcome is a refusal with what is known', async (...failing) => {
    const [, queryString, exchange, left, limits = BURST] = failing
    const { id, ask, close } = createWorld(limits, exchange(fail))
    const outcome = await ask(queryString)
    expect(shown(outcome, id)).toEqual([code, 'key', left])
    expect(outcome).toMatchObject({ kind: 'refused', cause: thrown })
    close()
  })

  test('in the keys, nothing is known', async () => {
    const { id, ask, close } = createWorld(BURST, () => ({ keys: { find: fail } }))
    expect(shown(await ask(), id)).toEqual([code, 'no key', ''])
    close()
  })
})

describe('a malformed request is refused for what is wrong with it', () => {
  const EXCHANGES = [
    ['keys cannot be read', (fail: Fail) => () => ({ keys: { find: fail } }), 'no key'],
    ['its limits cannot be read', ofUsage('peek'), 'key'],
    ['its limits cannot be read later', ofUsageLater('peek'), 'key'],
  ] as const

  test.each(EXCHANGES)('also where %s, except by a mistake of ours', async (_, exchange, known) => {
    for (const [thrown, code] of [
      [FAILURE, 'INVALID_PARAMETER'],
      [MISTAKE, 'INTERNAL_ERROR'],
    ] as const) {
      const fail = (): never => {
        throw thrown
      }
      const { id, ask, close } = createWorld(BURST, exchange(fail))
      expect(shown(await ask('works=101'), id)).toEqual([code, known, ''])
      close()
    }
  })
})

describe('a request waits no longer than its store allows, whatever it asks of it', () => {
  const never = (): Promise<never> => new Promise(() => {})
  const LATE = new StoreError('the database took too long for a request')
  /** A store whose clock is moved by hand, of which these methods hang. */
  const hanging =
    (waitedMs: () => number, ...methods: readonly ('consume' | 'giveBack' | 'peek')[]): Exchange =>
    ({ usage }) => ({
      usage: {
        ...usage,
        bound: { msMax: 50, elapsedMs: waitedMs, failure: () => LATE },
        ...Object.fromEntries(methods.map(method => [method, never])),
      },
    })

  test.each([
    ['its networks are counted', { subnets: 5 }, '', ['consume'], 'DB_EXECUTE_FAILED', 'burst 2'],
    [
      'it is given back',
      { subnets: 5 },
      '',
      ['consume', 'giveBack'],
      'DB_EXECUTE_FAILED',
      'burst 1',
    ],
    ['its limits are read', {}, 'works=101', ['peek'], 'INVALID_PARAMETER', ''],
  ] as const)('while %s', async (_, limits, query, methods, code, left) => {
    const { id, ask, close } = createWorld(
      { burst: { requests: 2, seconds: 60 }, ...limits },
      hanging(() => 0, ...methods),
    )
    const outcome = await ask(query)
    const [found, , remaining] = shown(outcome, id)
    expect([found, remaining?.split(',')[0]]).toEqual([code, left])
    close()
  })

  test('its admission included', async () => {
    let nowMs = 0
    const { id, ask, close } = createWorld({ subnets: 5 }, whole => {
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
    expect(shown(await ask(), id)[0]).toBe('DB_EXECUTE_FAILED')
    close()
  })
})

describe('a stream', () => {
  const ALL = 'burst 2, daily 3, subnets 5'
  const COUNTED = 'burst 1, daily 2, subnets 1'
  const TOTALS: Totals = { records: 2, subnets: [1, 2] }
  const fails = (): never => {
    throw FAILURE
  }
  test.each([
    ['is given unopened', 5, TOTALS, {}, 'answered', 'burst 1, daily 2, subnets 3', []],
    [
      'is cancelled: its networks exceed the quota',
      1,
      TOTALS,
      {},
      'SUBNET_LIMIT_REACHED',
      COUNTED,
      ['cancelled'],
    ],
    [
      'is cancelled: they cannot be counted',
      5,
      TOTALS,
      { consume: fails },
      'DB_EXECUTE_FAILED',
      ALL,
      ['cancelled'],
    ],
    [
      'that lacks the totals it was asked for is our mistake',
      5,
      null,
      {},
      'INTERNAL_ERROR',
      ALL,
      ['cancelled'],
    ],
  ] as const)('%s', async (...each) => {
    const [, subnets, totals, more, code, left, expected] = each
    const ends: string[] = []
    const stream: AnswerStream = {
      ...{ kind: 'stream', totals },
      open() {
        ends.push('opened')
        return new ReadableStream()
      },
      cancel: async () => void ends.push('cancelled'),
    }
    const { id, ask, close } = createWorld({ ...BURST, subnets }, ({ reader, usage }) => ({
      reader: { ...reader, findEndpoints: () => 'too-large' },
      streamer: { ...NO_STREAMER, stream: async () => stream },
      usage: { ...usage, ...more },
    }))
    const outcome = await ask()
    expect(shown(outcome, id)).toEqual([code, 'key', left])
    if (outcome.kind === 'answered') expect(outcome.answer).toBe(stream)
    expect(ends).toEqual([...expected])
    close()
  })
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
    const { id, ask, close } = createWorld(BURST, ({ reader }) => ({
      reader: {
        ...reader,
        findEndpoints(...of) {
          if (isFailing) throw thrown
          return reader.findEndpoints(...of)
        },
      },
    }))
    expect(shown(await ask('count=1'), id)).toEqual(['answered', ...COUNTED])
    isFailing = true
    expect(shown(await ask(), id)).toEqual([code, ...COUNTED])
    isFailing = false
    expect(shown(await ask(), id)).toEqual(['answered', 'key', 'burst 0, daily 1'])
    close()
  })
})

describe('what an admitted request uses', () => {
  test('is given back when a long answer did not get its turn (429)', async () => {
    const { id, ask, close } = createWorld(BURST, ({ reader }) => ({
      reader: { ...reader, findEndpoints: () => 'too-large' },
      streamer: {
        ...NO_STREAMER,
        stream: async () => {
          throw new ApiError('RATE_LIMIT_EXCEEDED', 'wait', { retryAfterSeconds: 1 })
        },
      },
    }))
    const outcome = await ask()
    expect(shown(outcome, id)).toEqual(['RATE_LIMIT_EXCEEDED', ...GIVEN_BACK])
    close()
  })

  test('is not given back when a window refuses it, which counted nothing', async () => {
    const given: unknown[] = []
    const { id, ask, close } = createWorld(BURST, ({ usage }) => ({
      usage: { ...usage, giveBack: batch => void given.push(batch) },
    }))
    for (const code of ['answered', 'answered', 'RATE_LIMIT_EXCEEDED']) {
      expect(shown(await ask(), id)[0]).toBe(code)
    }
    expect(given).toEqual([])
    close()
  })
})

describe('what is given back', () => {
  const day = async (ask: () => Promise<Outcome>): Promise<number | undefined> =>
    (await ask()).limits.find(({ name }) => name === 'daily')?.remaining

  test('is given back once, though making the reply fails again and again', async () => {
    const batches: number[] = []
    const { handle, ask, close } = createWorld(BURST, ({ usage }) => ({
      usage: {
        ...usage,
        giveBack(batch) {
          batches.push(batch.length)
          return usage.giveBack(batch)
        },
      },
    }))
    let left = 2
    const request = { key: KEY, queryString: '', ip: () => '', nowMs: T0 }
    const reply = async (outcome: Outcome): Promise<Outcome> => {
      left -= 1
      if (left >= 0) throw MISTAKE
      return outcome
    }
    await Promise.allSettled([handle(request, reply)])
    expect(batches).toEqual([1])
    expect(await day(ask)).toBe(2)
    close()
  })
})

test('a reply that fails is made again, of our own failure, with what is known', async () => {
  const { id, handle, close } = createWorld({})
  const replied: Outcome[] = []
  const request = { key: KEY, queryString: '', ip: () => '192.0.2.200', nowMs: T0 }
  const last = await handle(request, outcome => {
    replied.push(outcome)
    if (outcome.kind === 'answered') throw MISTAKE
    return outcome
  })
  expect(replied.map(outcome => shown(outcome, id)[0])).toEqual(['answered', 'INTERNAL_ERROR'])
  expect(last).toMatchObject({ keyId: id, cause: MISTAKE })
  close()
})

test.each([
  ['without quotas of networks', {}, 0],
  ['with one for the networks served', { subnets: 5 }, 1],
  ['with one for the networks of callers', { clients: 5 }, 1],
] as const)('on a plan %s the client is looked up at once or never', async (_, limits, times) => {
  const { handle, close } = createWorld(limits)
  let lookedUp = 0
  const ip = (): string => {
    lookedUp += 1
    return '192.0.2.200'
  }
  const pending = handle({ key: KEY, queryString: '', ip, nowMs: T0 }, outcome => outcome.kind)
  expect(lookedUp).toBe(times) // before anything is waited for: later the client may be gone
  expect(await pending).toBe('answered')
  expect(lookedUp).toBe(times)
  close()
})
