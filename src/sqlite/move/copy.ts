/**
 * Owns copying databases in a worker, so that the main thread can show progress and be aborted.
 * What the worker does is in `copy.worker.ts`.
 */

import { statSync } from 'node:fs'
import { CommandError } from '../../lib/errors.ts'
import { startWorker } from '../../lib/worker.ts'
import { walOf } from '../database-files.ts'
import type { ServerHolds } from '../migrate.ts'
import type { Counts } from './counts.ts'

/** A database file, what it holds, and the file to copy it to, which must not exist. */
export type Copy = { holds: ServerHolds; file: string; to: string }

/** What the worker sends once, at its end. */
export type CopyResult =
  | { kind: 'done'; counts: Partial<Counts> }
  | { kind: 'failed'; message: string }

/** How often the size of the copies is read for the progress, in milliseconds. */
const PROGRESS_EVERY_MS = 100

/** The size of a file in bytes; 0 when there is none. */
export const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/**
 * Copies databases, and counts the rows of the copies. `progress` is called with the share that
 * is done, from 0 to 1.
 * @throws CommandError naming the file that failed, or the reason of `signal`.
 */
export async function copyDatabases(
  copies: readonly Copy[],
  signal: AbortSignal,
  progress: (share: number) => void,
): Promise<Partial<Counts>> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<Partial<Counts>>()
  const worker = startWorker('sqlite/move/copy.worker.ts')
  worker.onmessage = ({ data }: MessageEvent<CopyResult>) => {
    if (data.kind === 'done') resolve(data.counts)
    else reject(new CommandError(data.message))
  }
  worker.onerror = ({ message }) => reject(new Error(message))
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort)
  const total = copies.reduce((sum, { file }) => sum + sizeOf(file) + sizeOf(walOf(file)), 1)
  const timer = setInterval(() => {
    progress(Math.min(1, copies.reduce((sum, { to }) => sum + sizeOf(to), 0) / total))
  }, PROGRESS_EVERY_MS)
  worker.postMessage(copies)
  try {
    return await promise
  } finally {
    clearInterval(timer)
    signal.removeEventListener('abort', abort)
    worker.terminate()
  }
}
