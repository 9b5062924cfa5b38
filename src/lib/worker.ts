/** Worker threads: starting them by source file, their priority, and passing errors between threads. */
import { getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { StoreError } from './errors.ts'

/** The folder `src/`, or in the binary, where this module is part of one file, its equivalent. */
const SOURCE_ROOT = import.meta.dir.endsWith('/lib') ? join(import.meta.dir, '..') : import.meta.dir

/** Starts the worker of `path`, relative to `src/`. The build must name it as an entry point. */
export const startWorker = (path: string): Worker => new Worker(join(SOURCE_ROOT, path))

/**
 * Sends a worker its only message, and ends it after its only reply; `onEnd` is called with that,
 * or with why there is none. The worker does not keep the process alive.
 */
export function startTask<Input, Reply>(
  path: string,
  input: Input,
  onEnd: (reply: Reply | { kind: 'failed'; message: string }) => void,
): Worker {
  const worker = startWorker(path)
  const end = (reply: Parameters<typeof onEnd>[0]): void => {
    worker.terminate()
    onEnd(reply)
  }
  worker.onmessage = ({ data }: MessageEvent<Reply>) => end(data)
  worker.onerror = ({ message }) => end({ kind: 'failed', message })
  worker.unref()
  worker.postMessage(input)
  return worker
}

/** The priority of work that nobody should notice: it gets a tenth of a processor that others need. */
const LOW_PRIORITY = 10

/**
 * Lowers the priority of the thread that calls it, for good. Only Linux has priorities of threads:
 * elsewhere the whole process would get it, so nothing is done there.
 */
export function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(Math.max(getPriority(), LOW_PRIORITY))
  } catch {
    // Some sandboxes forbid it: then the work has the priority of all other threads.
  }
}

/** An error as a message: a structured clone loses an error's class, name and own properties. */
export type ErrorMessage = { name: string; message: string; code: string; isDamage: boolean }

/** The message for anything thrown; `code` is `''` when it has none. */
export function toErrorMessage(thrown: unknown): ErrorMessage {
  const { name, message } = thrown instanceof Error ? thrown : new Error(String(thrown))
  const code = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : ''
  return { name, message, code, isDamage: thrown instanceof StoreError && thrown.isDamage }
}

/** The error of a message; its class is restored only if it is `StoreError`. */
export const toError = ({ name, message, code, isDamage }: ErrorMessage): Error =>
  name === 'StoreError'
    ? new StoreError(message, { isDamage })
    : Object.assign(new Error(message), { name, code })
