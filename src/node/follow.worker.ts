/**
 * The worker that keeps the copies of a node up to date: it listens to the database, asks it every
 * second, says there that the node lives, and writes what has changed into the data directory.
 *
 * A second thread of it copies what is much of the list, with a low priority: SQLite makes the indexes of a
 * million rows in one call that takes seconds, in which the first one goes on following keys.
 */
import { stopwatch, timerLater } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import { doTask, lowerPriority } from '../lib/worker.ts'
import { createChangeSource } from '../postgres/changes.ts'
import { openConnection } from '../postgres/connection.ts'
import { migrate, requireCopied } from '../postgres/migrate.ts'
import { createListener, createNodes, type NodeName } from '../postgres/nodes.ts'
import { lostSchema, openKeyCopy, openListCopy } from '../sqlite/copy.ts'
import { createFollower, createFreshness, type Followed } from './follow.ts'
import type { ChangeSource } from './ports.ts'

declare const self: Worker

export type NodeData = {
  dir: string
  url: string
  /** The longest that asking where the database stands may take. */
  timeoutMs: number
}

export type CopyTask = { kind: 'copy' } & NodeData

/** What the thread that follows is sent. */
export type FollowTask =
  | ({ kind: 'follow' } & NodeData)
  /** The node listens, under this name. */
  | ({ kind: 'listening' } & NodeName)
  /** Copying much has ended; `message`: why it failed. */
  | { kind: 'copied'; message: string | null }
  /** Keys could not be read: their copy is to be made again. */
  | { kind: 'doubt-keys' }
  | { kind: 'stop' }

/** What it replies. `failed` may be said again and again. */
export type FollowReply =
  | Followed
  | { kind: 'copy-much' }
  /** Usage was reset: of a subject, of all of a kind, or of any that is known (`null`). */
  | { kind: 'usage'; subject: string | null }
  | { kind: 'stopped' }

/** How long reading all keys, or few changes of the list, may take. */
const READ_MS_MAX = 30_000

/** The database as the source of copies; the schema is made or migrated first. */
function openSource({ dir, url, timeoutMs }: NodeData, readMsMax: number | null) {
  const quick = openConnection({ url, timeoutMs, name: 'proxylist' })
  const slow = openConnection({ url, timeoutMs: readMsMax, name: 'proxylist' })
  const read = createChangeSource(quick, slow)
  let isMigrated = false
  const source: ChangeSource = {
    ...read,
    async versions() {
      if (!isMigrated) {
        await requireCopied(quick, lostSchema(dir))
        await migrate(quick)
      }
      isMigrated = true
      return read.versions()
    },
  }
  return {
    source,
    connection: quick,
    renew: slow.renew,
    close: async (): Promise<void> => {
      await Promise.allSettled([quick.close(), slow.close()])
    },
  }
}

const reply = (message: FollowReply): void => self.postMessage(message)
const USAGE = /^usage (.*)$/s

function follow(data: NodeData) {
  const elapsedMs = stopwatch()
  const freshness = createFreshness(elapsedMs)
  const { source, connection, renew, close } = openSource(data, READ_MS_MAX)
  const nodes = createNodes(connection)
  const list = openListCopy(data.dir)
  const keys = openKeyCopy(data.dir)
  let copying: PromiseWithResolvers<void> | null = null
  let name: NodeName | null = null

  const listener = createListener(
    connection.host,
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

  const follower = createFollower({
    ...{ source, copies: { dir: data.dir, list, keys }, elapsedMs, later: timerLater },
    onFollowed(followed: Followed): void {
      freshness.take(followed)
      reply(followed)
      if (followed.kind === 'known') {
        listener.ensure()
        void report()
      } else if (followed.what === 'keys') {
        // These connections may be lost, too, which they would find out late.
        listener.end()
        renew()
      }
    },
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
      keys.remove()
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

/** A copy that gets nothing from the database for so long is given up. */
const STALLED_MS = 30_000
const EXAMINE_EVERY_MS = 1_000

/** Copies what has changed of the list, however much that is. */
async function copy(data: NodeData): Promise<void> {
  const { source, close } = openSource(data, null)
  const list = openListCopy(data.dir)
  const elapsedMs = stopwatch()
  const { promise: stalled, reject } = Promise.withResolvers<never>()
  let heardMs = elapsedMs()
  const timer = setInterval(() => {
    if (elapsedMs() - heardMs < STALLED_MS) return
    void close() // rejects what is under way
    reject(new StoreError('the database sends nothing of the list any more'))
  }, EXAMINE_EVERY_MS)
  async function* heard<T>(pages: AsyncIterable<T>): AsyncGenerator<T> {
    for await (const page of pages) {
      heardMs = elapsedMs()
      yield page
    }
  }
  try {
    const copied = source.readList(list.version(), changes => {
      const { removed, rows } = changes
      heardMs = elapsedMs()
      return list.apply({ ...changes, removed: heard(removed), rows: heard(rows) })
    })
    await Promise.race([copied, stalled])
  } finally {
    clearInterval(timer)
    list.close()
    await close()
  }
}

let following: ReturnType<typeof follow> | null = null

self.onmessage = ({ data: task }: MessageEvent<FollowTask | CopyTask>) => {
  if (task.kind === 'follow') following = follow(task)
  else if (task.kind === 'listening') following?.listening(task)
  else if (task.kind === 'copied') following?.copied(task.message)
  else if (task.kind === 'doubt-keys') following?.doubtKeys()
  else if (task.kind === 'stop') void following?.stop()
  else {
    lowerPriority()
    void doTask(self, () => copy(task))
  }
}
