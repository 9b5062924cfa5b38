/** All error codes of the admin listener, with their HTTP status. */
export const ADMIN_STATUS = {
  INVALID_PARAMETER: 400,
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

/** An error for the client. Its message must not contain a key, token, SQL, path or stack. */
export class AdminError extends Error {
  override readonly name = 'AdminError'
  readonly code: AdminCode
  /** The methods of the path, for METHOD_NOT_ALLOWED. */
  readonly allow: readonly string[] | undefined

  constructor(code: AdminCode, message: string, allow?: readonly string[]) {
    super(message)
    this.code = code
    this.allow = allow
  }
}
