/** When a server fetches its feeds, and what it says of them: clock, timers and attempts by hand. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { type Feed, parseFeeds } from '../../src/feeds/feed.ts'
import { type Attempt, keepFeeds } from '../../src/feeds/keep.ts'
import type { FeedState } from '../../src/feeds/store.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'

const STATE: FeedState = {
  source: '/a',
  lastSuccessAt: T0,
  rows: 3,
  rejected: 0,
  error: '',
  failures: 0,
  nextTryAt: T0 + MINUTE_MS,
  attempts: 1,
  validators: { etag: '', lastModified: '', digest: 'x' },
  options: '',
}

let nowMs = T0
let timers: { run: () => void; at: number }[] = []
let said: string[] = []
let states = new Map<string, FeedState>()
/** Attempts that are running, each with the feed, and how to end it. */
let running: { feed: Feed; isFirst: boolean; isKilled: boolean; end(failure?: string): void }[] = []

beforeEach(() => {
  nowMs = T0
  timers = []
  said = []
  states = new Map()
  running = []
})

function run(feed: Feed, isFirst: boolean): Attempt {
  const { promise, resolve } = Promise.withResolvers<string>()
  const attempt = {
    feed,
    isFirst,
    isKilled: false,
    end(failure = '') {
      running.splice(running.indexOf(attempt), 1)
      resolve(failure)
    },
  }
  running.push(attempt)
  return {
    ended: promise,
    kill() {
      attempt.isKilled = true
    },
  }
}

const feedsIn = (text: string): Feed[] => parseFeeds(text, MINUTE_MS, '--feed')

/** Starts fetching these feeds; resolves once their states were read. */
async function start(text: string): Promise<ReturnType<typeof keepFeeds>> {
  const job = keepFeeds({
    feeds: feedsIn(text),
    store: { find: id => states.get(id) ?? null },
    run,
    clock: () => nowMs,
    say: sentence => void said.push(sentence),
    later(call, ms) {
      const timer = { run: call, at: nowMs + ms }
      timers.push(timer)
      return () => void timers.splice(timers.indexOf(timer), 1)
    },
  })
  await passTurns()
  return job
}

/** Ends the only attempt with this result, and lets what follows happen. */
async function finish(result: Partial<FeedState>): Promise<void> {
  const [attempt] = running
  if (attempt === undefined) throw new Error('nothing is running')
  states.set(attempt.feed.id, { ...STATE, ...result })
  await end()
}
async function end(failure = ''): Promise<void> {
  running[0]?.end(failure)
  await passTurns()
}
async function passTurns(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve()
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
  test('at its start, then when its state says', async () => {
    await start('/a')
    expect(running.map(({ feed, isFirst }) => [feed.source, isFirst])).toEqual([['/a', true]])
    await finish({})
    await pass(MINUTE_MS - 1)
    expect(running).toBeEmpty()
    await pass(1)
    expect(running.map(({ isFirst }) => isFirst)).toEqual([false])
    await finish({ attempts: 2, nextTryAt: nowMs + 10 * MINUTE_MS })
    await pass(10 * MINUTE_MS - 1)
    expect(running).toBeEmpty()
    await pass(1)
    expect(running).toHaveLength(1)
  })

  test('not when another server has done so meanwhile', async () => {
    await start('/a')
    await finish({})
    const [id] = states.keys()
    states.set(`${id}`, { ...STATE, attempts: 2, nextTryAt: T0 + 2 * MINUTE_MS })
    await pass(MINUTE_MS)
    expect(running).toBeEmpty()
    await pass(MINUTE_MS)
    expect(running).toHaveLength(1)
  })

  test('at its interval when another server is fetching it', async () => {
    await start('/a')
    await end()
    expect(said).toBeEmpty()
    await pass(MINUTE_MS)
    expect(running).toHaveLength(1)
  })

  test('later and later when its process ends without a result, and says so', async () => {
    await start('/a')
    const waits: number[] = []
    for (let n = 0; n < 3; n += 1) {
      await end('its process ended with SIGKILL')
      waits.push((timers[0]?.at ?? 0) - nowMs)
      await pass(waits.at(-1) ?? 0)
    }
    expect(waits.map(ms => ms / MINUTE_MS)).toEqual([1, 2, 4])
    expect(said[0]).toBe('feed /a could not be fetched: its process ended with SIGKILL')
  })

  test('soon when the clock was a year ahead and is set back', async () => {
    await start('/a')
    await finish({ nextTryAt: T0 + 366 * 24 * HOUR_MS })
    await pass(HOUR_MS)
    expect(running).toHaveLength(1)
  })
})

describe('attempts', () => {
  test('are up to eight at once, the others after them', async () => {
    await start('/1 /2 /3 /4 /5 /6 /7 /8 /9 /10')
    const sources = (): string => running.map(({ feed }) => feed.source).join('')
    expect(sources()).toBe('/1/2/3/4/5/6/7/8')
    await finish({})
    expect(sources()).toBe('/2/3/4/5/6/7/8/9')
  })

  test('end when the server stops, and no more begin', async () => {
    const job = await start('/a /b')
    await finish({})
    const [left] = running
    job.stop()
    expect(left?.isKilled).toBeTrue()
    expect(timers).toBeEmpty()
    await end('killed')
    expect(timers).toBeEmpty()
    expect(said).toEqual(['feed /a: 3 rows'])
  })
})

describe('feeds that are changed while the server runs', () => {
  const sources = (): string[] => running.map(({ feed, isKilled }) => `${feed.source} ${isKilled}`)

  test('are fetched at once when they are new, and no more when they are removed', async () => {
    const job = await start('/a /b')
    await finish({})
    await finish({})
    expect(job.change(feedsIn('/b /c'))).toEqual({ added: 1, changed: 0, removed: 1 })
    await passTurns()
    expect(sources()).toEqual(['/c false'])
    await finish({})
    await pass(MINUTE_MS)
    expect(sources()).toEqual(['/b false', '/c false'])
  })

  test('are fetched at once, as at a start, when their options are others', async () => {
    const job = await start('/a')
    await finish({})
    expect(job.change(feedsIn('/a type=http'))).toEqual({ added: 0, changed: 1, removed: 0 })
    await passTurns()
    expect(running.map(({ feed, isFirst }) => [feed.type, isFirst])).toEqual([['http', true]])
    await finish({ attempts: 2, nextTryAt: nowMs + MINUTE_MS })
    expect(timers).toHaveLength(1)
  })

  test('do not hear of a change that is none', async () => {
    const job = await start('/a')
    await finish({})
    expect(job.change(feedsIn('/a'))).toEqual({ added: 0, changed: 0, removed: 0 })
    expect(running).toBeEmpty()
  })

  test('end the attempt that is running before the next one begins', async () => {
    const job = await start('/a')
    job.change(feedsIn('/a type=http'))
    expect(sources()).toEqual(['/a true'])
    await end()
    expect(running.map(({ feed, isFirst }) => [feed.type, isFirst])).toEqual([['http', true]])
    job.change([])
    expect(sources()).toEqual(['/a true'])
    await end()
    expect([running.length, timers.length]).toEqual([0, 0])
  })

  test('are not fetched when they are removed while they wait for a place', async () => {
    const job = await start('/1 /2 /3 /4 /5 /6 /7 /8 /9 /10')
    job.change(feedsIn('/1 /2 /3 /4 /5 /6 /7 /8 /10 type=http'))
    await finish({})
    expect(running.map(({ feed }) => [feed.source, feed.type]).at(-1)).toEqual(['/10', 'http'])
    await finish({})
    expect(running).toHaveLength(7)
  })
})

describe('a server says', () => {
  /** What is said of attempts with these results. */
  async function saidOf(...results: readonly Partial<FeedState>[]): Promise<string[]> {
    await start('http://u:SECRET@h/a?key=SECRET')
    let attempts = 0
    for (const result of results) {
      attempts += 1
      await finish({ attempts, nextTryAt: nowMs + MINUTE_MS, ...result })
      await pass(MINUTE_MS)
    }
    return said
  }
  const feed = 'feed http://***@h/a?key=***'
  const failed = { error: 'answers with status 500', failures: 1 }

  test('what the first attempt brought, and nothing while all is well', async () => {
    expect(await saidOf({ rows: 1234 }, { rows: 1300 }, {})).toEqual([`${feed}: 1,234 rows`])
  })
  test('a failure once, and its end', async () => {
    expect(await saidOf({}, failed, failed, {})).toEqual([
      `${feed}: 3 rows`,
      `${feed}: answers with status 500; the list stays as it was, next try in 60 s`,
      `${feed} works again: 3 rows`,
    ])
  })
  test('another failure', async () => {
    expect(await saidOf(failed, { error: 'holds no proxy' })).toEqual([
      `${feed}: answers with status 500; the list stays as it was, next try in 60 s`,
      `${feed}: holds no proxy; the list stays as it was, next try in 60 s`,
    ])
  })
  test('that rows are rejected, when that begins', async () => {
    expect(await saidOf({}, { rejected: 2 }, { rejected: 3 }, {}, { rejected: 1 })).toEqual([
      `${feed}: 3 rows`,
      `${feed}: 3 rows, 2 rejected`,
      `${feed}: 3 rows, 1 rejected`,
    ])
  })
})
