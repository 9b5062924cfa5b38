/** Tests of what the charts measure: rates by the stopwatch, minutes by the clock. */
import { describe, expect, test } from 'bun:test'
import type { Sample } from '../../src/admin/history.ts'
import { createSampler, ratesBetween } from '../../src/admin/sampler.ts'
import { BOUNDS_SECONDS } from '../../src/metrics/histogram.ts'
import type { Traffic } from '../../src/metrics/traffic.ts'
import { T0 } from '../support/fixtures.ts'

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
