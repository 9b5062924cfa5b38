/** How soon answers are right again after a fault, and how long a request waits meanwhile. */
import type { Asked } from './asked.ts'
import type { Done } from './faults.ts'

/** A fault that was made: from when on, and what it did. */
export type Made = Done & { name: string; fromMs: number }

/** Answers are right again within this after the return of the database (contract I4). */
export const RIGHT_AGAIN_MS = 2_000

const isUnavailable = ({ status }: Asked): boolean => status === 503

export type Recovery = {
  /** 503 to requests that were sent later than allowed after the return, before the next fault. */
  late: Asked[]
  /** From the return until the last request was sent that was answered 503, for each fault. */
  after: { name: string; ms: number }[]
  /** From sending to the answer, of the slowest request. */
  slowestMs: number
}

/** Compares the instants of faults, which are in order, with what the clients saw. */
export function recoveryOf(
  all: readonly Asked[],
  made: readonly Made[],
  rightAgainMs: number,
): Recovery {
  const unavailable = all.filter(isUnavailable).sort((a, b) => a.sentMs - b.sentMs)
  const late: Asked[] = []
  const after: Recovery['after'] = []
  for (const [i, { name, returnedMs, fromMs }] of made.entries()) {
    const untilMs = made[i + 1]?.fromMs ?? Number.POSITIVE_INFINITY
    const its = unavailable.filter(
      ({ sentMs, receivedMs }) => sentMs >= fromMs && receivedMs < untilMs,
    )
    const last = its.at(-1)?.sentMs ?? returnedMs
    after.push({ name, ms: Math.max(0, last - returnedMs) })
    late.push(...its.filter(({ sentMs }) => sentMs > returnedMs + rightAgainMs))
  }
  const slowestMs = all.reduce((most, one) => Math.max(most, one.receivedMs - one.sentMs), 0)
  return { late, after, slowestMs }
}
