/**
 * Owns the error codes of the API, their HTTP status, and the error body of spec 2.3.
 * Knows nothing of requests or databases beyond the name of SQLite's error class.
 */
import { formatInstant } from '../lib/time.ts'

/** Every code a client can meet (spec 7, contract A and B) and its HTTP status. */
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

/** What an error body may carry beside code and message (spec 2.3). */
export type ErrorContext = {
  retryAfterSeconds?: number
  dailyLimit?: number
  usedSubnets?: number
}

/** A refusal that reaches the client. The message is shown as it is: no key, SQL, path or stack. */
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

/** A failure of the command line, shown to the operator as one line; `exitCode` 1 failed, 2 usage. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: 1 | 2

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

/** A database that must not be used as it is; the message says why, for the operator. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
  /** Whether the file does not hold what it should, and will not by itself. */
  readonly isDamage: boolean

  constructor(message: string, isDamage = false) {
    super(message)
    this.isDamage = isDamage
  }
}

/** The message of anything thrown, for the operator. */
export const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message : String(thrown)

const DATABASE_FAILURES = ['SQLiteError', 'Unavailable']

/** Whether SQLite (or our reading of its files) failed, as opposed to our own code. */
export const isDatabaseFailure = (thrown: unknown): boolean =>
  thrown instanceof Error && DATABASE_FAILURES.includes(thrown.name)

/** Turns anything thrown in the request path into what the client may know of it. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  if (isDatabaseFailure(thrown)) {
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
