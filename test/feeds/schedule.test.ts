/** When a server fetches its feeds, and what it reports: the test moves clock and timers, and ends attempts. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { delayAfterFailure } from '../../src/feeds/attempt.ts'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { retryAfterMs } from '../../src/feeds/fetch.ts'
import { fetchFeeds } from '../../src/feeds/schedule.ts'
import { type FeedState, newState } from '../../src/feeds/store.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'

let nowMs = T0
let timers: { run: () => void; at: number }[] = []
let said: string[] = []
/** Attempts that are running. */
let running: {
  feed: Feed
  isEnded: boolean
  end(state: Partial<FeedState>): void
  fail(error: Error): void
}[] = []

beforeEach(() => {
  nowMs = T0
  timers = []
  said = []
  running = []
})

const clock = (): number => nowMs

async function run(feed: Feed, signal: AbortSignal): Promise<FeedState> {
  const { promise, resolve, reject } = Promise.withResolvers<FeedState>()
  const attempt = {
    feed,
    isEnded: false,
    end: (state: Partial<FeedState>) =>
      resolve({ ...newState(feed.shown, nowMs + feed.everyMs), ...state }),
    fail: reject,
  }
  running.push(attempt)
  signal.addEventListener('abort', () => {
    attempt.isEnded = true
    reject(signal.reason)
  })
  return promise.finally(() => running.splice(running.indexOf(attempt), 1))
}

const feedsIn = (text: string): Feed[] => parseFeeds(text, MINUTE_MS, '--feed')

/** Starts to fetch these feeds. `change` sets other ones. */
async function start(text: string) {
  let change: (feeds: readonly Feed[]) => unknown = () => {}
  const { stop } = await fetchFeeds({
    attempts: { run },
    clock,
    say: sentence => void said.push(sentence),
    later(call, ms) {
      const timer = { run: call, at: nowMs + ms }
      timers.push(timer)
      return () => void (timers.includes(timer) && timers.splice(timers.indexOf(timer), 1))
    },
    feeds: {
      current: () => feedsIn(text),
      onChange(next) {
        change = next ?? change
      },
    },
    isOurs: () => true,
    keep() {},
  })
  return { stop, change: (other: string) => change(feedsIn(other)) }
}

async function passTurns(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve()
}
/** Ends the first attempt. */
async function finish(state: Partial<FeedState> = { rows: 3 }): Promise<void> {
  running[0]?.end(state)
  await passTurns()
}
/** Lets time pass; timers that are due run. */
async function pass(ms: number): Promise<void> {
  nowMs += ms
  const due = timers.filter(({ at }) => at <= nowMs)
  timers = timers.filter(({ at }) => at > nowMs)
  for (const timer of due) timer.run()
  await passTurns()
}
const sources = (): string[] => running.map(({ feed }) => feed.source)

describe('a server fetches a feed', () => {
  test('at its start, then at its interval', async () => {
    await start('/a')
    expect(sources()).toEqual(['/a'])
    await finish()
    await pass(MINUTE_MS - 1)
    expect(running).toBeEmpty()
    await pass(1)
    expect(sources()).toEqual(['/a'])
  })

  test('when its state says so, after a failure', async () => {
    await start('/a every=7d')
    await finish({ error: 'x', nextTryAt: T0 + 30 * SECOND_MS })
    expect(timers.map(({ at }) => at)).toEqual([T0 + 30 * SECOND_MS])
  })

  test('also while its state cannot be read or written, and reports why once', async () => {
    await start('/a every=7d')
    for (let n = 0; n < 2; n += 1) {
      running[0]?.fail(new Error('no space left'))
      await passTurns()
      await pass(MINUTE_MS)
    }
    expect(sources()).toEqual(['/a'])
    expect(said).toEqual(['feed /a: its state cannot be read or written: no space left'])
  })

  test('no more after it stops: running attempts end, and no timer is left', async () => {
    const job = await start('/a /b')
    await finish()
    const [left] = running
    job.stop()
    expect(left?.isEnded).toBeTrue()
    await passTurns()
    expect([running.length, timers.length]).toEqual([0, 0])
    expect(said).toEqual(['feed /a: 3 rows'])
  })
})

describe('feeds that change while the server runs', () => {
  test('are fetched at once if new or changed, and no more if removed', async () => {
    const job = await start('/a /b /c')
    for (let n = 0; n < 3; n += 1) await finish()
    job.change('/b /c type=http /d')
    await passTurns()
    expect(sources()).toEqual(['/c', '/d'])
    await finish()
    await finish()
    await pass(MINUTE_MS)
    expect(sources().sort()).toEqual(['/b', '/c', '/d'])
  })
})

describe('a server reports', () => {
  const FAILED = { error: 'answers with status 500', nextTryAt: T0 + 30 * SECOND_MS }
  const rows = (count: number, rejected = 0): Partial<FeedState> => ({
    ...{ rows: count, rejected },
    missing: rejected === 0 ? '' : '2 of 5 rows are missing',
  })
  const failure = 'the list stays as it was, next try in'

  test.each<[what: string, states: Partial<FeedState>[], said: string[]]>([
    ['the first result, and nothing while all is well', [rows(1234), rows(1300)], [': 1,234 rows']],
    [
      'a failure once, and its end',
      [rows(3), FAILED, FAILED, rows(3)],
      [': 3 rows', `: answers with status 500; ${failure} 30 s`, ' works again: 3 rows'],
    ],
    [
      'another failure',
      [FAILED, { ...FAILED, error: 'holds no proxy' }],
      [`: answers with status 500; ${failure} 30 s`, `: holds no proxy; ${failure} 30 s`],
    ],
    [
      'rejected rows when they begin',
      [rows(3), rows(3, 2), rows(3, 3), rows(3), rows(3, 1)],
      [': 3 rows', ': 3 rows; 2 of 5 rows are missing', ': 3 rows; 2 of 5 rows are missing'],
    ],
  ])('%s', async (_, states, sentences) => {
    await start('http://u:SECRET@h/a?key=SECRET')
    for (const state of states) {
      await finish(state.error ? { ...state, nextTryAt: nowMs + 30 * SECOND_MS } : state)
      await pass(HOUR_MS)
    }
    expect(said).toEqual(sentences.map(sentence => `feed http://***@h/a?key=***${sentence}`))
  })
})

describe('a failed feed', () => {
  const delays = (everyMs: number, random = 0): number[] =>
    [1, 2, 3, 4, 5, 6, 60, 1e9].map(
      failures => delayAfterFailure(everyMs, failures, null, random) / SECOND_MS,
    )

  test('is retried after 30 s, then after twice the delay each time, up to ten minutes', () => {
    for (const everyMs of [HOUR_MS, 7 * DAY_MS]) {
      expect(delays(everyMs)).toEqual([30, 60, 120, 240, 480, 600, 600, 600])
    }
  })
  test('is retried at its interval at the latest', () => {
    expect(delays(MINUTE_MS)).toEqual([30, 60, 60, 60, 60, 60, 60, 60])
    expect(new Set(delays(SECOND_MS))).toEqual(new Set([1]))
  })
  test('is retried with jitter of up to a tenth', () => {
    expect(delays(HOUR_MS, 0.5).slice(0, 2)).toEqual([31.5, 63])
    expect(Math.max(...delays(HOUR_MS, 0.999_999))).toBeLessThanOrEqual(660)
  })
  test.each([
    [10, 30],
    [90, 90],
    [3600, 3600],
    [3601, 3600],
    [86_400, 3600],
  ])('with a Retry-After of %d s waits %d s, an hour at most', (asked, waits) => {
    expect(delayAfterFailure(MINUTE_MS, 1, asked * SECOND_MS, 0) / SECOND_MS).toBe(waits)
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
  ])('with the Retry-After %p waits %p ms', (text, ms) => expect(retryAfterMs(text, T0)).toBe(ms))
})
