/**
 * The worker that copies the WAL of a database into its file while the server answers: a process
 * that waits for the disk in its main thread answers nobody. The list keeps its file stamp.
 */
import type { Database } from 'bun:sqlite'
import { systemClock } from '../lib/clock.ts'
import { messageOf } from '../lib/errors.ts'
import { inSection, type Section } from '../lib/worker.ts'
import { openAccessFile } from './access/file.ts'
import { copyWal } from './integrity/file-stamp.ts'
import type { ServerHolds } from './migrate.ts'
import { openListFile } from './proxies/store.ts'

/** All of a task is in its section, so that the server can wait for it. */
export type CheckpointTask = { file: string; holds: ServerHolds; section: Section }
export type Checkpointed = { kind: 'done' } | { kind: 'failed'; message: string }

declare const self: Worker

/** The small cache: what is copied is read from the WAL. */
const MODE = { isServer: true, mustExist: true, cacheKib: 256 } as const

type OpenFile = (file: string, mode: typeof MODE) => Database

/** How each database is opened, and how its WAL is copied. */
const KINDS: {
  readonly [holds in ServerHolds]: { open: OpenFile; copy: (db: Database, file: string) => void }
} = {
  proxies: {
    open: (file, mode) => openListFile(file, systemClock, mode),
    copy: (db, file) => copyWal(db, file, systemClock()),
  },
  access: {
    open: openAccessFile,
    // Passive: writers go on. The second call copies what they have written during the first.
    copy(db) {
      for (let n = 0; n < 2; n += 1) db.run('pragma wal_checkpoint(passive)')
    },
  },
}

function run({ file, holds }: CheckpointTask): Checkpointed {
  try {
    const { open, copy } = KINDS[holds]
    const db = open(file, MODE)
    try {
      copy(db, file)
    } finally {
      db.close(true)
    }
    return { kind: 'done' }
  } catch (error) {
    return { kind: 'failed', message: messageOf(error) }
  }
}

self.onmessage = ({ data }: MessageEvent<CheckpointTask>) =>
  self.postMessage(inSection(data.section, () => run(data), { kind: 'done' }))
