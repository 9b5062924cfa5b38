/** Owns the error codes and messages for decisions of `access/` (spec 7, contract B). */
import { type Caller, TEMP_PREFIX } from '../access/key.ts'
import type { NetworkDecision } from '../access/network-quota.ts'
import type { Decision } from '../access/rate-limit.ts'
import { ApiError, type ErrorCode } from './errors.ts'

type Refused<D extends { kind: string }> = Extract<D, { kind: 'refused' }>

/** The 403 for a key that is unknown, revoked or expired. */
export const invalidKey = (key: string): ApiError =>
  key.startsWith(TEMP_PREFIX)
    ? new ApiError('TEMP_KEY_INVALID', 'the temporary key is expired or not active')
    : new ApiError('INVALID_KEY', 'the key is invalid or expired')

const WINDOW_REFUSALS: { [kind in Caller['kind']]: { code: ErrorCode; message: string } } = {
  regular: { code: 'RATE_LIMIT_EXCEEDED', message: 'too many requests' },
  demo: { code: 'DEMO_LIMIT_REACHED', message: 'the demo key allows 2 requests a minute' },
  temp: {
    code: 'TEMP_LIMIT_REACHED',
    message: 'a temporary key allows 2 requests an hour, for the key and for the address',
  },
}

/** The 429 for a request that was not admitted. */
export function rateLimitRefusal(
  caller: Caller,
  { by, retryAfterSeconds }: Refused<Decision>,
): ApiError {
  const wait = `; retry after ${retryAfterSeconds} s`
  if (by === 'daily' && caller.kind === 'regular') {
    const dailyLimit = caller.plan.daily ?? 0
    const message = `the plan's ${dailyLimit} requests of this day are used up${wait}`
    return new ApiError('DAILY_LIMIT_REACHED', message, { retryAfterSeconds, dailyLimit })
  }
  const { code, message } = WINDOW_REFUSALS[caller.kind]
  return new ApiError(code, message + wait, { retryAfterSeconds })
}

/** The 429 for an answer whose networks exceed a quota. */
export function networkRefusal(decision: Refused<NetworkDecision>): ApiError {
  const { set, quota, used, added, retryAfterSeconds } = decision
  const message =
    set === 'served'
      ? `this answer needs ${added} more /16 subnets; ${used} of the ${quota} a day ` +
        'are used: narrow the filter or lower count'
      : `${used} of the ${quota} client networks a day are used`
  return new ApiError('SUBNET_LIMIT_REACHED', message, { retryAfterSeconds, usedSubnets: used })
}
