/**
 * The worker that copies the WAL of a database into its file while the server answers: a process
 * that waits for the disk in its main thread answers nobody. The list keeps its file stamp.
 */
import { systemClock } from '../../lib/clock.ts'
import { messageOf } from '../../lib/errors.ts'
import { openAccessFile } from '../access/store.ts'
import { openListFile } from '../proxies/store.ts'
import { copyWal } from './file-stamp.ts'

/** States of a task, in the one element of `state`. */
export const WAITING = 0
export const RUNNING = 1
export const OVER = 2

export type CheckpointTask = {
  file: string
  holds: 'list' | 'access'
  /** Shared, so that the server can wait for a task without its event loop. */
  state: Int32Array<SharedArrayBuffer>
}
export type Checkpointed = { kind: 'done' } | { kind: 'failed'; message: string }

declare const self: Worker

const MODE = { isServer: true, mustExist: true } as const
/** What is copied is read from the WAL, not from a cache. */
const CACHE_KIB = 256

const CHECKPOINTS: { readonly [holds in CheckpointTask['holds']]: (file: string) => void } = {
  list(file) {
    const db = openListFile(file, systemClock, { ...MODE, cacheKib: CACHE_KIB })
    try {
      copyWal(db, file, systemClock())
    } finally {
      db.close(true)
    }
  },
  access(file) {
    const db = openAccessFile(file, MODE)
    try {
      // Passive: writers go on. The next one begins at the start of the WAL if all of it is copied.
      db.run('pragma wal_checkpoint(passive)')
    } finally {
      db.close(true)
    }
  },
}

function run({ file, holds, state }: CheckpointTask): Checkpointed {
  if (Atomics.compareExchange(state, 0, WAITING, RUNNING) !== WAITING) return { kind: 'done' }
  try {
    CHECKPOINTS[holds](file)
    return { kind: 'done' }
  } catch (error) {
    return { kind: 'failed', message: messageOf(error) }
  } finally {
    Atomics.store(state, 0, OVER)
    Atomics.notify(state, 0)
  }
}

self.onmessage = ({ data }: MessageEvent<CheckpointTask>) => self.postMessage(run(data))
