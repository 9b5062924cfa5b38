/** Tests of what the charts measure and keep: rates by the stopwatch, minutes by the clock, over a restart. */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import {
  createSampler,
  MINUTES,
  openHistory,
  ratesBetween,
  type Sample,
} from '../../src/admin/overview.ts'
import { BOUNDS_SECONDS } from '../../src/metrics/histogram.ts'
import type { Traffic } from '../../src/metrics/traffic.ts'
import { openSamples, SAMPLES_FILE } from '../../src/sqlite/samples.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const M0 = T0 / 60_000

const trafficOf = (counts: Partial<Traffic> = {}): Traffic => ({
  ...{ ok: 0, notFound: 0, refused: 0, failed: 0, rejected: 0, records: 0, bytes: 0 },
  durations: new Array<number>(BOUNDS_SECONDS.length + 1).fill(0),
  ...counts,
})

/** A sampler whose stopwatch, clock and counters are moved by hand. */
function create() {
  const samples: Sample[] = []
  const state = { clockMs: T0, elapsedMs: 0, traffic: trafficOf() }
  const sampler = createSampler({
    history: { add: sample => samples.push(sample) },
    traffic: () => state.traffic,
    levels: async () => ({ rows: 10, fresh: 5, keys: 1, rssBytes: 100 }),
    clock: () => state.clockMs,
    elapsedMs: () => state.elapsedMs,
  })
  /** Lets seconds pass, with so many answers in each. */
  async function pass(seconds: number, ok = 0): Promise<void> {
    for (let n = 0; n < seconds; n += 1) {
      state.clockMs += 1000
      state.elapsedMs += 1000
      state.traffic = trafficOf({ ...state.traffic, ok: state.traffic.ok + ok })
      await sampler.tick()
    }
  }
  return { ...sampler, state, samples, pass }
}

describe('rates', () => {
  test('are per second by outcome, with the refused share and quantiles', () => {
    const durations = trafficOf().durations.map((_, i) => (i === 2 ? 50 : i === 5 ? 50 : 0))
    const to = trafficOf({ ok: 60, notFound: 10, rejected: 5, refused: 20, failed: 5, durations })
    const rates = ratesBetween({ atMs: 0, traffic: trafficOf() }, { atMs: 10_000, traffic: to })
    expect(rates).toEqual({
      ...{ ok: 6, notFound: 1, rejected: 0.5, refused: 2, failed: 0.5 },
      ...{ perSecond: 10, refusedShare: 0.2, p50Ms: 2.5, p99Ms: 24.7 },
    })
  })
  test('of nothing are 0, without quantiles, also when no time has passed', () => {
    const mark = { atMs: 5, traffic: trafficOf() }
    const rates = ratesBetween(mark, mark)
    expect(rates).toMatchObject({ perSecond: 0, refusedShare: 0, p50Ms: null, p99Ms: null })
  })
})

describe('a minute', () => {
  test('is sampled once it is over', async () => {
    const { samples, pass } = create()
    await pass(59, 3)
    expect(samples).toEqual([])
    await pass(1, 3)
    expect(samples).toEqual([
      {
        ...{ minute: M0, ok: 3, notFound: 0, rejected: 0, refused: 0, failed: 0 },
        ...{ p50Ms: null, p99Ms: null, rows: 10, fresh: 5, keys: 1, rssBytes: 100 },
      },
    ])
    await pass(120, 7)
    expect(samples.map(({ minute, ok }) => [minute, ok])).toEqual([
      [M0, 3],
      [M0 + 1, 7],
      [M0 + 2, 7],
    ])
  })

  test('has rates by the stopwatch, however the clock jumps', async () => {
    const { samples, pass, state } = create()
    await pass(30, 4)
    state.clockMs += 86_400_000
    await pass(1, 4)
    expect(samples.map(({ minute, ok }) => [minute, ok])).toEqual([[M0, 4]])
    state.clockMs -= 86_400_000
    await pass(1, 4)
    expect(samples.map(({ minute, ok }) => [minute, ok])).toEqual([
      [M0, 4],
      [M0 + 1440, 4],
    ])
  })
})

test('what happens now is that of the last 15 to 20 seconds', async () => {
  const { pass, recent } = create()
  expect(recent().perSecond).toBe(0)
  await pass(3, 10)
  expect(recent().perSecond).toBe(10)
  await pass(60, 10)
  expect(recent().perSecond).toBe(10)
  await pass(20, 100)
  expect(recent().perSecond).toBe(100)
  await pass(20)
  expect(recent().perSecond).toBe(0)
})

/** A history as a server has it. */
function open(dir: string) {
  const said: string[] = []
  const history = openHistory(openSamples(dir, sentence => said.push(sentence)))
  onCleanUp(history.close)
  return { ...history, said }
}

const sampleAt = (minute: number, ok: number | null = 1): Sample => ({
  ...{ minute, ok, notFound: 0, rejected: 0, refused: 0, failed: 0, p50Ms: null, p99Ms: 2.5 },
  ...{ rows: 400, fresh: 300, keys: 2, rssBytes: 6e7 },
})
const minutesOf = (samples: readonly Sample[]): number[] => samples.map(({ minute }) => minute)

describe('the history', () => {
  test('holds 1,440 minutes over a restart and a kill, in a file for its owner only', () => {
    const dir = temporaryDirectory()
    const killed = open(dir)
    for (let i = 0; i < MINUTES + 5; i += 1) killed.add(sampleAt(M0 + i, i))
    const minutes = minutesOf(killed.upTo(M0 + MINUTES + 4))
    expect([minutes.length, minutes[0]]).toEqual([MINUTES, M0 + 5])
    const { size, mode } = statSync(join(dir, SAMPLES_FILE))
    expect(mode & 0o777).toBe(0o600)
    expect(size).toBeLessThanOrEqual(400 * 1024)
    expect(open(dir).upTo(M0 + MINUTES + 4)).toEqual(killed.upTo(M0 + MINUTES + 4))
  })

  test('shows what a model shows, however the clock jumps and whenever the server restarts', () => {
    const jumps = fc.record({ jump: fc.integer({ min: -3000, max: 3000 }), restart: fc.boolean() })
    fc.assert(
      fc.property(fc.array(jumps, { maxLength: 40 }), all => {
        const dir = temporaryDirectory()
        let history = open(dir)
        const model = new Map<number, Sample>()
        let minute = M0
        for (const { jump, restart } of all) {
          // Mostly the next minute; sometimes a jump.
          minute = Math.abs(jump) < 1500 ? minute + 1 : Math.max(1, minute + jump)
          const sample = sampleAt(minute, Math.abs(jump))
          history.add(sample)
          model.set(minute % MINUTES, sample)
          if (restart) {
            history.close()
            history = open(dir)
          }
          const expected = [...model.values()]
            .filter(each => each.minute <= minute && each.minute > minute - MINUTES)
            .sort((a, b) => a.minute - b.minute)
          expect(history.upTo(minute)).toEqual(expected)
        }
        history.close()
        rmSync(dir, { recursive: true })
      }),
      { numRuns: 30 },
    )
  })

  test.each([
    ['empty', ''],
    ['of another kind', 'x'.repeat(9000)],
  ])('begins again where the file is %s', (_, text) => {
    const dir = temporaryDirectory()
    writeFileSync(join(dir, SAMPLES_FILE), text)
    const after = open(dir)
    expect(after.upTo(M0)).toEqual([])
    after.add(sampleAt(M0 + 1))
    after.close()
    expect(open(dir).upTo(M0 + 1)).toEqual([sampleAt(M0 + 1)])
    expect(after.said).toEqual([])
  })

  test('of two servers on a directory is each one’s own while it runs', () => {
    const dir = temporaryDirectory()
    const [first, second] = [open(dir), open(dir)]
    first.add(sampleAt(M0, 1))
    second.add(sampleAt(M0, 2))
    expect([first, second].map(({ upTo }) => upTo(M0)[0]?.ok)).toEqual([1, 2])
    expect([...first.said, ...second.said]).toEqual([])
  })

  test('stays in memory where it cannot be written, which is said once, until it can', () => {
    const dir = temporaryDirectory()
    mkdirSync(join(dir, SAMPLES_FILE))
    const history = open(dir)
    history.add(sampleAt(M0))
    history.add(sampleAt(M0 + 1))
    expect(minutesOf(history.upTo(M0 + 1))).toEqual([M0, M0 + 1])
    expect(history.said).toEqual([
      'the charts of the console are kept in memory only: unable to open database file',
    ])
    rmSync(join(dir, SAMPLES_FILE), { recursive: true })
    history.add(sampleAt(M0 + 2))
    history.close()
    expect(existsSync(join(dir, `${SAMPLES_FILE}-journal`))).toBeFalse()
    expect(minutesOf(open(dir).upTo(M0 + 2))).toEqual([M0 + 2])
  })
})
