/** SIGTERM and SIGINT: a command ends at the first one; a second one ends the process at once. */
import { CommandError, orAborted } from '../lib/errors.ts'
import type { Awaitable } from '../lib/turn-batch.ts'

/** The exit status of a command that a signal ended: 128 and its number. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const
type Signal = keyof typeof EXIT_CODES

/** Calls `stop` at the first signal. Returns a function that stops waiting for one. */
function onSignal(stop: (signal: Signal) => void): () => void {
  const signals = Object.keys(EXIT_CODES) as Signal[] // of the table itself
  const off = (): void => {
    for (const signal of signals) process.off(signal, once)
  }
  const once = (signal: Signal): void => {
    off()
    stop(signal)
  }
  for (const signal of signals) process.on(signal, once)
  return off
}

/** Resolves when `signal` is aborted. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => resolve())
  if (signal.aborted) resolve()
  return promise
}

/**
 * Runs work that ends early, with the reason of its signal, when that is aborted by SIGINT or
 * SIGTERM: a `CommandError` that says what was `kept`.
 */
export async function interruptible<T>(
  kept: string,
  work: (signal: AbortSignal) => Awaitable<T>,
): Promise<T> {
  const controller = new AbortController()
  const off = onSignal(signal =>
    controller.abort(new CommandError(`interrupted; ${kept}`, EXIT_CODES[signal])),
  )
  try {
    return await work(controller.signal)
  } finally {
    off()
  }
}

/** Runs work that has nothing to clean up: at the signal it is abandoned as it is. */
export const abandonable = <T>(
  kept: string,
  work: (signal: AbortSignal) => Awaitable<T>,
): Promise<T> => interruptible(kept, signal => orAborted((async () => work(signal))(), signal))
