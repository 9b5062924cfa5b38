/** What the checker counts since its start, and the status that is made of it. */
import { SECOND_MS } from '../lib/time.ts'
import type { CandidateStore, CheckerStatus, CheckResult, Reason } from './ports.ts'
import { FRESH_MS, neededRate } from './schedule.ts'

/** The rate is that of so many seconds. */
const RATE_SECONDS = 60

export function createCounters(perSecond: number) {
  const total = { checked: 0, alive: 0, deferred: 0, bytes: 0 }
  const failures: { [reason in Reason]?: number } = {}
  /** How many began in each of the last seconds, the latest last. */
  const begun = [0]

  return {
    began(): void {
      total.checked += 1
      begun[begun.length - 1] = (begun.at(-1) ?? 0) + 1
    },
    ended({ kind, bytes }: CheckResult): void {
      total.bytes += bytes
      if (kind === 'alive') total.alive += 1
    },
    deferred(): void {
      total.deferred += 1
    },
    failed(reason: Reason): void {
      failures[reason] = (failures[reason] ?? 0) + 1
    },
    /** A second is over. */
    turn(): void {
      if (begun.push(0) > RATE_SECONDS + 1) begun.shift()
    },

    status(
      store: Pick<CandidateStore, 'counts' | 'freshSince' | 'lagMs'>,
      when: Pick<CheckerStatus, 'at' | 'startedMs' | 'once' | 'judgeProblem'> & { nowMs: number },
    ): CheckerStatus {
      const { nowMs, ...rest } = when
      const queues = store.counts()
      const whole = begun.slice(0, -1)
      const sum = whole.reduce((before, count) => before + count, 0)
      return {
        ...rest,
        queues,
        ...total,
        failures: { ...failures },
        rate: whole.length === 0 ? 0 : Math.round((100 * sum) / whole.length) / 100,
        coverage: queues.living === 0 ? null : store.freshSince(nowMs - FRESH_MS) / queues.living,
        lagSeconds: Math.round(store.lagMs(nowMs) / SECOND_MS),
        neededRate: neededRate(queues.living, perSecond),
      }
    },
  }
}
