/**
 * Owns the workers of a node as its main thread sees them: starting them, passing messages between
 * them, and ending them cleanly.
 */
import { closeSection, createSection, startTask, startWorker } from '../../lib/worker.ts'
import type { NodeName } from '../../postgres/nodes.ts'
import type { Copied, CopyTask, FollowReply, FollowTask, NodeData } from './workers.ts'

/** How long `close` waits for the follower, and for a list that is being stamped. */
const STOP_MS_MAX = 2_000

export type FollowerHooks = {
  onReply: (reply: Extract<FollowReply, { kind: 'known' | 'failed' }>) => void
  /** Usage was reset, see `FollowReply`. */
  onUsage: (subject: string | null) => void
  /** Much of the list begins to be copied. */
  onCopy: () => void
}

export type RunningFollower = ReturnType<typeof startFollower>

/** Copies much in a worker of its own, one copy at a time. */
function createMuchCopier(data: NodeData, onEnd: (message: string | null) => void) {
  let worker: Worker | null = null
  let section = createSection()
  return {
    start(): void {
      section = createSection()
      worker = startTask<CopyTask, Copied>(
        'wiring/node/copy.worker.ts',
        { ...data, section },
        copied => {
          worker = null
          onEnd(copied.kind === 'done' ? null : copied.message)
        },
      )
    },
    close(): void {
      closeSection(section, STOP_MS_MAX)
      worker?.terminate()
      worker = null
    },
  }
}

/** Starts following a database; the worker does not keep the process alive. */
export function startFollower(data: NodeData, { onReply, onUsage, onCopy }: FollowerHooks) {
  const worker = startWorker('wiring/node/follow.worker.ts')
  const send = (task: FollowTask): void => worker.postMessage(task)
  const copier = createMuchCopier(data, message => send({ kind: 'copied', message }))
  const stopped = Promise.withResolvers<void>()
  worker.onmessage = ({ data: reply }: MessageEvent<FollowReply>) => {
    if (reply.kind === 'usage') onUsage(reply.subject)
    else if (reply.kind === 'stopped') stopped.resolve()
    else if (reply.kind !== 'copy-much') onReply(reply)
    else {
      onCopy()
      copier.start()
    }
  }
  worker.onerror = ({ message }) => {
    onReply({ kind: 'failed', what: 'asking', message })
    stopped.resolve()
  }
  worker.unref()
  send({ kind: 'follow', ...data })
  return {
    /** Says under which name the node listens. */
    listening: (name: NodeName): void => send({ kind: 'listening', ...name }),
    /** Has the copy of the keys made again. */
    doubtKeys: (): void => send({ kind: 'doubt-keys' }),
    /** Ends following, and says in the database that the node is gone. */
    async close(): Promise<void> {
      copier.close()
      send({ kind: 'stop' })
      const timer = setTimeout(stopped.resolve, STOP_MS_MAX)
      await stopped.promise
      clearTimeout(timer)
      worker.terminate()
    },
  }
}
