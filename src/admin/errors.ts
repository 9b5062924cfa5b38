/** The error codes of the admin listener and their HTTP status: every one that a client can get. */
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
  /** The methods that a path has, of METHOD_NOT_ALLOWED only; the member of the request that is wrong. */
  readonly about: { readonly allow?: readonly string[]; readonly field?: string | undefined }

  constructor(code: AdminCode, message: string, about: AdminError['about'] = {}) {
    super(message)
    this.code = code
    this.about = about
  }
}
