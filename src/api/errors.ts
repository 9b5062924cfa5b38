/**
 * The error codes of the API and their HTTP status, the error body of spec 2.3, and what the decisions
 * of `access/` say to a client (spec 7, contract B).
 */

import { type Caller, TEMP_PREFIX } from '../access/key.ts'
import type { NetworkDecision } from '../access/network-quota.ts'
import type { Plan } from '../access/plan.ts'
import type { Decision } from '../access/rate-limit.ts'
import { StoreError } from '../lib/errors.ts'
import { formatInstant } from '../lib/time.ts'

/** Every code that a client can get (spec 7, contract A and B) and its HTTP status. */
export const STATUS = {
  KEY_MISSING: 400,
  INVALID_PARAMETER: 400,
  INVALID_KEY: 403,
  TEMP_KEY_INVALID: 403,
  PROXIES_NOT_FOUND: 404,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  RATE_LIMIT_EXCEEDED: 429,
  DAILY_LIMIT_REACHED: 429,
  SUBNET_LIMIT_REACHED: 429,
  DEMO_LIMIT_REACHED: 429,
  TEMP_LIMIT_REACHED: 429,
  INTERNAL_ERROR: 500,
  DB_EXECUTE_FAILED: 503,
} as const

export type ErrorCode = keyof typeof STATUS

/** What an error body may have besides code and message (spec 2.3). */
export type ErrorContext = {
  retryAfterSeconds?: number
  dailyLimit?: number
  usedSubnets?: number
}

/** An error for the client. The message is sent unchanged: no key, SQL, path or stack in it. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly context: ErrorContext

  constructor(code: ErrorCode, message: string, context: ErrorContext = {}) {
    super(message)
    this.code = code
    this.context = context
  }

  get status(): number {
    return STATUS[this.code]
  }
}

/** The error that a client may see, for anything thrown in the request path. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  if (thrown instanceof StoreError) {
    return new ApiError('DB_EXECUTE_FAILED', 'the database did not answer; try again shortly', {
      retryAfterSeconds: 1,
    })
  }
  return new ApiError('INTERNAL_ERROR', 'an internal error occurred; the request id identifies it')
}

/** The JSON error body of spec 2.3. `nowMs` becomes its UTC timestamp. */
export function errorBody(error: ApiError, nowMs: number): string {
  const { retryAfterSeconds, dailyLimit, usedSubnets } = error.context
  return JSON.stringify({
    status: 'error',
    code: error.code,
    message: error.message,
    timestamp: formatInstant(nowMs),
    retry_after: error.status === 429 ? retryAfterSeconds : undefined,
    daily_limit: dailyLimit,
    used_subnets: usedSubnets,
  })
}

type Refused<D extends { kind: string }> = Extract<D, { kind: 'refused' }>

/** The 403 for a key that is unknown, revoked or expired, or whose plan is off. */
export const invalidKey = (key: string): ApiError =>
  key.startsWith(TEMP_PREFIX)
    ? new ApiError('TEMP_KEY_INVALID', 'the temporary key is expired or not active')
    : new ApiError('INVALID_KEY', 'the key is invalid or expired')

const PERIODS = new Map([
  [1, 'a second'],
  [60, 'a minute'],
  [3600, 'an hour'],
  [86_400, 'a day'],
])

/** The burst limit of a plan in words, such as `2 requests a minute`. */
function burstOf({ burst }: Plan): string {
  const { requests, seconds } = burst ?? { requests: 0, seconds: 0 }
  const counted = requests === 1 ? '1 request' : `${requests} requests`
  return `${counted} ${PERIODS.get(seconds) ?? `in ${seconds} s`}`
}

type WindowRefusal = { code: ErrorCode; message: (plan: Plan) => string }
const WINDOW_REFUSALS: { [kind in Caller['kind']]: WindowRefusal } = {
  regular: { code: 'RATE_LIMIT_EXCEEDED', message: () => 'too many requests' },
  demo: { code: 'DEMO_LIMIT_REACHED', message: plan => `the demo key allows ${burstOf(plan)}` },
  temp: {
    code: 'TEMP_LIMIT_REACHED',
    message: plan => `a temporary key allows ${burstOf(plan)}, for the key and for the address`,
  },
}

/** The 429 for a request that was not admitted. */
export function rateLimitRefusal(
  { kind, plan }: Caller,
  { by, retryAfterSeconds }: Refused<Decision>,
): ApiError {
  const wait = `; retry after ${retryAfterSeconds} s`
  if (by === 'daily') {
    const dailyLimit = plan.daily ?? 0
    const message = `the plan's ${dailyLimit} requests of this day are used up${wait}`
    return new ApiError('DAILY_LIMIT_REACHED', message, { retryAfterSeconds, dailyLimit })
  }
  const { code, message } = WINDOW_REFUSALS[kind]
  return new ApiError(code, message(plan) + wait, { retryAfterSeconds })
}

/** The 429 for an answer whose networks exceed a quota. */
export function networkRefusal(decision: Refused<NetworkDecision>): ApiError {
  const { set, quota, used, added, all, retryAfterSeconds } = decision
  const message =
    all > quota && set === 'served'
      ? `this answer has ${all} /16 subnets, and the plan allows ${quota} a day: ` +
        'narrow the filter or lower count'
      : set === 'served'
        ? `this answer needs ${added} more /16 subnets; ${used} of the ${quota} a day ` +
          'are used: narrow the filter or lower count'
        : `${used} of the ${quota} client networks a day are used`
  return new ApiError('SUBNET_LIMIT_REACHED', message, { retryAfterSeconds, usedSubnets: used })
}
