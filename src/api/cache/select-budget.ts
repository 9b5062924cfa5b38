/**
 * Owns how much of the main thread selects may take (contract B9). A key that selects a lot at once
 * uses up its budget, and so do all client addresses of `demo` and `temp_` keys together; the worker
 * then finds their answers, in turns, and those of others do not wait for them.
 */
import type { Share } from '../../access/entitlements.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { stopwatch } from '../../lib/clock.ts'

/** Milliseconds that may be spent at once, and the part of the time that may be spent for long. */
type Bounds = { msMax: number; part: number }
const KEY: Bounds = { msMax: 15, part: 0.6 }
const TRIAL: Bounds = { msMax: 10, part: 0.1 }

/** Keys whose budget is in memory; that of another is full. */
const KEYS_MAX = 10_000

/** What is left at an instant of `elapsedMs`. */
type Budget = { leftMs: number; atMs: number }

/** The budgets of all; `elapsedMs` is a monotonic clock. */
export function createSelectBudgets(elapsedMs: () => number = stopwatch()) {
  const byKey = createBoundedMap<string, Budget>(KEYS_MAX)
  const trial: Budget = { leftMs: TRIAL.msMax, atMs: 0 }

  function budgetOf({ id, isTrial }: Share): Budget {
    if (isTrial) return trial
    const known = byKey.get(id)
    if (known !== undefined) return known
    const full = { leftMs: KEY.msMax, atMs: elapsedMs() }
    byKey.set(id, full)
    return full
  }

  return {
    /** Whether a select for `share` may begin; the last one may exceed the budget. */
    hasTime(share: Share): boolean {
      const budget = budgetOf(share)
      const { msMax, part } = share.isTrial ? TRIAL : KEY
      const nowMs = elapsedMs()
      budget.leftMs = Math.min(msMax, budget.leftMs + (nowMs - budget.atMs) * part)
      budget.atMs = nowMs
      return budget.leftMs > 0
    },

    /** Runs a select for `share` and subtracts the time that it takes. */
    spend<T>(share: Share, select: () => T): T {
      const beforeMs = elapsedMs()
      try {
        return select()
      } finally {
        budgetOf(share).leftMs -= elapsedMs() - beforeMs
      }
    },
  }
}
