/**
 * How fast checks may begin, and how many be under way: in all, at an address, and in a /16, whose owner should
 * not notice them (contract H3). Pure: instants are passed in.
 */
import { SECOND_MS } from '../lib/time.ts'
import { ipBits, subnetOf } from '../proxies/row.ts'
import { QUEUES } from './ports.ts'
import type { Next } from './schedule.ts'

const PER_ADDRESS_MAX = 2
const PER_SUBNET_MAX = 8
/** Checks that begin within a second in a /16. */
export const BEGUN_MAX = 2
const SLOT_MS = SECOND_MS / BEGUN_MAX

/** After a pause of the program, at most this much of a second is caught up with at once. */
const BURST_SHARE = 0.25

export function createCounts() {
  const counts = new Map<number, number>()
  return {
    of: (key: number): number => counts.get(key) ?? 0,
    add(key: number, by: number): void {
      const count = (counts.get(key) ?? 0) + by
      if (count === 0) counts.delete(key)
      else counts.set(key, count)
    },
  }
}

const LINES = [...QUEUES, 'idle'] as const

/**
 * Spreads addresses of a /16 over time: each gets the next free place in its line, so that the many of one
 * network are not all due, and in the way of others, when it takes hours to check them.
 */
export function createSlots() {
  const next = new Map<number, number>()
  return {
    /** When an address may come, `fromMs` or later. */
    take({ id, line }: Next, fromMs: number): number {
      const key = subnetOf(id) * LINES.length + LINES.indexOf(line)
      const atMs = Math.max(fromMs, next.get(key) ?? fromMs)
      next.set(key, atMs + SLOT_MS)
      return atMs
    },
    /** Forgets lines that are over. */
    prune(nowMs: number): void {
      for (const [key, atMs] of next) if (atMs <= nowMs) next.delete(key)
    },
  }
}

export function createPace(perSecond: number, inFlightMax: number) {
  let credit = 0
  let inFlight = 0
  const addresses = createCounts()
  const subnets = createCounts()
  /** When the last two checks in a /16 began. */
  const begun = new Map<number, readonly [before: number, last: number]>()

  const isFull = (id: number): boolean =>
    subnets.of(subnetOf(id)) >= PER_SUBNET_MAX || addresses.of(ipBits(id)) >= PER_ADDRESS_MAX

  return {
    /** Time has passed. */
    advance(ms: number): void {
      const most = 1 + perSecond * BURST_SHARE
      credit = Math.min(credit + (perSecond * ms) / SECOND_MS, most)
    },
    /** Whether any check may begin. */
    isOpen: (): boolean => credit >= 1 && inFlight < inFlightMax,
    /** Whether as many are under way at this address, or in its network, as may be. */
    isFull,
    /** Whether caps keep this address from being checked now. */
    isHeld(id: number, nowMs: number): boolean {
      const [before] = begun.get(subnetOf(id)) ?? [Number.NEGATIVE_INFINITY]
      return nowMs - before < SECOND_MS || isFull(id)
    },
    begin(id: number, nowMs: number): void {
      const subnet = subnetOf(id)
      const [, last] = begun.get(subnet) ?? [0, Number.NEGATIVE_INFINITY]
      begun.set(subnet, [last, nowMs])
      credit -= 1
      inFlight += 1
      addresses.add(ipBits(id), 1)
      subnets.add(subnet, 1)
    },
    end(id: number): void {
      inFlight -= 1
      addresses.add(ipBits(id), -1)
      subnets.add(subnetOf(id), -1)
    },
    /** Forgets when checks began that keep none back any more. */
    prune(nowMs: number): void {
      for (const [subnet, [, last]] of begun) {
        if (nowMs - last >= SECOND_MS) begun.delete(subnet)
      }
    },
  }
}
