/** Owns the program's limiter in process, on a clock moved by hand and a database in memory. */
import { type Caller, chargeOne, metersOf } from '../../../../src/access/access.ts'
import { admitOne } from '../../../../src/access/rate-limit.ts'
import { completeHeaders } from '../../../../src/http/headers.ts'
import { createUsageStore, openAccessFile } from '../../../../src/sqlite/access/usage.ts'

export type { Caller }

export type Asked = { caller: Caller; ip: string; subnets: number[] }

/** How far a request comes: once admitted, its answer may be refused for its networks. */
export type Outcome = { stage: 'refused' | 'admitted' | 'served'; seconds: number }

/** A limiter whose subjects have used nothing. */
export function openLimiter() {
  const db = openAccessFile(':memory:')
  const store = createUsageStore(db)
  const undo = new Error('undo')

  function askOnce({ caller, ip, subnets }: Asked, nowMs: number): Outcome {
    const decision = admitOne(store, metersOf(caller, ip), nowMs)
    if (decision.refused !== null) return { stage: 'refused', seconds: decision.retryAfterSeconds }
    const refusal = chargeOne(store, { caller, ip, subnets, verdict: decision }, nowMs)
    if (refusal === null) return { stage: 'served', seconds: 0 }
    return { stage: 'admitted', seconds: refusal.context.retryAfterSeconds ?? 0 }
  }

  return {
    /** Admits a request or refuses it; gives all that a client sees of the decision. */
    admit(caller: Caller, ip: string, nowMs: number) {
      const decision = store.transaction(() => admitOne(store, metersOf(caller, ip), nowMs))
      const { refused, retryAfterSeconds, gauges } = decision
      const rateLimit = completeHeaders('', gauges, {}).ratelimit ?? ''
      return { refused, retryAfterSeconds, rateLimit }
    },
    ask: (asked: Asked, nowMs: number): Outcome => store.transaction(() => askOnce(asked, nowMs)),
    /** Whether a refused request would come further at another instant; counts nothing. */
    wouldPass(asked: Asked, { stage }: Outcome, nowMs: number): boolean {
      let then: Outcome['stage'] = stage
      try {
        store.transaction(() => {
          then = askOnce(asked, nowMs).stage
          throw undo
        })
      } catch (error) {
        if (error !== undo) throw error
      }
      return stage === 'refused' ? then !== 'refused' : then === 'served'
    },
    close: () => db.close(),
  }
}
