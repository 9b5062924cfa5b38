/** Requests to the admin listener, with the token in a header field. Errors have the server's sentence, or ours. */

const UNREACHABLE = 'The server does not answer.'

/** A dead connection, such as a lost tunnel, must not stop the polling. */
const TIMEOUT_MS = 60_000

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/** The error in a body (spec 2.3), or the status. */
function errorOf(status: number, body: string): Error {
  try {
    const parsed: { message?: string } | null = JSON.parse(body)
    if (parsed?.message !== undefined) return new Error(parsed.message)
  } catch {
    // Not JSON: a proxy between the browser and the server answered.
  }
  return new Error(`the server answered with status ${status}`)
}

/** The JSON values of a body of lines. A body that is cut off ends with its last complete line. */
async function* readLines<T>(body: ReadableStream<Uint8Array>): AsyncGenerator<T> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield JSON.parse(line) as T // the server's own types
  }
}

export type Client = ReturnType<typeof createClient>

/** `onUnauthorized` is called with the server's sentence when it refuses the token. */
export function createClient(token: string, onUnauthorized: (message: string) => void) {
  async function request(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...init.headers, authorization: `Bearer ${token}` }
    const response = await fetch(path, { cache: 'no-store', ...init, headers }).catch(() => {
      throw new Error(UNREACHABLE)
    })
    if (response.ok) return response
    const error = errorOf(response.status, await response.text().catch(() => ''))
    init.signal?.throwIfAborted() // the view has gone, and with it perhaps the body
    if (response.status === 401) onUnauthorized(error.message)
    throw error
  }

  /** An answer without content is an empty object. */
  async function valueOf<T>(response: Response): Promise<T> {
    const text = await response.text().catch(() => {
      throw new Error(UNREACHABLE)
    })
    return JSON.parse(text === '' ? '{}' : text) as T // the server's own types
  }

  return {
    /** The value of a JSON document. @throws Error with the server’s sentence */
    async get<T>(path: string, signal?: AbortSignal): Promise<T> {
      const timeout = AbortSignal.timeout(TIMEOUT_MS)
      const either = signal ? AbortSignal.any([signal, timeout]) : timeout
      return valueOf(await request(path, { signal: either }))
    },
    /** Sends a change and returns the answer. @throws Error with the server’s sentence */
    async send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body: object = {}): Promise<T> {
      const headers = { 'content-type': 'application/json' }
      return valueOf(await request(path, { method, headers, body: JSON.stringify(body) }))
    },
    /** Sends a file, then yields the lines of the answer. @throws Error with the server’s sentence */
    async *upload<T>(path: string, body: Blob, signal: AbortSignal): AsyncGenerator<T> {
      // Browsers give text files a type that forms send, which the server refuses.
      const headers = { 'content-type': 'application/octet-stream' }
      const response = await request(path, { method: 'POST', body, headers, signal })
      if (response.body !== null) yield* readLines<T>(response.body)
    },
  }
}
