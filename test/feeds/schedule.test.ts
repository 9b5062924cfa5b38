/** When a server fetches its feeds, and what it says of them: clock, timers and attempts by hand. */
import { beforeEach, describe, expect, test } from 'bun:test'
import type { AttemptResult } from '../../src/feeds/attempt.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { retryAfterMs } from '../../src/feeds/fetch.ts'
import {
  type Attempts,
  createAttempts,
  delayAfterFailure,
  isDue,
  scheduleFeeds,
} from '../../src/feeds/schedule.ts'
import { type FeedKey, type FeedState, newState } from '../../src/feeds/store.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'

let nowMs = T0
let timers: { run: () => void; at: number }[] = []
let said: string[] = []
let states = new Map<string, FeedState>()
let leased: string[] = []
/** Whether another process has the lease of all feeds. */
let isLeasedElsewhere = false
let storeFailure: Error | null = null
/** Attempts that are running, each with the feed, and how to end it. */
let running: { feed: Feed; isKilled: boolean; end(outcome: AttemptResult): void; fail(): void }[] =
  []

beforeEach(() => {
  nowMs = T0
  timers = []
  said = []
  states = new Map()
  leased = []
  isLeasedElsewhere = false
  storeFailure = null
  running = []
})

const store = {
  lease({ id, shown }: FeedKey) {
    if (storeFailure !== null) throw storeFailure
    if (!states.has(id)) states.set(id, newState(shown, nowMs))
    if (!isLeasedElsewhere) leased.push(id)
    return !isLeasedElsewhere
  },
  release: (id: string) => void leased.splice(leased.indexOf(id), 1),
  find: (id: string) => states.get(id) ?? null,
  save: (id: string, state: FeedState) => void states.set(id, state),
  list: () => [...states].map(([id, state]) => ({ id, ...state })),
  keepOnly() {},
}

const clock = (): number => nowMs

async function attempt(feed: Feed, _: FeedState, signal: AbortSignal): Promise<AttemptResult> {
  const { promise, resolve, reject } = Promise.withResolvers<AttemptResult>()
  const current = {
    feed,
    isKilled: false,
    end(outcome: AttemptResult) {
      running.splice(running.indexOf(current), 1)
      signal.aborted ? reject(signal.reason) : resolve(outcome)
    },
    fail: () => reject(signal.reason),
  }
  signal.addEventListener('abort', () => {
    current.isKilled = true
  })
  running.push(current)
  return promise
}

const TEN_URLS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0].map(n => `http://h/${n}`).join(' ')
const feedsIn = (text: string): Feed[] => parseFeeds(text, MINUTE_MS, '--feed')

let attempts: Attempts

/** Starts fetching these feeds; resolves once their first attempts began. */
async function start(text: string): Promise<ReturnType<typeof scheduleFeeds>> {
  attempts = createAttempts({ openStore: () => store, attempt, clock, random: () => 0 })
  const job = scheduleFeeds({
    feeds: feedsIn(text),
    attempts,
    clock,
    say: sentence => void said.push(sentence),
    later(call, ms) {
      const timer = { run: call, at: nowMs + ms }
      timers.push(timer)
      return () => void (timers.includes(timer) && timers.splice(timers.indexOf(timer), 1))
    },
  })
  await passTurns()
  return job
}

const IMPORTED = {
  kind: 'imported',
  ...{ rows: 3, rejected: 0, missing: '', options: '', changes: { added: 2, updated: 1 } },
  validators: { etag: '', lastModified: '', digest: 'x' },
} as const
const failed = (error: string): AttemptResult => ({ kind: 'failed', error, retryAfterMs: null })

/** Ends the first attempt with this outcome, and lets what follows happen. */
async function finish(outcome: AttemptResult = IMPORTED): Promise<void> {
  const [first] = running
  if (first === undefined) throw new Error('nothing is running')
  first.end(outcome)
  await passTurns()
}
async function passTurns(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve()
}
/** Lets time pass; timers that are due run. */
async function pass(ms: number): Promise<void> {
  nowMs += ms
  const due = timers.filter(({ at }) => at <= nowMs)
  timers = timers.filter(({ at }) => at > nowMs)
  for (const timer of due) timer.run()
  await passTurns()
}

describe('a server fetches a feed', () => {
  test('at its start, then at its interval, under a lease', async () => {
    await start('/a')
    expect([running.length, leased.length]).toEqual([1, 1])
    await finish()
    expect(leased).toBeEmpty()
    await pass(MINUTE_MS - 1)
    expect(running).toBeEmpty()
    await pass(1)
    expect(running).toHaveLength(1)
  })

  test('at its start, even if its state says that it is not due', async () => {
    const [feed] = feedsIn('/a')
    states.set(`${feed?.id}`, newState('/a', T0 + 1))
    await start('/a')
    expect(running).toHaveLength(1)
  })

  test('not when another server has done so meanwhile', async () => {
    await start('/a')
    await finish()
    const [[id, state] = ['', newState('', 0)]] = states
    states.set(id, { ...state, attempts: 2, nextTryAt: T0 + 2 * MINUTE_MS })
    await pass(MINUTE_MS)
    expect([running.length, leased.length]).toEqual([0, 0])
    await pass(MINUTE_MS)
    expect(running).toHaveLength(1)
  })

  test('at its interval when another server is fetching it', async () => {
    isLeasedElsewhere = true
    await start('/a')
    expect([running.length, said.length]).toEqual([0, 0])
    isLeasedElsewhere = false
    await pass(MINUTE_MS)
    expect(running).toHaveLength(1)
  })

  test('later and later when it fails, and keeps what was imported', async () => {
    await start('/a')
    await finish()
    await pass(MINUTE_MS)
    const waits: number[] = []
    for (let n = 0; n < 3; n += 1) {
      await finish(failed('its process ended with SIGKILL'))
      waits.push((timers[0]?.at ?? 0) - nowMs)
      await pass(waits.at(-1) ?? 0)
    }
    expect(waits.map(ms => ms / MINUTE_MS)).toEqual([1, 2, 4])
    const error = 'its process ended with SIGKILL'
    expect([...states.values()]).toMatchObject([{ rows: 3, lastSuccessAt: T0, error, failures: 3 }])
  })

  test('and keeps what the last ten brought; those in a row that brought nothing are one', async () => {
    await start('/a')
    const outcomes = [IMPORTED, { kind: 'unchanged' }, { kind: 'unchanged' }, failed('x')] as const
    for (const outcome of outcomes) {
      await finish(outcome)
      await pass(MINUTE_MS)
    }
    const history = () => [...states.values()][0]?.history ?? []
    const none = { times: 1, rows: null, error: '' }
    expect(history()).toEqual([
      { ...none, at: T0 + 3 * MINUTE_MS, error: 'x' },
      { ...none, at: T0 + 2 * MINUTE_MS, times: 2 },
      { ...none, at: T0, rows: { usable: 3, added: 2, updated: 1, rejected: 0 } },
    ])
    for (let n = 0; n < 20; n += 1) {
      await finish(failed(`${n}`))
      await pass(HOUR_MS)
    }
    expect(history().map(({ error }) => error)).toEqual(
      Array.from({ length: 10 }, (_, n) => `${19 - n}`),
    )
  })

  test('after a failure no sooner than the attempt took', async () => {
    await start('http://h/a every=1s')
    await pass(MINUTE_MS)
    await finish(failed('takes longer than 60 s'))
    expect(timers.map(({ at }) => at - nowMs)).toEqual([MINUTE_MS])
  })

  test('later and later while its store fails, and says once why, and once that it works again', async () => {
    storeFailure = new Error('no space left')
    await start('/a')
    await pass(MINUTE_MS)
    expect(said).toEqual(['feed /a: its state cannot be read or written: no space left'])
    expect(timers[0]?.at).toBe(nowMs + 2 * MINUTE_MS)
    storeFailure = null
    await pass(2 * MINUTE_MS)
    expect(running).toHaveLength(1)
    await finish()
    expect(said.slice(1)).toEqual([
      ...['feed /a: its state can be read and written again', 'feed /a: 3 rows'],
    ])
  })

  test('soon when the clock was a year ahead and is set back', async () => {
    nowMs = T0 + 366 * 24 * HOUR_MS
    await start('/a')
    await finish()
    nowMs = T0
    const [timer] = timers
    expect(timer?.at).toBe(T0 + 366 * 24 * HOUR_MS + MINUTE_MS)
    timer?.run()
    await passTurns()
    expect(running).toHaveLength(1)
  })
})

describe('attempts', () => {
  test('are up to eight of URLs at once, and two of paths, the others after them', async () => {
    await start(`${TEN_URLS} /1 /2 /3`)
    const sources = (): string => running.map(({ feed }) => feed.source.slice(-2)).join('')
    expect(sources()).toBe('/1/2/3/4/5/6/7/8/1/2')
    await finish()
    expect(sources()).toBe('/2/3/4/5/6/7/8/1/2/9')
    running.find(({ feed }) => feed.kind === 'path')?.end(IMPORTED)
    await passTurns()
    expect(sources()).toBe('/2/3/4/5/6/7/8/2/9/3')
  })

  test('at one feed are one at a time: one that an operator asks for, too', async () => {
    await start('/a')
    const [feed] = feedsIn('/a') as [Feed]
    const { signal } = new AbortController()
    await pass(MINUTE_MS / 2)
    const asked = attempts.run(feed, 'now', signal)
    await passTurns()
    expect(running).toHaveLength(1)
    await finish()
    expect([running.length, attempts.isRunning(feed.id)]).toEqual([1, true])
    await finish()
    expect(await asked).toMatchObject({ attempts: 2 })
    expect(attempts.isRunning(feed.id)).toBeFalse()
    await pass(MINUTE_MS / 2)
    expect(running).toBeEmpty() // its interval is counted from the end of that
  })

  test('end when the server stops, which waits until their leases are given back, and no more begin', async () => {
    const job = await start('/a /b')
    await finish()
    const [left] = running
    let isStopped = false
    void job.stop().then(() => {
      isStopped = true
    })
    await passTurns()
    expect([left?.isKilled, isStopped]).toEqual([true, false])
    expect(timers).toBeEmpty()
    await finish()
    expect(isStopped).toBeTrue()
    expect(timers).toBeEmpty()
    expect(said).toEqual(['feed /a: 3 rows'])
  })
})

describe('feeds that are changed while the server runs', () => {
  const sources = (): string[] => running.map(({ feed, isKilled }) => `${feed.source} ${isKilled}`)

  test('are fetched at once when they are new, and no more when they are removed', async () => {
    const job = await start('/a /b')
    await finish()
    await finish()
    expect(job.change(feedsIn('/b /c'))).toEqual({ added: 1, changed: 0, removed: 1 })
    await passTurns()
    expect(sources()).toEqual(['/c false'])
    await finish()
    await pass(MINUTE_MS)
    expect(sources()).toEqual(['/b false', '/c false'])
  })

  test('are fetched at once, as at a start, when their options are others', async () => {
    const job = await start('/a')
    await finish()
    expect(job.change(feedsIn('/a type=http'))).toEqual({ added: 0, changed: 1, removed: 0 })
    await passTurns()
    expect(running.map(({ feed }) => feed.type)).toEqual(['http'])
    await finish()
    expect(timers).toHaveLength(1)
  })

  test('do not hear of a change that is none', async () => {
    const job = await start('/a')
    await finish()
    expect(job.change(feedsIn('/a'))).toEqual({ added: 0, changed: 0, removed: 0 })
    expect(running).toBeEmpty()
  })

  test('end the attempt that is running before the next one begins', async () => {
    const job = await start('/a')
    job.change(feedsIn('/a type=http'))
    expect(sources()).toEqual(['/a true'])
    await finish()
    expect(running.map(({ feed }) => feed.type)).toEqual(['http'])
    job.change([])
    expect(sources()).toEqual(['/a true'])
    await finish()
    expect([running.length, timers.length]).toEqual([0, 0])
  })

  test('stay removed when that was while they were fetched', async () => {
    await start('/a')
    states.clear()
    await finish()
    expect(states.size).toBe(0)
  })

  test('are not fetched while they are paused, and at once when that ends', async () => {
    const paused = parseFeeds('/a paused', MINUTE_MS, '', 'console')
    const job = await start('/a')
    expect(job.change(paused)).toEqual({ added: 0, changed: 0, removed: 1 })
    expect(sources()).toEqual(['/a true'])
    await finish()
    await pass(HOUR_MS)
    expect(running).toBeEmpty()
    expect(job.change(feedsIn('/a'))).toEqual({ added: 1, changed: 0, removed: 0 })
    await passTurns()
    expect(sources()).toEqual(['/a false'])
  })

  test('are not fetched when they are removed while they wait for a place', async () => {
    const job = await start(TEN_URLS)
    job.change(feedsIn(`${TEN_URLS} type=http`.replace('http://h/9 ', '')))
    await finish()
    const last = running.at(-1)?.feed
    expect([last?.source, last?.type]).toEqual(['http://h/0', 'http'])
    await finish()
    expect(running).toHaveLength(7)
  })
})

describe('a server says', () => {
  /** What is said of attempts with these outcomes. */
  async function saidOf(...outcomes: readonly AttemptResult[]): Promise<string[]> {
    await start('http://u:SECRET@h/a?key=SECRET')
    for (const outcome of outcomes) {
      await finish(outcome)
      await pass((timers[0]?.at ?? 0) - nowMs)
    }
    return said
  }
  const feed = 'feed http://***@h/a?key=***'
  const kept = 'the list stays as it was, next try in'
  const FAILED = failed('answers with status 500')
  const rows = (count: number, rejected = 0): AttemptResult => ({
    ...{ ...IMPORTED, rows: count, rejected },
    missing: rejected === 0 ? '' : '2 of 5 rows are missing',
  })

  test.each<[what: string, outcomes: AttemptResult[], said: string[]]>([
    [
      'what the first attempt brought, and nothing while all is well',
      [rows(1234), rows(1300), { kind: 'unchanged' }],
      [': 1,234 rows'],
    ],
    [
      'a failure once, and its end',
      [IMPORTED, FAILED, FAILED, IMPORTED],
      [': 3 rows', `: answers with status 500; ${kept} 60 s`, ' works again: 3 rows'],
    ],
    [
      'another failure',
      [FAILED, failed('holds no proxy')],
      [`: answers with status 500; ${kept} 60 s`, `: holds no proxy; ${kept} 120 s`],
    ],
    [
      'that rows are rejected, when that begins',
      [IMPORTED, rows(3, 2), rows(3, 3), IMPORTED, rows(3, 1)],
      [': 3 rows', ': 3 rows; 2 of 5 rows are missing', ': 3 rows; 2 of 5 rows are missing'],
    ],
  ])('%s', async (_, outcomes, sentences) => {
    expect(await saidOf(...outcomes)).toEqual(sentences.map(sentence => feed + sentence))
  })
})

describe('after a failure', () => {
  const delays = (everyMs: number, random = 0, tookMs = 0): number[] =>
    [1, 2, 3, 4, 5, 6, 60, 1e9].map(failures =>
      delayAfterFailure(everyMs, tookMs, failures, null, random),
    )
  const seconds = (ms: number): number => ms / SECOND_MS

  test('it is tried at its interval, then twice as late each time, up to ten minutes', () => {
    expect(delays(MINUTE_MS).map(seconds)).toEqual([60, 120, 240, 480, 600, 600, 600, 600])
  })
  test('it is tried again after what the attempt took, where that is longer', () => {
    const waits = delays(SECOND_MS, 0, MINUTE_MS).map(seconds)
    expect(waits).toEqual([60, 120, 240, 480, 600, 600, 600, 600])
    expect(delays(SECOND_MS, 0, 11 * MINUTE_MS).map(seconds)).toEqual(Array(8).fill(660))
  })
  test('never sooner than its interval', () => {
    expect(new Set(delays(HOUR_MS))).toEqual(new Set([HOUR_MS]))
    expect(delays(7 * MINUTE_MS).map(seconds)).toEqual([420, 600, 600, 600, 600, 600, 600, 600])
  })
  test('with jitter of up to a tenth', () => {
    expect(delays(MINUTE_MS, 0.5).slice(0, 2).map(seconds)).toEqual([63, 126])
    expect(
      delays(MINUTE_MS, 0.999_999).every((ms, i) => ms <= (delays(MINUTE_MS)[i] ?? 0) * 1.1),
    ).toBeTrue()
  })
  test.each([
    [30, 60],
    [90, 90],
    [3600, 3600],
    [3601, 3600],
    [86_400, 3600],
  ])('Retry-After of %d s makes it wait %d s, an hour at most', (asked, waits) => {
    expect(seconds(delayAfterFailure(MINUTE_MS, 0, 1, asked * SECOND_MS, 0))).toBe(waits)
  })
  test.each([
    [null, null],
    ['', null],
    ['120', 120_000],
    ['99999999999', 99_999_999_999_000],
    ['soon', null],
    ['-5', null],
    ['1e9', null],
    [new Date(T0 + 90_000).toUTCString(), 90_000],
    [new Date(T0 - 90_000).toUTCString(), 0],
  ])('Retry-After %p is %p ms', (text, ms) => expect(retryAfterMs(text, T0)).toBe(ms))
})

describe('a feed is due', () => {
  const at = (ahead: number, failures = 0) => ({ ...newState('', T0 + ahead), failures })
  test.each([
    [0, true],
    [-1, true],
    [1, false],
    [MINUTE_MS, false],
  ])('when its next try is %d ms ahead: %p', (ahead, due) => {
    expect(isDue(at(ahead), MINUTE_MS, T0)).toBe(due)
  })
  test('when the clock was set back by more than a few minutes, whatever its interval', () => {
    expect(isDue(at(6 * MINUTE_MS), MINUTE_MS, T0)).toBeTrue()
    expect(isDue(at(366 * 24 * HOUR_MS), MINUTE_MS, T0)).toBeTrue()
    expect(isDue(at(6 * 24 * HOUR_MS), 7 * 24 * HOUR_MS, T0)).toBeFalse()
  })
  test('after a failure no earlier than the longest delay explains', () => {
    expect(isDue(at(HOUR_MS, 1), MINUTE_MS, T0)).toBeFalse()
    expect(isDue(at(366 * 24 * HOUR_MS, 1), MINUTE_MS, T0)).toBeTrue()
  })
})
