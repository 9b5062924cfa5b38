/**
 * The worker that counts the list and compresses the statistics while the server answers: requests
 * have priority.
 */
import type { Coded } from '../../lib/coded.ts'
import { type ErrorMessage, lowerPriority, toErrorMessage } from '../../lib/worker.ts'
import type { Breakdown } from '../../proxies/stats.ts'
import type { StatsRequest } from '../../proxies/store.ts'
import { makeStats, readBreakdown } from './stats.ts'
import { openListFile } from './store.ts'

/** To make the statistics of the list in a file, or only to count it. */
export type StatsTask = { file: string } & (
  | { kind: 'make'; request: StatsRequest }
  | { kind: 'count'; nowMs: number }
)
export type StatsReply =
  | { kind: 'made'; coded: Coded }
  | { kind: 'counted'; breakdown: Breakdown }
  /** What was thrown, with its class. */
  | { kind: 'thrown'; error: ErrorMessage }

declare const self: Worker

/** Rows are read once and in order: a large cache would only cost memory. */
const MODE = { isServer: true, mustExist: true, cacheKib: 512 } as const

function work(task: StatsTask): StatsReply {
  try {
    const db = openListFile(task.file, MODE)
    try {
      return task.kind === 'make'
        ? { kind: 'made', coded: makeStats(db, task.request) }
        : { kind: 'counted', breakdown: readBreakdown(db, task.nowMs) }
    } finally {
      db.close(true)
    }
  } catch (error) {
    return { kind: 'thrown', error: toErrorMessage(error) }
  }
}

lowerPriority()
self.onmessage = ({ data }: MessageEvent<StatsTask>) => self.postMessage(work(data))
