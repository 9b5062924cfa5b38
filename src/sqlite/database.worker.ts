/** The worker for long work on a database: counts, removing stale rows, checkpoints. It does one task and ends. */
import { doTask, lowerPriority } from '../lib/worker.ts'
import { openAccessFile } from './access/file.ts'
import { type CountTask, readBreakdown } from './proxies/stats.ts'
import { createListStore, openListFile, type RemoveTask } from './proxies/store.ts'
import type { CheckpointTask } from './wal.ts'

declare const self: Worker

/** Everything is read once and in order: a large cache would only cost memory. */
const MODE = { isServer: true, mustExist: true, cacheKib: 4 * 1024 } as const

const OPEN = { access: openAccessFile, proxies: openListFile } as const

type Task = CheckpointTask | CountTask | RemoveTask

self.onmessage = ({ data: task }: MessageEvent<Task>) => {
  if (task.kind !== 'checkpoint') lowerPriority() // requests do not notice
  void doTask(self, () => {
    using db = OPEN[task.database](task.file, MODE)
    if (task.kind === 'remove') return createListStore(db).removeStale(...task.stale)
    if (task.kind === 'count') return readBreakdown(db, task.nowMs)
    // Passive: writers go on. The second call copies their writes of the first.
    for (let n = 0; n < 2; n += 1) db.run('pragma wal_checkpoint(passive)')
    return null
  })
}
