/** The program's limiter in process, on a clock moved by hand and a database in memory. */
import type { Caller } from '../../../../src/access/key.ts'
import type { Decision } from '../../../../src/access/rate-limit.ts'
import { completeHeaders } from '../../../../src/http/reply.ts'
import { openUsage } from '../../../support/limits.ts'

export type { Caller }

export type Asked = { caller: Caller; ip: string; subnets: number[] }

/** How far a request comes: once admitted, its answer may be refused for its networks. */
export type Outcome = { stage: 'refused' | 'admitted' | 'served'; seconds: number }

/** A limiter whose subjects have used nothing. */
export function openLimiter() {
  const { admit, consume, tryAdmit, tryConsume, close } = openUsage()

  /** Takes a request as far as `admitting` and `consuming` let it. */
  function take(
    { caller, ip, subnets }: Asked,
    nowMs: number,
    admitting: typeof admit,
    consuming: typeof consume,
  ): Outcome {
    const decision = admitting(caller, ip, nowMs)
    if (decision.kind === 'refused') {
      return { stage: 'refused', seconds: decision.retryAfterSeconds }
    }
    if (caller.kind !== 'regular') return { stage: 'served', seconds: 0 }
    const { atMs } = decision
    const networks = consuming(caller, { ip, subnets, atMs, nowMs })
    return networks.kind === 'consumed'
      ? { stage: 'served', seconds: 0 }
      : { stage: 'admitted', seconds: networks.retryAfterSeconds }
  }

  return {
    /** Admits a request or refuses it; gives all that a client sees of the decision. */
    admit(caller: Caller, ip: string, nowMs: number) {
      const { limits, ...decision }: Decision = admit(caller, ip, nowMs)
      return { ...decision, rateLimit: completeHeaders('', limits, {}).ratelimit ?? '' }
    },
    ask: (asked: Asked, nowMs: number): Outcome => take(asked, nowMs, admit, consume),
    /** Whether a refused request would come further at another instant; counts nothing. */
    wouldPass(asked: Asked, { stage }: Outcome, nowMs: number): boolean {
      const then = take(asked, nowMs, tryAdmit, tryConsume).stage
      return stage === 'refused' ? then !== 'refused' : then === 'served'
    },
    close,
  }
}
