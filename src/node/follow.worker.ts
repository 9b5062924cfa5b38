/**
 * The worker that keeps the copies of a node up to date: it listens to the database, asks it every
 * second, says there that the node lives, and writes what has changed into the data directory.
 */
import { stopwatch, timerLater } from '../lib/clock.ts'
import { createListener, createNodes, type NodeName } from '../postgres/nodes.ts'
import { openKeyCopy } from '../sqlite/copy/keys.ts'
import { openListCopy } from '../sqlite/copy/list.ts'
import { createFollower, type Followed } from './follow.ts'
import { createFreshness } from './freshness.ts'
import { type FollowReply, type FollowTask, type NodeData, openSource } from './workers.ts'

declare const self: Worker

const reply = (message: FollowReply): void => self.postMessage(message)
const USAGE = /^usage (.*)$/s

/** Follows from now on. */
function follow(data: NodeData) {
  const elapsedMs = stopwatch()
  const freshness = createFreshness(elapsedMs)
  const { source, connection, close } = openSource(data)
  const nodes = createNodes(connection)
  const list = openListCopy(data.dir)
  const keys = openKeyCopy(data.dir)
  let copying: PromiseWithResolvers<void> | null = null
  let name: NodeName | null = null

  const listener = createListener(
    data.url,
    message => {
      const [, subject = null] = USAGE.exec(message) ?? []
      if (subject === null) follower.wake()
      else reply({ kind: 'usage', subject })
    },
    () => {
      // What was announced before may have been missed.
      reply({ kind: 'usage', subject: null })
      follower.wake()
    },
  )

  /** Says that the node lives; a failure is seen where the database is asked. */
  async function report(): Promise<void> {
    const version = freshness.listVersion() ?? 0
    if (name) await nodes.report(name, version, freshness.lagSeconds()).catch(() => {})
  }

  function onFollowed(followed: Followed): void {
    freshness.take(followed)
    reply(followed)
    if (followed.kind === 'known') {
      listener.ensure()
      void report()
    } else if (followed.what === 'keys') listener.end() // its connection may be lost, too
  }

  const follower = createFollower({
    ...{ source, copies: { list, keys }, elapsedMs, onFollowed, later: timerLater },
    copyMuch() {
      copying = Promise.withResolvers<void>()
      reply({ kind: 'copy-much' })
      return copying.promise
    },
  })

  return {
    listening(given: NodeName): void {
      name = given
      void report()
    },
    copied(message: string | null): void {
      if (message === null) copying?.resolve()
      else copying?.reject(new Error(message))
    },
    doubtKeys(): void {
      keys.doubt()
      follower.wake()
    },
    async stop(): Promise<void> {
      copying?.resolve()
      await follower.stop()
      listener.end()
      list.close()
      keys.close()
      if (name !== null) await nodes.remove(name).catch(() => {})
      await close()
      reply({ kind: 'stopped' })
    },
  }
}

let following: ReturnType<typeof follow> | null = null

self.onmessage = ({ data: task }: MessageEvent<FollowTask>) => {
  if (task.kind === 'follow') following = follow(task)
  else if (task.kind === 'listening') following?.listening(task)
  else if (task.kind === 'copied') following?.copied(task.message)
  else if (task.kind === 'doubt-keys') following?.doubtKeys()
  else void following?.stop()
}
