/** How refusals of wrong tokens are delayed (src/access/auth-throttle.ts), on a clock and timers moved by hand. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type AuthThrottle,
  createAuthThrottle,
  DELAYED_MAX,
  FAILURE_DELAY_MS,
  FAILURES_FREE,
  FAILURES_WINDOW_MS,
} from '../../src/access/auth-throttle.ts'
import { type Later, timerLater } from '../../src/lib/clock.ts'
import { T0 } from '../support/fixtures.ts'

const CLIENT = '198.51.100.7'

/** Timers that end when `ring` is called, the oldest first. */
function timersByHand() {
  const timers: { run: () => void; ms: number }[] = []
  const later: Later = (run, ms) => {
    const timer = { run, ms }
    timers.push(timer)
    return () => {
      const at = timers.indexOf(timer)
      if (at >= 0) timers.splice(at, 1)
    }
  }
  const ring = (): void => timers.shift()?.run()
  return { later, timers, ring }
}

function throttleByHand() {
  const { later, timers, ring } = timersByHand()
  return { throttle: createAuthThrottle(later), timers, ring }
}

/** Turns of the event loop until nothing more can happen by itself. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(resolve => setImmediate(resolve))
}

/** Fails once; the function says whether the refusal may be sent by now. */
function fail(throttle: AuthThrottle, nowMs: number, client = CLIENT): () => boolean {
  let isSent = false
  void throttle.failed(client, nowMs).then(() => {
    isSent = true
  })
  return () => isSent
}

async function failOften(throttle: AuthThrottle, times: number, nowMs = T0, client = CLIENT) {
  for (let n = 0; n < times; n += 1) await throttle.failed(client, nowMs)
}

describe('wrong keys', () => {
  test('are refused a second later once there were ten within a minute', async () => {
    const { throttle, timers, ring } = throttleByHand()
    await failOften(throttle, FAILURES_FREE)
    const isSent = fail(throttle, T0 + FAILURES_WINDOW_MS - 1)
    await settle()
    expect([isSent(), timers.map(({ ms }) => ms)]).toEqual([false, [FAILURE_DELAY_MS]])
    ring()
    await settle()
    expect(isSent()).toBe(true)
  })

  test('are delayed too when the clock steps back', async () => {
    const { throttle, timers } = throttleByHand()
    await failOften(throttle, FAILURES_FREE)
    fail(throttle, T0 - 3_600_000)
    expect(timers).toHaveLength(1)
  })

  test('of one client do not delay those of another', async () => {
    const { throttle, timers } = throttleByHand()
    await failOften(throttle, FAILURES_FREE)
    fail(throttle, T0)
    await failOften(throttle, FAILURES_FREE, T0, '198.51.100.8')
    expect(timers).toHaveLength(1)
  })
})

describe('any sequence of wrong keys', () => {
  test('is delayed exactly where ten came before within a minute', () => {
    const steps = fc.array(fc.oneof(fc.integer({ min: 0, max: 20_000 }), fc.constant(0)), {
      minLength: 15,
      maxLength: 60,
    })
    const seen = { delayed: 0, sent: 0 }
    const property = fc.property(steps, given => {
      const { throttle, timers } = throttleByHand()
      const instants: number[] = []
      let nowMs = T0
      for (const step of given) {
        nowMs += step
        const recent = instants.filter(ms => ms > nowMs - FAILURES_WINDOW_MS).length
        const before = timers.length
        fail(throttle, nowMs)
        expect(timers.length - before).toBe(recent >= FAILURES_FREE ? 1 : 0)
        seen[recent >= FAILURES_FREE ? 'delayed' : 'sent'] += 1
        instants.push(nowMs)
      }
    })
    fc.assert(property)
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100)
  })
})

describe('a flood of wrong keys', () => {
  test('sends the refusal that was delayed longest when too many are delayed', async () => {
    const { throttle, timers } = throttleByHand()
    await failOften(throttle, FAILURES_FREE)
    const sent = Array.from({ length: DELAYED_MAX }, () => fail(throttle, T0))
    await settle()
    expect(sent.some(isSent => isSent())).toBe(false)
    fail(throttle, T0)
    fail(throttle, T0)
    await settle()
    expect(sent.slice(0, 3).map(isSent => isSent())).toEqual([true, true, false])
    expect(timers).toHaveLength(DELAYED_MAX)
  })

  test('from more and more addresses makes the throttle forget the oldest, not grow', async () => {
    const { throttle, timers } = throttleByHand()
    await failOften(throttle, FAILURES_FREE)
    for (let n = 0; n < 10_000; n += 1) fail(throttle, T0, `client ${n}`)
    await failOften(throttle, FAILURES_FREE) // forgotten: as many as a new client are free
    expect(timers).toEqual([])
    fail(throttle, T0)
    expect(timers).toHaveLength(1)
  })
})

describe('at the end', () => {
  test('every delayed refusal is sent at once, and none is delayed from then on', async () => {
    const { throttle, timers } = throttleByHand()
    await failOften(throttle, FAILURES_FREE)
    const sent = [fail(throttle, T0), fail(throttle, T0), fail(throttle, T0)]
    await settle()
    throttle.release()
    sent.push(fail(throttle, T0))
    await settle()
    expect([sent.map(isSent => isSent()), timers]).toEqual([[true, true, true, true], []])
  })

  test('a timer that is cancelled does not ring', async () => {
    const rung: string[] = []
    timerLater(() => rung.push('cancelled'), 0)()
    const { promise, resolve } = Promise.withResolvers<void>()
    timerLater(resolve, 0)
    await promise
    expect(rung).toEqual([])
  })
})
