/** The server's side of the worker that makes the statistics of a list in a file. */
import { type Later, timerLater } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { startTask, toError } from '../../lib/worker.ts'
import type { StatsSource } from '../../proxies/store.ts'
import { toStoreError } from '../errors.ts'
import type { StatsReply, StatsTask } from './stats.worker.ts'
import type { StreamHooks } from './stream.ts'

/**
 * A worker that takes longer, in milliseconds, is ended: it keeps the WAL from being emptied, and
 * those who wait for it have idle connections.
 */
const WORK_MS_MAX = 20_000

/** Makes the statistics of the list in `file`; each time in a worker that ends afterwards. */
export function createStatsSource(
  file: string,
  { verify, onFailure }: StreamHooks,
  later: Later = timerLater,
): StatsSource & { close(): void } {
  const ends = new Set<() => void>()
  let isClosed = false

  /** Does a task, whose result `read` finds in the reply; rejects with why the worker could not. */
  function run<T>(task: StatsTask, read: (reply: StatsReply) => T | null): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const worker = startTask<StatsTask, StatsReply>(
      'sqlite/proxies/stats.worker.ts',
      task,
      reply => {
        if (reply.kind === 'thrown') return reject(toError(reply.error))
        const result = reply.kind === 'failed' ? null : read(reply)
        if (result !== null) return resolve(result)
        reject(new Error(reply.kind === 'failed' ? reply.message : 'the worker did something else'))
      },
    )
    const end = (why: string) => () => {
      worker.terminate()
      reject(new Error(why))
    }
    const close = end('the server is stopping')
    ends.add(close)
    const cancelTimer = later(end(`they took longer than ${WORK_MS_MAX} ms`), WORK_MS_MAX)
    return promise.finally(() => {
      cancelTimer()
      ends.delete(close)
    })
  }

  /** What `run` finds in a list that may be used, also afterwards. @throws StoreError */
  async function runVerified<T>(...work: Parameters<typeof run<T>>): Promise<T> {
    try {
      const result = await run(...work)
      verify()
      return result
    } catch (error) {
      if (!isClosed) onFailure(error)
      const known = toStoreError(file, error)
      if (known instanceof StoreError) throw known
      throw new StoreError('the statistics could not be made', { cause: error })
    }
  }

  return {
    make: request =>
      runVerified({ kind: 'make', file, request }, reply =>
        reply.kind === 'made' ? reply.coded : null,
      ),
    count: nowMs =>
      runVerified({ kind: 'count', file, nowMs }, reply =>
        reply.kind === 'counted' ? reply.breakdown : null,
      ),
    close(): void {
      isClosed = true
      for (const end of ends) end()
    },
  }
}
