/**
 * Owns an import into the list of a database: rows are copied into a temporary table as they come,
 * and merged in one transaction at the end, so that a slow source holds no transaction open. Knows
 * nothing of file formats.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { ReservedSQL } from 'bun'
import { FUTURE_SECONDS_MAX } from '../../import/row.ts'
import { StoreError } from '../../lib/errors.ts'
import { toSeconds } from '../../lib/time.ts'
import { type IncomingProxy, servicesToBits } from '../../proxies/proxy.ts'
import { toRow } from '../../proxies/row.ts'
import type { ImportCounts, ImportMode, ImportTx, ListSizes } from '../../proxies/store.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Connection, Value } from '../connection.ts'
import { onlyRow } from '../rows.ts'
import { LOCK_CLASS, LOCKS } from '../schema.ts'
import { FILL, mergeSql, NEWEST, STAGE, UNSTAGE } from './merge.ts'
import { type ListState, lockList, storeVersion } from './version.ts'

/** How long an import waits for another one before it says so, and until it gives up. */
const SHORT_WAIT_MS = 500
const WAIT_MS = 3_600_000
/** Time between two attempts to lock the list; a statement that waits would hold back vacuum. */
const RETRY_MS = 50

/** Characters of rows that are sent at a time: some ten thousand rows. */
const CHUNK_LENGTH = 1024 * 1024

/**
 * For a merge: a million rows are hashed in memory, and some thousand are looked up in a list that is in
 * memory, which takes half the time that reading all of it takes.
 */
const MERGE_SETTINGS = 'set local work_mem = 65536; set local random_page_cost = 1.1'

/** The names of cities in the order in which rows first have them; the first one is unknown. */
function createNames() {
  const positions = new Map<string, Map<string, number>>([['', new Map([['', 1]])]])
  const names = ['']
  const namesEn = ['']
  return {
    names,
    namesEn,
    positionOf(name: string, nameEn: string): number {
      const withName = positions.get(name) ?? new Map<string, number>()
      const known = withName.get(nameEn)
      if (known !== undefined) return known
      names.push(name)
      namesEn.push(nameEn)
      positions.set(name, withName.set(nameEn, names.length))
      return names.length
    },
  }
}

/** A connection that an import has for itself, for its lock and its temporary tables. */
function createSession(connection: Connection, reserved: ReservedSQL) {
  const run = <R extends object>(text: string, values: readonly Value[] = []) =>
    connection.using<R[] & { count: number }>(() => reserved.unsafe(text, [...values]))
  const tryLock = async (): Promise<boolean> => {
    const text = 'select pg_try_advisory_lock($1, $2) as ok'
    return (await onlyRow<{ ok: boolean }>(run, text, [LOCK_CLASS, LOCKS.list])).ok
  }
  let isLocked = false
  return {
    run,
    /** Locks the list for as long as the session lasts; `onWait` is called when another import has it. */
    async lock(onWait: () => void, signal?: AbortSignal): Promise<void> {
      for (let waitedMs = 0; waitedMs < WAIT_MS; waitedMs += RETRY_MS) {
        signal?.throwIfAborted()
        isLocked = await tryLock()
        if (isLocked) return
        if (waitedMs === SHORT_WAIT_MS) onWait()
        await delay(RETRY_MS, undefined, { signal }).catch(() => signal?.throwIfAborted())
      }
      throw new StoreError('another import has locked the list for too long')
    },
    fill: (text: string): Promise<void> =>
      connection.using(async () => {
        const query = reserved.unsafe(FILL)
        const writer = query.writable().getWriter()
        void writer.write(text).catch(() => {}) // close() rejects, too
        await writer.close()
        await query
      }),
    /** Ends the import; with a connection that was lost, its lock has ended too. */
    async end(): Promise<void> {
      const unlock = isLocked ? `; select pg_advisory_unlock(${LOCK_CLASS}, ${LOCKS.list})` : ''
      await run(UNSTAGE + unlock).catch(() => {})
      reserved.release()
    },
  }
}

type Session = ReturnType<typeof createSession>

/** What became of the rows that were copied. */
type Merged = { added: number; written: number; removed: number; isChanged: boolean }

/** What a merge has made of them, before it is written; the checks are as in `ListState`. */
type Summary = { rows: number; written: number; newest: number | null; oldest: number | null }

/** The checks of a list into which rows were merged; only one ahead of the clock can get earlier. */
async function boundsAfter(
  run: Session['run'],
  { before, found, latest }: { before: ListState; found: Summary; latest: number },
) {
  const isAhead = before.newest !== null && before.newest > latest
  const { newest } = isAhead ? await onlyRow<Pick<Summary, 'newest'>>(run, NEWEST) : before
  return {
    newest: Math.max(newest ?? 0, found.newest ?? 0),
    oldest: Math.min(before.oldest ?? Number.POSITIVE_INFINITY, found.oldest ?? 0),
  }
}

type MergeParts = {
  mode: ImportMode
  latest: number
  names: ReturnType<typeof createNames>
  approve: (sizes: ListSizes) => void
}

/** Merges the rows that were copied, in one transaction. */
async function merge({ run }: Session, parts: MergeParts): Promise<Merged> {
  try {
    await run(`begin; ${MERGE_SETTINGS}`)
    const merged = await mergeIn(run, parts)
    await run(merged.isChanged ? 'commit' : 'rollback') // new names of cities are no change
    return merged
  } catch (error) {
    await run('rollback').catch(() => {}) // its connection may be lost
    throw error
  }
}

/** The same in the transaction that is under way. */
async function mergeIn(run: Session['run'], { mode, latest, names, approve }: MergeParts) {
  const isReplace = mode === 'replace'
  const before = await lockList(run)
  const version = before.version + 1
  const sql = mergeSql({ mode, latest, version })
  await run(sql.analyze)
  await run(sql.cities, [arrayLiteral(names.names), arrayLiteral(names.namesEn)])
  const { count: repeated } = await run(sql.repeated)
  await run(sql.single)
  if (repeated > 0) await run(sql.each)
  await run(sql.analyzeMerged)
  const found = await onlyRow<Summary>(run, sql.summary)
  if (isReplace) approve({ before: before.rows, after: found.rows })
  const { count: removed } = isReplace ? await run(sql.remove) : { count: 0 }
  const { count: updated } = await run(sql.update)
  const { count: added } = await run(sql.insert)
  if (added + updated + removed === 0) return { added, written: 0, removed, isChanged: false }
  const bounds = isReplace ? found : await boundsAfter(run, { before, found, latest })
  await storeVersion(run, { ...bounds, version, rows: before.rows + added - removed })
  const written = isReplace ? added + updated : found.written
  return { added, written, removed, isChanged: true }
}

/**
 * An import. The list is locked from its first row on (at the latest from `commit`), by a lock that
 * ends with the connection. Nothing is visible before `commit`; `rollback`, or the end of the
 * process, leaves the list as it was. By `nowMs`, rows are recognised whose check lies in the future:
 * any update replaces them.
 */
export function beginImport(
  connection: Connection,
  mode: ImportMode,
  onWait: () => void,
  nowMs: number,
) {
  const names = createNames()
  let started: Promise<Session> | null = null
  let accepted = 0
  let text = ''
  /** Resolves when what was sent so far is stored, and when what was sent before the last chunk is. */
  let sent: Promise<unknown> = Promise.resolve()
  let sentBefore = sent

  async function startWith(signal?: AbortSignal): Promise<Session> {
    const session = createSession(connection, await connection.using(sql => sql.reserve()))
    try {
      await session.lock(onWait, signal)
      await session.run(STAGE)
      return session
    } catch (error) {
      await session.end()
      throw error
    }
  }
  const start = (signal?: AbortSignal): Promise<Session> => {
    started ??= startWith(signal)
    return started
  }

  function send(): void {
    const chunk = text
    text = ''
    sentBefore = sent
    sent = sent.then(async () => (await start()).fill(chunk))
    sent.catch(() => {}) // what waits for it throws
  }

  async function end(): Promise<void> {
    const session = await started?.catch(() => null)
    started = null
    await sent.catch(() => {})
    await session?.end()
  }

  return {
    async lock(signal?: AbortSignal): Promise<void> {
      await start(signal)
    },
    add(proxy: IncomingProxy): void {
      accepted += 1
      const row = toRow(proxy, names.positionOf(proxy.city, proxy.cityEn))
      text += `${accepted}\t${row.join('\t')}\t${servicesToBits(proxy.servicesStated)}\n`
      if (text.length >= CHUNK_LENGTH) send()
    },
    async drained(): Promise<void> {
      await sentBefore
    },
    async commit(approve: (sizes: ListSizes) => void = () => {}): Promise<ImportCounts> {
      const session = await start()
      if (text !== '') send()
      await sent
      const latest = toSeconds(nowMs) + FUTURE_SECONDS_MAX
      const { added, written, removed } = await merge(session, { mode, latest, names, approve })
      await end()
      return { added, updated: written - added, unchanged: accepted - written, removed }
    },
    rollback: end,
  } satisfies ImportTx
}
