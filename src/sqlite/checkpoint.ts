/**
 * Owns when the WAL of a database that is in use is copied into its file by a worker: of the list,
 * because an import cannot empty it while an older snapshot is being read; of keys, plans and usage,
 * because a commit that waits for the disk makes all requests wait.
 */
import type { Database } from 'bun:sqlite'
import { closeSection, createSection, startTask } from '../lib/worker.ts'
import type { Checkpointed, CheckpointTask } from './checkpoint.worker.ts'
import { pendingBytes } from './integrity/file-stamp.ts'
import type { ServerHolds } from './migrate.ts'

/** So much of the WAL may stay; copying it takes some 20 ms. */
const PENDING_BYTES_MAX = 16 * 1024 * 1024
/** Whether copying the rest of the WAL takes long; false for a database that fails. */
export function hasLongWal(db: Database): boolean {
  try {
    return pendingBytes(db) > PENDING_BYTES_MAX
  } catch {
    return false
  }
}

/** Most calls of `tick` between two attempts that fail: each one changes the version of the list. */
const TICKS_MAX = 64
/** How long `close` waits for a worker that is copying, in milliseconds. */
const CLOSE_MS_MAX = 2_000

/**
 * Copies the WAL of `file` in a worker, when `tick` finds much of it pending; calls `onEnd` when the
 * worker has ended.
 */
export function createCheckpointer(file: string, holds: ServerHolds, onEnd: () => void = () => {}) {
  let worker: Worker | null = null
  let section = createSection()
  let waitTicks = 1
  let ticksLeft = waitTicks

  function start(): void {
    if (worker !== null) return
    section = createSection()
    const task: CheckpointTask = { file, holds, section }
    // A failure is no news: the next attempt succeeds, or the store fails where it is used.
    worker = startTask<CheckpointTask, Checkpointed>('sqlite/checkpoint.worker.ts', task, () => {
      worker = null
      onEnd()
    })
  }

  return {
    /** To be called every second with the open database; waits longer after each attempt. */
    tick(db: Database): void {
      if (!hasLongWal(db)) {
        waitTicks = 1
        ticksLeft = waitTicks
      } else if (ticksLeft > 0) ticksLeft -= 1
      else {
        waitTicks = Math.min(2 * waitTicks, TICKS_MAX)
        ticksLeft = waitTicks
        start()
      }
    },
    /** Waits for a worker that is copying: ended halfway, the list would lose its stamp. */
    close(): void {
      closeSection(section, CLOSE_MS_MAX)
      worker?.terminate()
      worker = null
    },
  }
}
