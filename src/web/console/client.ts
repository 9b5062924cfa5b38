/**
 * Requests to the admin listener: the token in its header field, errors as sentences of the server. Knows no
 * view.
 */

const UNREACHABLE = 'The server does not answer.'

/** A request that did not succeed; `message` is the server's sentence, or ours without a server. */
export class RequestError extends Error {
  /** The member that is wrong, `''` when none is. */
  readonly field: string

  constructor(message: string, { field = '' }: { field?: string } = {}) {
    super(message)
    this.field = field
  }
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/** The error that a body says (spec 2.3), or the status. */
function errorOf(status: number, body: string): RequestError {
  try {
    const parsed: { message?: string; field?: string } | null = JSON.parse(body)
    if (parsed?.message !== undefined) return new RequestError(parsed.message, parsed)
  } catch {
    // Not JSON: an error of something between the browser and the server.
  }
  return new RequestError(`the server answered with status ${status}`)
}

export type Client = ReturnType<typeof createClient>

/** @param onUnauthorized is called with the server's sentence when it no longer takes the token */
export function createClient(token: string, onUnauthorized: (message: string) => void) {
  const authorization = (): string => `Bearer ${token}`

  let isOver = false
  /** The error of a response that refuses; a 401 ends the session, and no request is sent after it. */
  const refuse = (status: number, body: string): RequestError => {
    const error = errorOf(status, body)
    // Of several requests that are refused, the first one says why.
    if (status === 401 && !isOver) onUnauthorized(error.message)
    isOver ||= status === 401
    return error
  }

  async function request(path: string, init: RequestInit): Promise<Response> {
    if (isOver) throw new RequestError('Sign in again first.')
    const headers = { ...init.headers, authorization: authorization() }
    const response = await fetch(path, { cache: 'no-store', ...init, headers }).catch(error => {
      if (init.signal?.aborted) throw error
      throw new RequestError(UNREACHABLE)
    })
    if (response.ok) return response
    const body = await response.text().catch(() => '')
    init.signal?.throwIfAborted()
    throw refuse(response.status, body)
  }

  /** An answer without content is an empty object. */
  async function valueOf<T>(response: Response): Promise<T> {
    const text = await response.text().catch(() => {
      throw new RequestError(UNREACHABLE)
    })
    return JSON.parse(text === '' ? '{}' : text) as T // the server's own types
  }

  return {
    /** For requests that are made in another way. */
    authorization,
    refuse,
    /** Whether the server no longer takes the token. */
    isOver: (): boolean => isOver,
    /** The value of a JSON document. @throws RequestError, and what an aborted `signal` throws. */
    get: async <T>(path: string, signal?: AbortSignal): Promise<T> =>
      valueOf(await request(path, signal ? { signal } : {})),
    /** Sends a change and returns the answer. @throws RequestError */
    async send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body: object = {}): Promise<T> {
      const headers = { 'content-type': 'application/json' }
      return valueOf(await request(path, { method, headers, body: JSON.stringify(body) }))
    },
  }
}
