/**
 * A world of proxies that come and go, checked by the real checker for hours of the test's clock: how many of those
 * that are up does a query without `time` find?
 */
import type { CheckerOptions } from '../../src/checker/checker.ts'
import type { CheckRequest } from '../../src/checker/ports.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { RECENT_MS } from '../../src/proxies/freshness.ts'
import { idOf, toAddress } from '../../src/proxies/row.ts'
import { alive, createSpells, createWorld, dead } from './checker.ts'
import { createRandom } from './random.ts'

/** Share of addresses that are proxies at all. */
const REAL = 0.06
/** A third each: servers, machines that are on for hours, and machines that are hardly on. */
const KINDS = [
  { upMs: 20 * HOUR_MS, downMs: HOUR_MS },
  { upMs: 2 * HOUR_MS, downMs: HOUR_MS },
  { upMs: 20 * MINUTE_MS, downMs: HOUR_MS },
] as const
/** How long a check takes. */
const ALIVE_MS = 800
const DEAD_MS = 10 * SECOND_MS

type Simulation = Pick<CheckerOptions, 'perSecond'> & {
  candidates: number
  hours: number
}

export async function simulate({ candidates, perSecond, hours }: Simulation) {
  const random = createRandom(1)
  // Everything happens at multiples of a slice, in which one check may begin.
  const sliceMs = Math.min(SECOND_MS, SECOND_MS / perSecond)
  const world = createWorld({ perSecond, sliceMs })
  const isUp = new Map<number, (nowMs: number) => boolean>()
  const ids = new Set<number>()
  while (ids.size < candidates) ids.add(Math.floor(random() * 2 ** 32) * 65536 + 8080)
  for (const [n, id] of [...ids].slice(0, candidates * REAL).entries()) {
    isUp.set(id, createSpells(random, KINDS[n % KINDS.length] ?? KINDS[0]))
  }
  const isAlive = ({ address }: CheckRequest): boolean =>
    isUp.get(idOf(address))?.(world.time.elapsedMs()) ?? false
  const toSlices = (ms: number): number => Math.max(1, Math.round(ms / sliceMs)) * sliceMs
  world.takesMs = request => toSlices(isAlive(request) ? ALIVE_MS : DEAD_MS)
  world.answer = request => (isAlive(request) ? alive() : dead())
  const nothing = { types: 0, works: null, checkedAt: 0 }
  world.checker.add([...ids].map(id => ({ ...toAddress(id), ...nothing })))

  const stopping = new AbortController()
  const run = world.checker.run(stopping.signal)
  let [up, fresh, checks] = [0, 0, 0]
  for (let minute = 1; minute <= hours * 60; minute += 1) {
    await world.time.pass(MINUTE_MS)
    const nowMs = world.time.elapsedMs()
    for (const [id, is] of isUp) {
      if (!is(nowMs)) continue
      up += 1
      const { checkedAt = 0 } = world.list.rows.get(id) ?? {}
      fresh += Number(world.time.clock() - checkedAt * SECOND_MS <= RECENT_MS)
    }
    checks += world.begun.splice(0).length
  }
  stopping.abort()
  await world.time.pass(3 * SECOND_MS)
  await run
  return { coverage: fresh / up, checks }
}
