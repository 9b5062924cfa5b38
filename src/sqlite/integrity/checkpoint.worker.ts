/**
 * The worker that copies the WAL of a list into its file while the server answers: a process
 * that waits for the disk in its main thread answers nobody. The list keeps its file stamp.
 */
import { systemClock } from '../../lib/clock.ts'
import { messageOf } from '../../lib/errors.ts'
import { openListFile } from '../proxies/store.ts'
import { copyWal } from './file-stamp.ts'

/** States of a task, in the one element of `state`. */
export const WAITING = 0
export const RUNNING = 1
export const OVER = 2

export type CheckpointTask = {
  file: string
  /** Shared, so that the server can wait for a task without its event loop. */
  state: Int32Array<SharedArrayBuffer>
}
export type Checkpointed = { kind: 'done' } | { kind: 'failed'; message: string }

declare const self: Worker

/** The small cache: what is copied is read from the WAL. */
const MODE = { isServer: true, mustExist: true, cacheKib: 256 } as const

function run({ file, state }: CheckpointTask): Checkpointed {
  if (Atomics.compareExchange(state, 0, WAITING, RUNNING) !== WAITING) return { kind: 'done' }
  try {
    const db = openListFile(file, systemClock, MODE)
    try {
      copyWal(db, file, systemClock())
    } finally {
      db.close(true)
    }
    return { kind: 'done' }
  } catch (error) {
    return { kind: 'failed', message: messageOf(error) }
  } finally {
    Atomics.store(state, 0, OVER)
    Atomics.notify(state, 0)
  }
}

self.onmessage = ({ data }: MessageEvent<CheckpointTask>) => self.postMessage(run(data))
