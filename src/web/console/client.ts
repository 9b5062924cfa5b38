/**
 * Owns requests to the admin listener: the token in its header field, errors as sentences of the
 * server. It knows no view.
 */

/** A request that did not succeed; `message` is the server's sentence, or ours without a server. */
export class RequestError extends Error {
  readonly status: number | null

  constructor(message: string, status: number | null) {
    super(message)
    this.status = status
  }
}

export type Client = {
  /** The value of a JSON document. @throws RequestError, and what an aborted `signal` throws. */
  get<T>(path: string, signal?: AbortSignal): Promise<T>
  /** Sends a change and returns the answer. @throws RequestError */
  send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: object): Promise<T>
  /** A response whose body is read as it arrives. @throws RequestError */
  open(path: string, signal: AbortSignal): Promise<Response>
  /** For requests that are made in another way. */
  authorization(): string
  /** The error of a response that refuses; a 401 ends the session. */
  refuse(status: number, body: string): RequestError
}

/** The message of an error body (spec 2.3), or what the status says. */
function messageOf(status: number, body: string): string {
  try {
    const parsed: unknown = JSON.parse(body)
    if (typeof parsed === 'object' && parsed !== null && 'message' in parsed) {
      return String(parsed.message)
    }
  } catch {
    // Not JSON: an error of something between the browser and the server.
  }
  return `the server answered with status ${status}`
}

/**
 * @param onUnauthorized is called with the server's sentence when it no longer takes the token
 * @param unreachable says that the server does not answer
 */
export function createClient(
  token: string,
  onUnauthorized: (message: string) => void,
  unreachable: () => string,
): Client {
  const authorization = (): string => `Bearer ${token}`

  let isOver = false
  const refuse = (status: number, body: string): RequestError => {
    const message = messageOf(status, body)
    // Of several requests that are refused, the first one says why.
    if (status === 401 && !isOver) onUnauthorized(message)
    isOver ||= status === 401
    return new RequestError(message, status)
  }

  async function request(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...init.headers, authorization: authorization() }
    const response = await fetch(path, { cache: 'no-store', ...init, headers }).catch(error => {
      if (init.signal?.aborted) throw error
      throw new RequestError(unreachable(), null)
    })
    if (response.ok) return response
    const body = await response.text().catch(() => '')
    init.signal?.throwIfAborted()
    throw refuse(response.status, body)
  }

  /** An answer without content is an empty object. */
  async function valueOf<T>(response: Response): Promise<T> {
    const text = await response.text().catch(() => {
      throw new RequestError(unreachable(), null)
    })
    return JSON.parse(text === '' ? '{}' : text) as T // the server's own types, see wire.ts
  }

  return {
    authorization,
    refuse,
    get: async (path, signal) => valueOf(await request(path, signal ? { signal } : {})),
    send: async (method, path, body = {}) =>
      valueOf(
        await request(path, {
          method,
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
      ),
    open: (path, signal) => request(path, { signal }),
  }
}
