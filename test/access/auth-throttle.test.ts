/**
 * How wrong keys are slowed (src/guard.ts): on a clock and timers moved by hand, alone and behind
 * the endpoint.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  createGuard,
  FAILURE_DELAY_MS,
  FAILURES_FREE,
  FAILURES_WINDOW_MS,
  type Guard,
  timerLater,
  WAITING_MAX,
} from '../../src/access/auth-throttle.ts'
import { newKey } from '../../src/access/key.ts'
import { openRegistry } from '../../src/app.ts'
import { T0 } from '../support/fixtures.ts'
import { startService } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const CLIENT = '198.51.100.7'

/** A guard whose timers ring when `ring` says so, the earliest first. */
function guardByHand() {
  const timers: { go: () => void; ms: number }[] = []
  const guard = createGuard((go, ms) => {
    const timer = { go, ms }
    timers.push(timer)
    return () => {
      const at = timers.indexOf(timer)
      if (at >= 0) timers.splice(at, 1)
    }
  })
  const ring = (): void => timers.shift()?.go()
  return { guard, timers, ring }
}

/** Turns of the event loop until nothing more can happen by itself. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(resolve => setImmediate(resolve))
}

/** Fails once; the function tells whether the client has been told meanwhile. */
function fail(guard: Guard, nowMs: number, client = CLIENT): () => boolean {
  let isTold = false
  void guard.failed(client, nowMs).then(() => {
    isTold = true
  })
  return () => isTold
}

async function failOften(guard: Guard, times: number, nowMs = T0, client = CLIENT): Promise<void> {
  for (let n = 0; n < times; n += 1) await guard.failed(client, nowMs)
}

describe('wrong keys', () => {
  test('are refused at once until there were ten within a minute', async () => {
    const { guard, timers, ring } = guardByHand()
    await failOften(guard, FAILURES_FREE)
    expect(timers).toEqual([])
    const isTold = fail(guard, T0 + FAILURES_WINDOW_MS - 1)
    await settle()
    expect([isTold(), timers.map(({ ms }) => ms)]).toEqual([false, [FAILURE_DELAY_MS]])
    ring()
    await settle()
    expect(isTold()).toBe(true)
  })

  test('are slowed by the last minute, whichever it is', async () => {
    const { guard, timers } = guardByHand()
    await failOften(guard, 1, T0)
    await failOften(guard, FAILURES_FREE - 1, T0 + 59_000)
    await failOften(guard, 1, T0 + 60_000) // the first is a minute old: ten within the last one
    expect(timers).toEqual([])
    fail(guard, T0 + 60_001)
    expect(timers).toHaveLength(1)
  })

  test('stay slowed while they go on, and are forgotten after a minute of none', async () => {
    const { guard, timers, ring } = guardByHand()
    await failOften(guard, FAILURES_FREE)
    for (let second = 1; second <= 300; second += 1) {
      fail(guard, T0 + second * 1000)
      expect(timers).toHaveLength(second)
    }
    while (timers.length > 0) ring()
    await failOften(guard, 1, T0 + 300_000 + FAILURES_WINDOW_MS)
    expect(timers).toEqual([])
  })

  test('are slowed too by a clock that steps back', async () => {
    const { guard, timers } = guardByHand()
    await failOften(guard, FAILURES_FREE)
    fail(guard, T0 - 3_600_000)
    expect(timers).toHaveLength(1)
  })

  test('of one client do not slow another', async () => {
    const { guard, timers } = guardByHand()
    await failOften(guard, FAILURES_FREE)
    fail(guard, T0)
    await failOften(guard, FAILURES_FREE, T0, '198.51.100.8')
    expect(timers).toHaveLength(1)
  })
})

describe('any sequence of wrong keys', () => {
  test('waits exactly where ten came before within a minute', () => {
    const steps = fc.array(fc.oneof(fc.integer({ min: 0, max: 20_000 }), fc.constant(0)), {
      minLength: 15,
      maxLength: 60,
    })
    const seen = { waited: 0, told: 0 }
    const property = fc.property(steps, given => {
      const { guard, timers } = guardByHand()
      const instants: number[] = []
      let nowMs = T0
      for (const step of given) {
        nowMs += step
        const recent = instants.filter(ms => ms > nowMs - FAILURES_WINDOW_MS).length
        const before = timers.length
        fail(guard, nowMs)
        expect(timers.length - before).toBe(recent >= FAILURES_FREE ? 1 : 0)
        seen[recent >= FAILURES_FREE ? 'waited' : 'told'] += 1
        instants.push(nowMs)
      }
    })
    fc.assert(property)
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100)
  })
})

describe('a flood of wrong keys', () => {
  test('lets the longest wait go when too many wait at once', async () => {
    const { guard, timers } = guardByHand()
    await failOften(guard, FAILURES_FREE)
    const told = Array.from({ length: WAITING_MAX }, () => fail(guard, T0))
    await settle()
    expect(told.some(isTold => isTold())).toBe(false)
    fail(guard, T0)
    fail(guard, T0)
    await settle()
    expect(told.slice(0, 3).map(isTold => isTold())).toEqual([true, true, false])
    expect(timers).toHaveLength(WAITING_MAX)
  })

  test('from ever new addresses makes the guard forget the oldest, not grow', async () => {
    const { guard, timers } = guardByHand()
    await failOften(guard, FAILURES_FREE)
    for (let n = 0; n < 10_000; n += 1) fail(guard, T0, `client ${n}`)
    await failOften(guard, FAILURES_FREE) // forgotten: as many as a new client are free
    expect(timers).toEqual([])
    fail(guard, T0)
    expect(timers).toHaveLength(1)
  })
})

describe('at the end', () => {
  test('everybody who waits is told at once, and nobody waits from then on', async () => {
    const { guard, timers } = guardByHand()
    await failOften(guard, FAILURES_FREE)
    const told = [fail(guard, T0), fail(guard, T0), fail(guard, T0)]
    await settle()
    guard.release()
    told.push(fail(guard, T0))
    await settle()
    expect([told.map(isTold => isTold()), timers]).toEqual([[true, true, true, true], []])
  })

  test('a timer that is given up does not ring', async () => {
    const rung: string[] = []
    timerLater(() => rung.push('given up'), 0)()
    const { promise, resolve } = Promise.withResolvers<void>()
    timerLater(resolve, 0)
    await promise
    expect(rung).toEqual([])
  })
})

/** A service with a valid key, and the wrong ones of every kind. */
async function startGuarded() {
  const dir = temporaryDirectory()
  const registry = openRegistry(dir)
  const add = (key: string, plan: string | null, expiresAt: number | null = null): string => {
    registry.keys.add({ key, label: '', plan, expiresAt }, T0)
    return key
  }
  const burst = { requests: 1000, seconds: 1 }
  registry.plans.set({
    ...{ name: 'free', burst, daily: null, subnets: null, clients: null, count: null },
  })
  const valid = add(newKey('regular'), 'free')
  const expired = add(newKey('regular'), 'free', T0)
  const revoked = newKey('regular')
  const { id } = registry.keys.add({ key: revoked, label: '', plan: 'free', expiresAt: null }, T0)
  registry.keys.revoke(id, T0)
  const temporary = add(newKey('temp'), null, T0)
  registry.close()
  const { guard, timers, ring } = guardByHand()
  const service = await startService(dir, { guard })
  const ask = async (key: string, from = CLIENT): Promise<string> => {
    const path = `/api?key=${key}`
    const { status, text } = await service.request(path, { headers: { 'X-Forwarded-For': from } })
    return `${status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ''}`
  }
  return {
    ask,
    timers,
    ring,
    valid,
    wrong: { unknown: newKey('regular'), expired, revoked, temporary },
  }
}

describe('behind the endpoint', () => {
  test('every kind of wrong key counts and waits alike', async () => {
    const { ask, timers, ring, wrong } = await startGuarded()
    const kinds = Object.values(wrong)
    for (let n = 0; n < FAILURES_FREE; n += 1) await ask(kinds[n % kinds.length] ?? '')
    for (const [kind, key] of Object.entries(wrong)) {
      const answer = ask(key)
      await settle()
      expect([kind, timers.map(({ ms }) => ms)]).toEqual([kind, [FAILURE_DELAY_MS]])
      ring()
      const code = kind === 'temporary' ? 'TEMP_KEY_INVALID' : 'INVALID_KEY'
      expect(await answer).toBe(`403 ${code}`)
    }
  })

  test('a valid key, demo and every other refusal from the same address never wait', async () => {
    const { ask, timers, valid, wrong } = await startGuarded()
    for (let n = 0; n < FAILURES_FREE; n += 1) await ask(wrong.unknown)
    void ask(wrong.unknown)
    await settle()
    for (let n = 0; n < 50; n += 1) expect(await ask(valid)).toBe('404 PROXIES_NOT_FOUND')
    expect(await ask('demo')).toBe('404 PROXIES_NOT_FOUND')
    expect(await ask('')).toBe('400 KEY_MISSING')
    expect(await ask(`${valid}&works=101`)).toBe('400 INVALID_PARAMETER')
    expect(timers).toHaveLength(1)
  })

  test('other refusals are no failures', async () => {
    const { ask, timers, valid, wrong } = await startGuarded()
    for (let n = 0; n < 3 * FAILURES_FREE; n += 1) await ask(`${valid}&works=101`)
    expect(await ask(wrong.unknown)).toBe('403 INVALID_KEY')
    expect(timers).toEqual([])
  })

  test('IPv6 clients are counted by their /64', async () => {
    const { ask, timers, ring, wrong } = await startGuarded()
    for (let n = 0; n < FAILURES_FREE; n += 1) await ask(wrong.unknown, `2001:db8::${n}`)
    expect(await ask(wrong.unknown, '2001:db8:0:1::1')).toBe('403 INVALID_KEY')
    const answer = ask(wrong.unknown, '2001:db8::ffff')
    await settle()
    expect(timers).toHaveLength(1)
    ring()
    expect(await answer).toBe('403 INVALID_KEY')
  })
})
