/** Starts the worker that follows the list, and restarts it after a crash. */
import { withTimeout } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import { startWorker } from '../lib/worker.ts'
import type { ListData, ListReply, ListTask } from './list.worker.ts'

const RESTART_MS = SECOND_MS / 4
const STOP_MS_MAX = 2 * SECOND_MS

type Hooks = {
  onNewest: (version: number, ageMs: number) => void
  onFailed: (message: string) => void
}

/** Starts the worker, which does not keep the process alive. */
export function startFollower(data: ListData, { onNewest, onFailed }: Hooks) {
  let worker: Worker | null = null
  let leads = false
  let isStopped = false
  const stopped = Promise.withResolvers<void>()
  const send = (task: ListTask): void => worker?.postMessage(task)

  function start(): void {
    if (isStopped) return
    const started = startWorker('node/list.worker.ts')
    worker = started
    started.onmessage = ({ data: said }: MessageEvent<ListReply>) => {
      if (said.kind === 'newest') onNewest(said.version, said.ageMs)
      else if (said.kind === 'failed') onFailed(said.message)
      else stopped.resolve()
    }
    started.onerror = ({ message }) => {
      if (worker !== started) return
      worker = null
      started.terminate()
      stopped.resolve()
      onFailed(message)
      setTimeout(start, RESTART_MS).unref()
    }
    started.unref()
    send({ kind: 'follow', ...data })
    send({ kind: 'wake', leads })
  }

  start()
  return {
    wake: (): void => send({ kind: 'wake', leads }),
    lead(isLeader: boolean): void {
      if (leads === isLeader) return
      leads = isLeader
      send({ kind: 'wake', leads })
    },
    async stop(): Promise<void> {
      isStopped = true
      send({ kind: 'stop' })
      if (worker !== null) await withTimeout(stopped.promise, STOP_MS_MAX)
      worker?.terminate()
    },
  }
}
