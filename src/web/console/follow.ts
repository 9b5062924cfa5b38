/**
 * Owns following a stream of lines that never ends: it is opened again after a failure, later each
 * time, and when nothing, not even a heartbeat, has arrived for a while.
 */
import { RequestError } from './client.ts'
import { createLineReader } from './lines.ts'

/** The server sends at least an empty line every 15 s. */
const SILENCE_MS = 40_000
const FIRST_DELAY_MS = 1000
const LONGEST_DELAY_MS = 20_000

/** Milliseconds until the attempt after `failures` failures in a row; `luck` is from 0 to 1. */
export const retryDelay = (failures: number, luck: number): number =>
  Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1)) * (0.75 + luck / 2)

export type Following<T> = {
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
