/**
 * Follows the log of the list, and extends it on the leader (contract I3). The leader merges an import into its copy,
 * commits the change to the log, and then commits its copy. A failure in between leaves the copy behind: it catches up.
 */
import { codeOf, messageOf, StoreError } from '../lib/errors.ts'
import { joinFrames, toFrame } from '../postgres/body.ts'
import type { Connection } from '../postgres/connection.ts'
import { finishImport, nextImport, type QueuedImport, readImport } from '../postgres/imports.ts'
import {
  append,
  isSnapshotDue,
  lacksOldList,
  readBody,
  readHead,
  readNext,
  readSnapshot,
} from '../postgres/log.ts'
import { installationOf } from '../postgres/migrate.ts'
import type { Merge, openListCopy } from '../sqlite/copy.ts'
import {
  BEGINNING,
  type Change,
  type Incoming,
  isSamePosition,
  type Position,
  type Stale,
} from './ports.ts'

const after = ({ version }: Position): Position => ({
  version: version + 1,
  mark: crypto.randomUUID(),
})

/** Whether the rows of an import are to blame for its failure, not the database, the disk or the way to them. */
const isOfRows = (failure: unknown): boolean =>
  !(failure instanceof StoreError) ||
  /^SQLITE_(?:CONSTRAINT|MISMATCH|TOOBIG)/.test(codeOf(failure.cause))

const bodyOf = (changes: Iterable<Change>): Uint8Array => joinFrames(Array.from(changes, toFrame))

/** `patient` is a connection with a long timeout. */
export function createList(
  { query }: Connection,
  patient: Connection,
  copy: ReturnType<typeof openListCopy>,
  snapshotBytes?: number, // smaller in tests
) {
  async function restart(database: string, at: Position | null): Promise<void> {
    const snapshot = await readSnapshot(query)
    const start = snapshot ?? BEGINNING
    if (at !== null && isSamePosition(at, start)) {
      throw new StoreError('the log of the list has a gap; restore the database from a backup')
    }
    await copy.install(database, start, snapshot ? readBody(patient.query, snapshot) : [])
  }

  /** Applies the next entry of the log. Returns the position of the copy if there is no entry. */
  async function step(): Promise<Position | null> {
    const database = await installationOf(query)
    const at = copy.position()
    if (at !== null && at.database !== database) {
      throw new StoreError(
        // it may be the last copy of its list
        'it is another database than the one whose list is in the data directory: name the right one; ' +
          'if this one is meant, as after a restore, stop the node, remove the directory and start it',
      )
    }
    if (at === null) return restart(database, at).then(() => null)
    const next = await readNext(query, at.version)
    const head = next ?? (await readHead(query))
    if (head === null && at.version === 0 && (await lacksOldList(query))) {
      throw new StoreError(
        'the list of the upgraded database is only in the copies of nodes: start a node that kept ' +
          'its data directory, or import the list again with --replace',
      )
    }
    if (head === null || isSamePosition(at, head)) return at
    const isNext = next?.after === at.mark && next.version === at.version + 1
    if (!isNext) await restart(database, at)
    else if (next.kind === 'snapshot') await copy.apply(at, { ...next, changed: 0 }, [])
    else await copy.apply(at, next, readBody(patient.query, next))
    return null
  }

  async function follow(): Promise<Position> {
    for (;;) {
      const at = await step()
      if (at !== null) return at
    }
  }

  /** Writes a snapshot of the copy, which is at `from`, to the log. */
  async function publish(from: Position): Promise<Position> {
    const { changes, rows, imported } = copy.snapshot()
    const kind = 'snapshot'
    const to = { ...after(from), kind, after: from.mark, changed: rows, rows, imported } as const
    await append(patient.query, to, bodyOf(changes))
    await copy.apply(from, { ...to, changed: 0 }, [])
    return to
  }

  async function merge(queued: QueuedImport): Promise<Merge> {
    if (queued.mode !== 'retain') {
      return copy.mergeImport(queued.mode, readImport<Incoming>(patient.query, queued))
    }
    const { value: stale } = await readImport<Stale>(query, queued).next()
    return copy.mergeStale(stale)
  }

  /** Commits a merge and its result to the database, and then to the copy. */
  async function commit(queued: QueuedImport, merged: Merge, from: Position): Promise<void> {
    const { counts, changed, rows, imported, changes } = merged
    const to = after(from)
    try {
      const body = changed === 0 ? null : bodyOf(changes())
      await patient.transaction(async tx => {
        const entry = { ...to, kind: 'delta', after: from.mark, changed, rows, imported } as const
        if (body !== null) await append(tx, entry, body)
        await finishImport(tx, queued, { counts })
      })
      if (body === null) merged.rollback()
      else merged.commit(to)
    } catch (error) {
      merged.rollback()
      throw error
    }
  }

  /** Rows that cannot be merged are refused. When the database or the disk fails, they stay queued, for another node. */
  async function mergeNext(queued: QueuedImport, from: Position): Promise<void> {
    const merged = await merge(queued).catch(failure => {
      if (isOfRows(failure)) return messageOf(failure)
      throw failure
    })
    if (typeof merged === 'string') await finishImport(query, queued, { failure: merged })
    else await commit(queued, merged, from)
  }

  return {
    follow,
    /** Whether the first list of a restored database is still queued. */
    isAwaited: async ({ version }: Position): Promise<boolean> =>
      version === 0 && (await nextImport(query)) !== null,
    /**
     * Merges queued imports while this node is the leader, and calls `onMerged` after each. A second leader fails: it
     * cannot write the same version.
     */
    async lead(isLeader: () => boolean, onMerged: (version: number) => void): Promise<void> {
      let at = await follow()
      if (at.version > 0 && (await readHead(query)) === null) at = await publish(at)
      while (isLeader()) {
        const queued = await nextImport(query)
        if (queued === null) return
        await mergeNext(queued, at)
        at = await follow()
        onMerged(at.version)
        if (isLeader() && (await isSnapshotDue(query, snapshotBytes))) at = await publish(at)
      }
    },
  }
}
