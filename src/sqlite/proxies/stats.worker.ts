/** The worker that makes statistics of the list, with its columns in memory. */
import { doTask, lowerPriority } from '../../lib/worker.ts'
import { hasMoved } from '../database-files.ts'
import { createStatsReader, type StatsQuery } from './stats.ts'
import { openListFile } from './store.ts'

declare const self: Worker

/** Everything is read once and in order: a large cache would only cost memory. */
const MODE = { isServer: true, mustExist: true, cacheKib: 4 * 1024 } as const

function open(file: string) {
  const db = openListFile(file, MODE)
  return { db, answer: createStatsReader(db) }
}
let list: ReturnType<typeof open> | null = null

lowerPriority() // requests do not notice

self.onmessage = ({ data: { file, request } }: MessageEvent<StatsQuery>) =>
  void doTask(self, () => {
    if (list !== null && hasMoved(list.db)) {
      list.db.close()
      list = null
    }
    list ??= open(file)
    return list.answer(request)
  })
