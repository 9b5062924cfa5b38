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

/** How many /16 there are: see `subnetOf`. */
const SUBNETS = 65_536
const LINES = [...QUEUES, 'idle'] as const

/**
 * Spreads addresses of a /16 over time: each gets the next free place in its line, so that the many of one
 * network are not all due, and in the way of others, when it takes hours to check them.
 */
export function createSlots() {
  const next = new Float64Array(SUBNETS * LINES.length)
  return {
    /** When an address may come, `fromMs` or later. */
    take({ id, line }: Next, fromMs: number): number {
      const key = subnetOf(id) * LINES.length + LINES.indexOf(line)
      const atMs = Math.max(fromMs, next[key] ?? 0)
      next[key] = atMs + SLOT_MS
      return atMs
    },
  }
}

export function createPace(perSecond: number, inFlightMax: number) {
  let credit = 0
  let inFlight = 0
  const addresses = createCounts()
  const subnets = createCounts()
  /** When the last check in a /16 began, and the one before. */
  const last = new Float64Array(SUBNETS).fill(Number.NEGATIVE_INFINITY)
  const before = last.slice()

  const isFull = (id: number): boolean =>
    subnets.of(subnetOf(id)) >= PER_SUBNET_MAX || addresses.of(ipBits(id)) >= PER_ADDRESS_MAX

  return {
    advance(ms: number): void {
      const most = 1 + perSecond * BURST_SHARE
      credit = Math.min(credit + (perSecond * ms) / SECOND_MS, most)
    },
    isOpen: (): boolean => credit >= 1 && inFlight < inFlightMax,
    /** Whether as many are under way at this address, or in its network, as may be. */
    isFull,
    /** Whether caps keep this address from being checked now. */
    isHeld(id: number, nowMs: number): boolean {
      return nowMs - (before[subnetOf(id)] ?? 0) < SECOND_MS || isFull(id)
    },
    begin(id: number, nowMs: number): void {
      const subnet = subnetOf(id)
      before[subnet] = last[subnet] ?? 0
      last[subnet] = nowMs
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
  }
}
