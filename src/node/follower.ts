/**
 * The workers of a node as its main thread sees them: starting them, passing messages between
 * them, and ending them cleanly.
 */
import { startTask, startWorker } from '../lib/worker.ts'
import type { NodeName } from '../postgres/nodes.ts'
import type { Followed } from './follow.ts'
import type { Copied, CopyTask, FollowReply, FollowTask, NodeData } from './workers.ts'

/** The pause before a worker that has ended by an error of its own is started again. */
const RESTART_MS = 250

/** How long `close` waits for the follower. */
const STOP_MS_MAX = 2_000

type FollowerHooks = {
  onFollowed: (followed: Followed) => void
  /** Usage was reset, see `FollowReply`. */
  onUsage: (subject: string | null) => void
  /** Much of the list begins to be copied. */
  onCopy: () => void
}

/** Copies much in a worker of its own, one copy at a time. */
function createMuchCopier(data: NodeData, onEnd: (message: string | null) => void) {
  let worker: Worker | null = null
  return {
    /** Copies, unless that is under way for a follower that has ended. */
    start(): void {
      if (worker !== null) return
      worker = startTask<CopyTask, Copied>('node/copy-list.worker.ts', data, copied => {
        worker = null
        onEnd(copied.kind === 'done' ? null : copied.message)
      })
    },
    close(): void {
      worker?.terminate()
      worker = null
    },
  }
}

/**
 * Starts following a database; the worker does not keep the process alive, and is started again when it
 * ends by an error of its own.
 */
export function startFollower(data: NodeData, { onFollowed, onUsage, onCopy }: FollowerHooks) {
  let worker: Worker | null = null
  let named: NodeName | null = null
  let isClosing = false
  let restart: ReturnType<typeof setTimeout> | undefined
  const send = (task: FollowTask): void => worker?.postMessage(task)
  const copier = createMuchCopier(data, message => send({ kind: 'copied', message }))
  const stopped = Promise.withResolvers<void>()

  function take(reply: FollowReply): void {
    if (reply.kind === 'usage') onUsage(reply.subject)
    else if (reply.kind === 'stopped') stopped.resolve()
    else if (reply.kind !== 'copy-much') onFollowed(reply)
    else if (!isClosing) {
      onCopy()
      copier.start()
    }
  }

  function start(): void {
    const started = startWorker('node/follow.worker.ts')
    worker = started
    started.onmessage = ({ data: reply }: MessageEvent<FollowReply>) => take(reply)
    started.onerror = ({ message }) => {
      if (worker !== started) return
      worker = null
      started.terminate()
      if (isClosing) return stopped.resolve()
      onFollowed({ kind: 'failed', what: 'keys', message })
      restart = setTimeout(start, RESTART_MS)
      restart.unref()
    }
    started.unref()
    send({ kind: 'follow', ...data })
    if (named !== null) send({ kind: 'listening', ...named })
  }

  start()
  return {
    /** Says under which name the node listens. */
    listening(name: NodeName): void {
      named = name
      send({ kind: 'listening', ...name })
    },
    /** Has the copy of the keys made again. */
    doubtKeys: (): void => send({ kind: 'doubt-keys' }),
    /** Ends following, and says in the database that the node is gone. */
    async close(): Promise<void> {
      isClosing = true
      copier.close()
      clearTimeout(restart)
      if (worker === null) return
      send({ kind: 'stop' })
      const timer = setTimeout(stopped.resolve, STOP_MS_MAX)
      await stopped.promise
      clearTimeout(timer)
      worker?.terminate()
    },
  }
}
