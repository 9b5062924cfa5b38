/** What the charts measure and keep. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { History } from '../../src/admin/api-types.ts'
import {
  createHistory,
  createSampler,
  describeHistory,
  MINUTES,
  type Range,
  type Sample,
} from '../../src/admin/overview.ts'
import { BOUNDS_SECONDS } from '../../src/metrics/histogram.ts'
import type { Traffic } from '../../src/metrics/traffic.ts'
import { T0 } from '../support/fixtures.ts'

const M0 = T0 / 60_000

const trafficOf = (counts: Partial<Traffic> = {}): Traffic => ({
  ...{ ok: 0, notFound: 0, refused: 0, failed: 0, rejected: 0, records: 0, bytes: 0 },
  durations: new Array<number>(BOUNDS_SECONDS.length + 1).fill(0),
  ...counts,
})

/** A sampler whose clock and counters are moved by hand. */
function create() {
  const samples: Sample[] = []
  const state = { clockMs: T0, traffic: trafficOf() }
  const tick = createSampler({
    history: { add: sample => samples.push(sample) },
    traffic: () => state.traffic,
    levels: async () => [10, 5],
    clock: () => state.clockMs,
  })
  /** Lets seconds pass, with so many answers in each. */
  async function pass(seconds: number, ok = 0): Promise<void> {
    for (let n = 0; n < seconds; n += 1) {
      state.clockMs += 1000
      state.traffic = trafficOf({ ...state.traffic, ok: state.traffic.ok + ok })
      await tick()
    }
  }
  return { state, samples, pass }
}

describe('a minute', () => {
  test('is sampled when it is over, unless the server started in it', async () => {
    const { samples, pass } = create()
    await pass(119, 3)
    expect(samples).toEqual([])
    await pass(1, 3)
    expect(samples).toEqual([
      {
        ...{ minute: M0 + 1, counts: [180, 0, 0, 0, 0] },
        ...{ durations: trafficOf().durations, levels: [10, 5] },
      },
    ])
    await pass(120, 7)
    expect(samples.map(({ minute, counts: [ok] }) => [minute, ok])).toEqual([
      [M0 + 1, 180],
      [M0 + 2, 420],
      [M0 + 3, 420],
    ])
  })
})

const sampleAt = (minute: number, ok = 60, fast = 0, slow = 0): Sample => ({
  ...{ minute, counts: [ok, 0, 0, 0, 0], levels: [400, 300] },
  durations: trafficOf().durations.map((_, i) => (i === 0 ? fast : i === 8 ? slow : 0)),
})

test('the history keeps the last 1,440 minutes, even when the clock jumps', () => {
  const jumps = fc.array(fc.integer({ min: -3000, max: 3000 }), { maxLength: 40 })
  fc.assert(
    fc.property(jumps, all => {
      const history = createHistory()
      const model = new Map<number, Sample>()
      let minute = M0
      for (const jump of all) {
        // Mostly the next minute; sometimes a jump.
        minute = Math.abs(jump) < 1500 ? minute + 1 : Math.max(1, minute + jump)
        const sample = sampleAt(minute, Math.abs(jump))
        history.add(sample)
        model.set(minute % MINUTES, sample)
        const expected = [...model.values()]
          .filter(each => each.minute <= minute && each.minute > minute - MINUTES)
          .sort((a, b) => a.minute - b.minute)
        expect(history.between(minute - MINUTES + 1, minute + 1)).toEqual(expected)
      }
    }),
  )
})

describe('a range', () => {
  const pointsOf = (samples: readonly Sample[], range: Range, minute: number) => {
    const history = createHistory()
    for (const sample of samples) history.add(sample)
    return describeHistory(history, range, minute) as unknown as History
  }
  const END = Math.floor(M0 / 180) * 180 + 179

  test.each([
    ['1h', 60, 60],
    ['24h', 288, 300],
  ] as const)('of %s has at most %d points, one every %d s', (range, points, seconds) => {
    const step = seconds / 60
    const samples = Array.from({ length: MINUTES }, (_, n) => sampleAt(END - n))
    const { at, every_seconds, ok, rows } = pointsOf(samples, range, END)
    expect([at.length, every_seconds]).toEqual([points, seconds])
    expect(at.map((each, i) => each - i * seconds)).toEqual(at.map(() => at[0] ?? 0))
    expect(at.at(-1)).toBe((END + 1 - step) * 60)
    expect([ok.at(-1), rows.at(-1)]).toEqual([1, 400])
  })

  test('begins with the first sample, has no value in a gap, and no point without samples', () => {
    const samples = [sampleAt(END - 7), sampleAt(END)]
    const { at, ok } = pointsOf(samples, '1h', END)
    expect([at.length, ok[0], ok[3], ok[7]]).toEqual([8, 1, null, 1]) // a gap is no zero
    expect(pointsOf(samples, '24h', END).at).toHaveLength(2)
    expect(pointsOf([], '1h', END).at).toEqual([])
  })

  test('has the p99 of all requests of a point, not the worst of its minutes', () => {
    const samples = [sampleAt(END, 1, 0, 1), sampleAt(END - 1, 199, 199)]
    const { p99_ms, p50_ms, ok } = pointsOf(samples, '24h', END)
    expect(p99_ms.at(-1)).toBeLessThanOrEqual(0.5)
    expect(p50_ms.at(-1)).toBeCloseTo(0.251, 2)
    expect(ok.at(-1)).toBeCloseTo(200 / 120, 2)
    expect(pointsOf(samples, '1h', END).p99_ms.at(-1)).toBeGreaterThan(100)
  })
})
