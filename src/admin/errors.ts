/** The error codes of the admin listener, their HTTP status, and the error body of spec 2.3. */
import { type RuleCode, RuleError } from '../access/manage.ts'
import { StoreError } from '../lib/errors.ts'
import { formatInstant } from '../lib/time.ts'

/** Every code that a client of the admin listener can get, and its HTTP status. */
export const ADMIN_STATUS = {
  INVALID_PARAMETER: 400,
  TOKEN_IN_URL: 400,
  TOKEN_MISSING: 401,
  TOKEN_INVALID: 401,
  HOST_REFUSED: 403,
  ORIGIN_REFUSED: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  BODY_TOO_LARGE: 413,
  CONTENT_TYPE_REFUSED: 415,
  INTERNAL_ERROR: 500,
  DB_EXECUTE_FAILED: 503,
  STORAGE_FAILED: 507,
} as const

export type AdminCode = keyof typeof ADMIN_STATUS

/** An error for the client. The message is sent unchanged: no key, token, SQL, path or stack in it. */
export class AdminError extends Error {
  override readonly name = 'AdminError'
  readonly code: AdminCode
  /** The methods that a path has; of METHOD_NOT_ALLOWED only. */
  readonly allow: readonly string[]

  constructor(code: AdminCode, message: string, allow: readonly string[] = []) {
    super(message)
    this.code = code
    this.allow = allow
  }

  get status(): number {
    return ADMIN_STATUS[this.code]
  }
}

/** What rules refuse; all else is a state of things that does not allow it. */
const RULES: { readonly [code in RuleCode]: AdminCode } = {
  ...{ invalid: 'INVALID_PARAMETER', 'not-found': 'NOT_FOUND', conflict: 'CONFLICT' },
}

/** The error that a client may see, for anything thrown while it is answered. */
export function toAdminError(thrown: unknown): AdminError {
  if (thrown instanceof AdminError) return thrown
  if (thrown instanceof RuleError) {
    return new AdminError(RULES[thrown.code], thrown.message)
  }
  if (thrown instanceof StoreError) {
    const message = 'the data cannot be used now; stderr of the server says more'
    return new AdminError('DB_EXECUTE_FAILED', message)
  }
  return new AdminError(
    'INTERNAL_ERROR',
    'an internal error occurred; stderr of the server says more',
  )
}

/** The JSON error body of spec 2.3. `nowMs` becomes its UTC timestamp. */
export const adminErrorBody = ({ code, message }: AdminError, nowMs: number): string =>
  JSON.stringify({ status: 'error', code, message, timestamp: formatInstant(nowMs) })
