/**
 * Owns the error codes of the API, their HTTP status, and the error body of spec 2.3.
 * Knows nothing of requests; of databases only that a store may fail (`StoreError`).
 */
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
