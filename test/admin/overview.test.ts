/** Tests of what the charts measure and keep: rates by the stopwatch, minutes by the clock, over a restart. */
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import {
  countedBetween,
  createSampler,
  describeHistory,
  MINUTES,
  openHistory,
  type Range,
  type Sample,
} from '../../src/admin/overview.ts'
import type { History } from '../../src/admin/wire.ts'
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
    levels: async () => [10, 5, 1, 100],
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

describe('what is counted between two marks', () => {
  test('has requests by outcome and durations, of at least a millisecond', () => {
    const durations = trafficOf().durations.map((_, i) => (i === 2 ? 50 : 0))
    const to = trafficOf({ ok: 60, notFound: 10, rejected: 5, refused: 20, failed: 5, durations })
    const from = { atMs: 0, traffic: trafficOf() }
    expect(countedBetween(from, { atMs: 10_000, traffic: to })).toEqual({
      ...{ seconds: 10, counts: [60, 10, 5, 20, 5], durations },
    })
    expect(countedBetween(from, from).seconds).toBe(0.001)
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
        ...{ minute: M0, minutes: 1, seconds: 60, counts: [180, 0, 0, 0, 0] },
        ...{ durations: trafficOf().durations, levels: [10, 5, 1, 100] },
      },
    ])
    await pass(120, 7)
    expect(samples.map(({ minute, counts: [ok] }) => [minute, ok])).toEqual([
      [M0, 180],
      [M0 + 1, 420],
      [M0 + 2, 420],
    ])
  })

  test('is as long as the stopwatch says, however the clock jumps', async () => {
    const { samples, pass, state } = create()
    await pass(30, 4)
    state.clockMs += 86_400_000
    await pass(1, 4)
    state.clockMs -= 86_400_000
    await pass(1, 4)
    expect(samples.map(({ minute, seconds, counts: [ok] }) => [minute, seconds, ok])).toEqual([
      [M0, 31, 124],
      [M0 + 1440, 1, 4],
    ])
  })
})

test('what happens now is that of the last minute, with the refused share', async () => {
  const { pass, recent, state } = create()
  const rateOf = () => recent().per_second
  expect(recent()).toEqual({ per_second: 0, refused_share: 0, p50_ms: null, p99_ms: null })
  await pass(3, 10)
  expect(rateOf()).toBe(10)
  await pass(60, 100)
  expect(rateOf()).toBe(100)
  await pass(60)
  expect(rateOf()).toBe(0)
  state.traffic = trafficOf({ ...state.traffic, ok: state.traffic.ok + 3, refused: 1 })
  expect(recent().refused_share).toBe(0.25)
})

/** A history as a server has it. */
function open(dir: string) {
  const said: string[] = []
  const history = openHistory(openSamples(dir, sentence => said.push(sentence)))
  onCleanUp(history.close)
  return { ...history, said }
}

const sampleAt = (minute: number, ok = 60, fast = 0, slow = 0): Sample => ({
  ...{ minute, minutes: 1, seconds: 60, counts: [ok, 0, 0, 0, 0], levels: [400, 300, 2, null] },
  durations: trafficOf().durations.map((_, i) => (i === 0 ? fast : i === 8 ? slow : 0)),
})
/** The samples of the 24 hours up to a minute. */
const upTo = ({ between }: Pick<ReturnType<typeof openHistory>, 'between'>, minute: number) =>
  between(1, minute - MINUTES + 1, minute + 1)
const minutesOf = (samples: readonly Sample[]): number[] => samples.map(({ minute }) => minute)

describe('the history', () => {
  test('holds 1,440 minutes over a restart and a kill, in a file for its owner only', () => {
    const dir = temporaryDirectory()
    const killed = open(dir)
    for (let i = 0; i < MINUTES + 5; i += 1) killed.add(sampleAt(M0 + i, i))
    const minutes = minutesOf(upTo(killed, M0 + MINUTES + 4))
    expect([minutes.length, minutes[0]]).toEqual([MINUTES, M0 + 5])
    const { size, mode } = statSync(join(dir, SAMPLES_FILE))
    expect(mode & 0o777).toBe(0o600)
    expect(size).toBeLessThanOrEqual(600 * 1024)
    expect(upTo(open(dir), M0 + MINUTES + 4)).toEqual(upTo(killed, M0 + MINUTES + 4))
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
          expect(upTo(history, minute)).toEqual(expected)
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
    expect(upTo(after, M0)).toEqual([])
    after.add(sampleAt(M0 + 1))
    after.close()
    expect(upTo(open(dir), M0 + 1)).toEqual([sampleAt(M0 + 1)])
    expect(after.said).toEqual([])
  })

  test('of two servers on a directory is each one’s own while it runs', () => {
    const dir = temporaryDirectory()
    const [first, second] = [open(dir), open(dir)]
    first.add(sampleAt(M0, 1))
    second.add(sampleAt(M0, 2))
    expect([first, second].map(each => upTo(each, M0)[0]?.counts[0])).toEqual([1, 2])
    expect([...first.said, ...second.said]).toEqual([])
  })

  test('stays in memory where it cannot be written, which is said once, until it can', () => {
    const dir = temporaryDirectory()
    mkdirSync(join(dir, SAMPLES_FILE))
    const history = open(dir)
    history.add(sampleAt(M0))
    history.add(sampleAt(M0 + 1))
    expect(minutesOf(upTo(history, M0 + 1))).toEqual([M0, M0 + 1])
    expect(history.said).toEqual([
      'the charts of the console are kept in memory only: unable to open database file',
    ])
    rmSync(join(dir, SAMPLES_FILE), { recursive: true })
    history.add(sampleAt(M0 + 2))
    history.close()
    expect(existsSync(join(dir, `${SAMPLES_FILE}-journal`))).toBeFalse()
    expect(minutesOf(upTo(open(dir), M0 + 2))).toEqual([M0 + 2])
  })
})

describe('a range', () => {
  const pointsOf = (samples: readonly Sample[], range: Range, minute: number) => {
    const history = openHistory({ read: () => [], write() {}, close() {} })
    for (const sample of samples) history.add(sample)
    return describeHistory(history, range, minute) as unknown as History
  }
  const END = Math.floor(M0 / 180) * 180 + 179

  test.each([
    ['1h', 60, 60],
    ['24h', 288, 300],
    ['7d', 168, 3600],
    ['30d', 240, 10_800],
  ] as const)(
    'of %s has %d points, one each %d s, which end with the present one',
    (range, points, seconds) => {
      const { at, every_seconds, ok, rows } = pointsOf([sampleAt(END)], range, END)
      expect([at.length, every_seconds]).toEqual([points, seconds])
      expect(at.map((each, i) => each - i * seconds)).toEqual(at.map(() => at[0] ?? 0))
      expect(at.at(-1)).toBe(END * 60 + 60 - seconds)
      expect(ok.filter(value => value !== null)).toEqual([1])
      expect([ok.at(-1), rows.at(-1)]).toEqual([1, 400])
    },
  )

  test('has the p99 of all requests of a point, not the worst of its minutes', () => {
    const samples = [sampleAt(END, 1, 0, 1), sampleAt(END - 1, 199, 199)]
    for (const range of ['24h', '7d', '30d'] as const) {
      const { p99_ms, p50_ms, ok } = pointsOf(samples, range, END)
      expect(p99_ms.at(-1)).toBeLessThanOrEqual(0.5)
      expect(p50_ms.at(-1)).toBeCloseTo(0.251, 2)
      expect(ok.at(-1)).toBeCloseTo(200 / 120, 2)
    }
    expect(pointsOf(samples, '1h', END).p99_ms.at(-1)).toBeGreaterThan(100)
  })
})
