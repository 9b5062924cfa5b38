/**
 * Requests to the admin listener: the token in its header field, errors as sentences of the server,
 * and streams of lines that are followed. Knows no view.
 */

const UNREACHABLE = 'The server does not answer.'
export const CONNECTION_LOST = 'The connection was lost.'

/** A request that did not succeed; `message` is the server's sentence, or ours without a server. */
export class RequestError extends Error {
  /** A secret of which nobody knows whether it was stored. */
  readonly secret: string | null

  constructor(message: string, secret: string | null = null) {
    super(message)
    this.secret = secret
  }
}

/** The error that a body says (spec 2.3), or the status. */
function errorOf(status: number, body: string): RequestError {
  try {
    const parsed: unknown = JSON.parse(body)
    if (typeof parsed === 'object' && parsed !== null && 'message' in parsed) {
      return new RequestError(String(parsed.message), 'key' in parsed ? String(parsed.key) : null)
    }
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
  /** The error of a response that refuses; a 401 ends the session. */
  const refuse = (status: number, body: string): RequestError => {
    const error = errorOf(status, body)
    // Of several requests that are refused, the first one says why.
    if (status === 401 && !isOver) onUnauthorized(error.message)
    isOver ||= status === 401
    return error
  }

  async function request(path: string, init: RequestInit): Promise<Response> {
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
    /** The value of a JSON document. @throws RequestError, and what an aborted `signal` throws. */
    get: async <T>(path: string, signal?: AbortSignal): Promise<T> =>
      valueOf(await request(path, signal ? { signal } : {})),
    /** Sends a change and returns the answer. @throws RequestError */
    async send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body: object = {}): Promise<T> {
      const headers = { 'content-type': 'application/json' }
      return valueOf(await request(path, { method, headers, body: JSON.stringify(body) }))
    },
    /** A response whose body is read as it arrives. @throws RequestError */
    open: (path: string, signal: AbortSignal): Promise<Response> => request(path, { signal }),
  }
}

/** A line longer than this is dropped: nothing that the server sends is. In characters. */
const LONGEST = 1_000_000

/**
 * Collects pieces of text and returns the values of the lines that they complete. An empty line is
 * a heartbeat and has no value; a line that is not JSON is skipped, as one that was truncated is.
 */
export function createLineReader<T>(): { push(piece: string): T[]; rest(): T[] } {
  let pending = ''
  const parse = (line: string): T[] => {
    if (line.trim() === '') return []
    try {
      return [JSON.parse(line) as T] // the server's own types
    } catch {
      return []
    }
  }
  return {
    push(piece) {
      const lines = (pending + piece).split('\n')
      pending = lines.pop() ?? ''
      if (pending.length > LONGEST) pending = ''
      return lines.flatMap(parse)
    },
    /** The last line, which needs no end. */
    rest() {
      const line = pending
      pending = ''
      return parse(line)
    },
  }
}

/** The server sends at least an empty line every 15 s. */
const SILENCE_MS = 40_000
const FIRST_DELAY_MS = 1000
const LONGEST_DELAY_MS = 20_000

/** Milliseconds until the attempt after `failures` failures in a row; `luck` is from 0 to 1. */
export const retryDelay = (failures: number, luck: number): number =>
  Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1)) * (0.75 + luck / 2)

type Following<T> = {
  /** Called when a stream was opened, before its values. */
  opened(): void
  values(values: readonly T[]): void
  /** Called when it was lost: with the error of the server if it refused, else `null`. */
  lost(error: RequestError | null): void
}

/** Reads one stream to its end. */
async function readAll<T>(
  body: ReadableStream<Uint8Array>,
  controller: AbortController,
  onValues: (values: readonly T[]) => void,
): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader()
  const lines = createLineReader<T>()
  const startTimer = () => setTimeout(() => controller.abort(), SILENCE_MS)
  let timer = startTimer()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(timer)
      timer = startTimer()
      const values = lines.push(value as unknown as string)
      if (values.length > 0) onValues(values)
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Follows what `open` opens until the returned function is called. */
export function follow<T>(
  open: (signal: AbortSignal) => Promise<Response>,
  on: Following<T>,
): () => void {
  let stopped = false
  let failures = 0
  let controller = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined

  async function attempt(): Promise<void> {
    controller = new AbortController()
    let problem: RequestError | null = null
    try {
      const { body } = await open(controller.signal)
      if (stopped || body === null) return
      on.opened()
      await readAll<T>(body, controller, values => {
        failures = 0
        if (!stopped) on.values(values)
      })
    } catch (error) {
      if (error instanceof RequestError) problem = error
    }
    if (stopped) return
    on.lost(problem)
    failures += 1
    timer = setTimeout(attempt, retryDelay(failures, Math.random()))
  }

  void attempt()
  return () => {
    stopped = true
    clearTimeout(timer)
    controller.abort()
  }
}
