/** The worker that counts the list and compresses the statistics while the server answers. */
import { systemClock } from '../../lib/clock.ts'
import type { Coded } from '../../lib/text/coded.ts'
import { type ErrorMessage, toErrorMessage } from '../../lib/worker.ts'
import type { StatsRequest } from '../../proxies/store.ts'
import { makeStats } from './counts.ts'
import { openListFile } from './store.ts'

export type StatsTask = StatsRequest & { file: string }
export type StatsReply =
  | { kind: 'made'; coded: Coded }
  /** What was thrown, with its class. */
  | { kind: 'thrown'; error: ErrorMessage }

declare const self: Worker

/** Rows are read once and in order: a large cache would only cost memory. */
const MODE = { isServer: true, mustExist: true, cacheKib: 512 } as const

function make({ file, ...request }: StatsTask): StatsReply {
  try {
    const db = openListFile(file, systemClock, MODE)
    try {
      return { kind: 'made', coded: makeStats(db, request) }
    } finally {
      db.close(true)
    }
  } catch (error) {
    return { kind: 'thrown', error: toErrorMessage(error) }
  }
}

self.onmessage = ({ data }: MessageEvent<StatsTask>) => self.postMessage(make(data))
