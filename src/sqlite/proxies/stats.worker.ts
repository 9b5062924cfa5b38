/**
 * The worker that counts the list and compresses the statistics while the server answers: requests
 * have priority.
 */
import { doTask, lowerPriority } from '../../lib/worker.ts'
import { makeStats, readBreakdown, type StatsTask } from './stats.ts'
import { openListFile } from './store.ts'

declare const self: Worker

/** Rows are read once and in order: a large cache would only cost memory. */
const MODE = { isServer: true, mustExist: true, cacheKib: 512 } as const

lowerPriority()
self.onmessage = ({ data: task }: MessageEvent<StatsTask>) =>
  doTask(self, () => {
    const db = openListFile(task.file, MODE)
    try {
      return task.kind === 'make' ? makeStats(db, task.request) : readBreakdown(db, task.nowMs)
    } finally {
      db.close(true)
    }
  })
