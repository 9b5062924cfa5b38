/** Tests of pauses, works and memory of an address (contract H3, H4). */
import { describe, expect, test } from 'bun:test'
import {
  afterFailure,
  afterSuccess,
  isRareDue,
  newCandidate,
  percentOf,
  shouldForget,
  worksAfter,
} from '../../src/checker/candidate.ts'
import type { Attempt, Candidate, Measured } from '../../src/checker/ports.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { typeBits, typesOf } from '../../src/proxies/types.ts'
import { T0 } from '../support/fixtures.ts'

const MEASURED: Measured = { type: 'http', anon: 'elite', because: '', ipOut: '', pingMs: 100 }
const RAW = { ip: '1.2.3.4', port: 80, types: 0, works: null, checkedAt: 0 }

const candidate = (more: Partial<Candidate> = {}): Candidate => ({
  ...newCandidate(RAW, T0, false),
  ...more,
})
const endedAt = (nowMs: number, attempts: readonly Attempt[] = []) => ({
  ...{ nowMs, at: nowMs, attempts },
})
const fail = (before: Candidate, nowMs = before.nextAtMs): Candidate =>
  afterFailure(before, 'timeout', endedAt(nowMs), 0.5)
const succeed = (before: Candidate, measured: Partial<Measured> = {}, nowMs = before.nextAtMs) =>
  afterSuccess(before, { ...MEASURED, ...measured }, endedAt(nowMs), 0.5)

/** The pauses after so many failures in a row, in seconds. */
function pausesOf(first: Candidate, times: number): number[] {
  let [current, pauses] = [first, [] as number[]]
  for (let n = 0; n < times; n += 1) {
    const next = fail(current)
    pauses = [...pauses, (next.nextAtMs - current.nextAtMs) / SECOND_MS]
    current = next
  }
  return pauses
}

describe('the next check', () => {
  test('of a working proxy is due after 240 s ± 10 %', () => {
    const pauses = [0, 0.5, 0.999_999].map(
      random => afterSuccess(candidate(), MEASURED, endedAt(T0), random).nextAtMs - T0,
    )
    expect(pauses).toEqual([216_000, 240_000, 264_000])
  })

  test('of a failing proxy is due after 45 s twice, then × 1.5 up to 30 min', () => {
    const pauses = pausesOf(succeed(candidate()), 14)
    const growing = [45, 67.5, 101.25, 151.875, 227.813, 341.719, 512.578, 768.867, 1153.301]
    expect(pauses).toEqual([45, ...growing, 1729.951, 1800, 1800, 1800])
  })

  test('of an address that never worked is due after 10 min, then × 2 up to 24 h', () => {
    const minutes = pausesOf(candidate(), 10).map(seconds => seconds / 60)
    expect(minutes).toEqual([10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440])
  })

  test('is due after the shortest delay again after a success', () => {
    const again = succeed(fail(fail(succeed(candidate()))))
    expect(again).toMatchObject({ queue: 'living', streak: 0, okAtMs: T0 + 240_000 + 90_000 })
    expect(fail(again).nextAtMs - again.nextAtMs).toBe(45_000)
  })

  test('is due after half of the delay when the checker is idle', () => {
    for (const next of [succeed(candidate()), fail(candidate()), fail(succeed(candidate()))]) {
      const pauseMs = next.nextAtMs - (next.checkedMs ?? 0)
      expect(next.idleAtMs - (next.checkedMs ?? 0)).toBe(pauseMs / 2)
    }
  })

  test('never comes after 14 days or 20 failures, or after a week and 20 failures if it worked', () => {
    const [alive, raw] = [succeed(candidate()), candidate()]
    const cases: [Candidate, number, boolean][] = [
      [{ ...raw, streak: 19 }, T0, false],
      [{ ...raw, streak: 20 }, T0, true],
      [raw, T0 + 14 * DAY_MS - 1, false],
      [raw, T0 + 14 * DAY_MS, true],
      [{ ...alive, streak: 20 }, T0 + 7 * DAY_MS - 1, false],
      [{ ...alive, streak: 19 }, T0 + 7 * DAY_MS, false],
      [{ ...alive, streak: 20 }, T0 + 7 * DAY_MS, true],
    ]
    for (const [it, nowMs, is] of cases) expect(shouldForget(it, nowMs)).toBe(is)
  })

  test('treats a row as working if it was checked within ten minutes', () => {
    const at = (ageMs: number, works: number | null = null) =>
      newCandidate({ ...RAW, types: 1, checkedAt: (T0 - ageMs) / SECOND_MS, works }, T0, true)
    expect(at(MINUTE_MS)).toMatchObject({ queue: 'living', nextAtMs: T0 + 180_000, named: 1 })
    expect(at(9 * MINUTE_MS)).toMatchObject({ queue: 'living', nextAtMs: T0 })
    expect(at(11 * MINUTE_MS)).toMatchObject({ queue: 'down', nextAtMs: T0 })
    expect(at(11 * MINUTE_MS).okAtMs).toBe(T0 - 11 * MINUTE_MS)
    expect(at(-MINUTE_MS)).toMatchObject({ queue: 'living', okAtMs: T0 }) // checked by a faster clock
    expect(percentOf(at(0, 70).works)).toBe(70)
    expect(fail(at(11 * MINUTE_MS)).queue).toBe('down')
  })

  test('makes expensive measurements every 6 h at most', () => {
    const cases = [
      [null, true],
      [T0, false],
      [T0 - 6 * HOUR_MS + 1, false],
      [T0 - 6 * HOUR_MS, true],
    ] as const
    for (const [measuredMs, is] of cases) expect(isRareDue(measuredMs, T0)).toBe(is)
  })
})

describe('works', () => {
  const never = { works: null, checkedMs: null }

  test('is unknown until three checks; an imported value counts as three', () => {
    let current: Pick<Candidate, 'works' | 'checkedMs'> = never
    const shown = [0, 1, 2].map(n => {
      const nowMs = T0 + n * 240_000
      current = { works: worksAfter(current, true, nowMs), checkedMs: nowMs }
      return percentOf(current.works)
    })
    expect(shown).toEqual([null, null, 100])
    const stated = newCandidate({ ...RAW, works: 80, checkedAt: T0 / SECOND_MS }, T0, false)
    expect(percentOf(stated.works)).toBe(80)
    // 576 of 720 seconds, which fade a little, and 240 more without a success
    expect(percentOf(worksAfter(stated, false, T0 + 240_000))).toBe(60)
    expect(percentOf(null)).toBeNull()
  })

  test.each([
    ['weighs a check by the time since the previous one', 30 * MINUTE_MS, 1800],
    ['counts gaps as an hour at most', 5 * HOUR_MS, 3600],
    ['ignores a check after the clock was set back', -HOUR_MS, 0],
  ])('%s', (_, gapMs, seconds) => {
    const before = { works: { good: 0, total: 0, checks: 3 }, checkedMs: T0 }
    const after = { good: seconds, total: seconds, checks: 3 }
    expect(worksAfter(before, true, T0 + gapMs)).toEqual(after)
  })
  test('comes by half from the last six hours', () => {
    const before = { works: { good: 1000, total: 2000, checks: 3 }, checkedMs: T0 }
    const { good, total } = worksAfter(before, false, T0 + 6 * HOUR_MS)
    expect([good, total - 3600]).toEqual([500, 1000])
  })
})

describe('a candidate', () => {
  test('keeps values that a check did not measure', () => {
    const services = { smtp: true, google: true }
    const first = succeed(candidate(), { speed: 9000, hasTls: true, services })
    const second = succeed(first, {
      anon: 'transparent',
      because: 'via',
      services: { google: false },
    })
    expect(second.measured).toEqual({
      ...{ ...MEASURED, anon: 'transparent', because: 'via', speed: 9000, hasTls: true },
      services: { smtp: true, google: false },
    })
    const third = succeed(second, { pingMs: null })
    expect(third.measured?.pingMs).toBe(100)
    const { measured, okAtMs, speedMs } = fail(third)
    expect({ measured, okAtMs, speedMs }).toEqual({
      ...{ measured: third.measured, okAtMs: third.okAtMs, speedMs: third.speedMs },
    })
  })

  test('keeps an undecided type in the list only if it worked or was listed', () => {
    const shown = ({ measured, named }: Candidate) =>
      `${measured?.others ?? ''} of ${typesOf(named)}`
    const named = typeBits(['http', 'socks5'])
    const undecided = { undecided: ['socks5'] as const }
    const raw = candidate({ named })
    expect(shown(succeed(raw, undecided))).toBe(' of socks5,http')
    expect(shown(succeed(succeed(raw, undecided), undecided))).toBe(' of socks5,http')
    const listed = candidate({ named, okAtMs: T0 })
    expect(shown(succeed(listed, undecided))).toBe('socks5 of socks5,http')
    const both = succeed(raw, { others: ['socks5'] })
    expect(shown(succeed(both, undecided))).toBe('socks5 of socks5,http')
    const other = succeed(both, { type: 'socks5', undecided: ['http'] })
    expect(shown(other)).toBe('http of socks5,http')
    expect(shown(succeed(both))).toBe(' of http')
  })

  test('knows when rare measurements were made, and when speed was tried', () => {
    const attempt = { type: 'http', purpose: 'speed', result: 'closed', ms: 9, detail: '' } as const
    const after = (measured: Partial<Measured>, attempts: Attempt[] = []): (number | null)[] => {
      const both = { ...MEASURED, ...measured }
      const { speedMs, servicesMs, tlsMs } = afterSuccess(
        candidate(),
        both,
        endedAt(T0, attempts),
        0,
      )
      return [speedMs, servicesMs, tlsMs]
    }
    expect(after({})).toEqual([null, null, null])
    expect(after({}, [attempt])).toEqual([T0, null, null])
    expect(after({ services: {}, hasTls: false })).toEqual([null, T0, T0])
  })

  test('keeps the checks of the last twenty attempts, newest first', () => {
    const attempt: Attempt = {
      type: 'http',
      purpose: 'judge',
      result: 'refused',
      ms: 1,
      detail: '',
    }
    let current = candidate()
    for (let n = 1; n <= 30; n += 1) {
      const attempts = Array.from({ length: n % 3 }, () => attempt)
      current = afterFailure(current, 'refused', endedAt(T0 + n, attempts), 0)
    }
    expect(current.history.map(({ at }) => at - T0)).toEqual([
      ...[30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16],
    ])
    const many = Array.from({ length: 25 }, (_, ms) => ({ ...attempt, ms }))
    const [only, ...others] = afterFailure(current, 'refused', endedAt(T0, many), 0).history
    expect(only?.attempts.map(({ ms }) => ms)).toEqual(many.slice(5).map(({ ms }) => ms))
    expect(others).toEqual([])
  })
})
