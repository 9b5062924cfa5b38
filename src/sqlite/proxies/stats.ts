/** Owns the server's side of the worker that makes the statistics of a list in a file. */
import { type Later, timerLater } from '../../access/auth-throttle.ts'
import { StoreError } from '../../lib/errors.ts'
import type { Coded } from '../../lib/text/coded.ts'
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

  /** Does a task; rejects with why the worker could not. */
  function run(task: StatsTask): Promise<Coded> {
    const { promise, resolve, reject } = Promise.withResolvers<Coded>()
    const worker = startTask<StatsTask, StatsReply>(
      'sqlite/proxies/stats.worker.ts',
      task,
      reply => {
        if (reply.kind === 'made') resolve(reply.coded)
        else reject(reply.kind === 'thrown' ? toError(reply.error) : new Error(reply.message))
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

  return {
    async make(request) {
      try {
        const coded = await run({ ...request, file })
        verify()
        return coded
      } catch (error) {
        onFailure(error)
        const known = toStoreError(file, error)
        if (known instanceof StoreError) throw known
        throw new StoreError('the statistics could not be made', { cause: error })
      }
    },
    close(): void {
      for (const end of ends) end()
    },
  }
}
