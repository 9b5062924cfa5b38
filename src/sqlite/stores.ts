/** The databases of a data directory as a command uses them: open, work, close. See `server.ts` for a server. */
import type { Database } from 'bun:sqlite'
import { existsSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Registry } from '../access/ports.ts'
import type { FeedStore, StoredFeed } from '../feeds/store.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { say } from '../lib/log.ts'
import type { Filter } from '../proxies/filter.ts'
import { ROW_COLUMNS, type Row } from '../proxies/row.ts'
import type { Breakdown } from '../proxies/stats.ts'
import type { ImportMode, ImportTx } from '../proxies/store.ts'
import { openAccessFile } from './access/file.ts'
import { createKeyStore } from './access/keys.ts'
import { createPlanStore, seedPlans } from './access/plans.ts'
import { createUsageStore } from './access/usage.ts'
import { ACCESS_FILE, FEEDS_FILE, PROXY_FILE, requireData } from './data-directory.ts'
import { findDamage, type OpenMode, pagesOf } from './database.ts'
import { installDatabase, requireNotReplaced } from './database-files.ts'
import { damagedBy, explain, isDamage, toCommandError } from './errors.ts'
import { openFeeds } from './feeds.ts'
import { ENDPOINT_COLUMNS } from './proxies/filter-sql.ts'
import { beginImport } from './proxies/import.ts'
import { readBreakdown } from './proxies/stats.ts'
import { createListStore, openListFile } from './proxies/store.ts'
import { emptyWal } from './wal.ts'

type ListMode = OpenMode & {
  clock?: Clock
}

const PAGE_ROWS = 1_000

/** Reads rows on one snapshot, in pages between which the caller may pause. */
function* readPages<R>(db: Database, open: () => Iterable<R>): Generator<R[]> {
  db.run('begin')
  try {
    yield* pagesOf(open(), PAGE_ROWS)
  } finally {
    db.run('commit')
  }
}

/** Opens the list of proxies in `dir`, or one in memory when `dir` is null. */
export function openList(dir: string | null, { clock = systemClock, ...mode }: ListMode = {}) {
  const file = join(dir ?? '', PROXY_FILE)
  const db = openListFile(dir === null ? ':memory:' : file, mode)
  const proxies = createListStore(db)
  const close = (): void => db.close(true)
  return {
    db,
    file,
    proxies,
    cityNames: proxies.cityNames,
    isEmpty: proxies.isEmpty,
    importMark: proxies.importMark,
    pages: (filter: Filter, nowMs: number) =>
      readPages(db, () => proxies.open<Row>(filter, { nowMs, addressBits: 32 }, ROW_COLUMNS).rows),
    endpointPages: (filter: Filter, nowMs: number) =>
      readPages(db, () => proxies.open(filter, { nowMs, addressBits: 32 }, ENDPOINT_COLUMNS).rows),
    breakdown: (nowMs: number): Breakdown => readBreakdown(db, nowMs),
    begin(mode: ImportMode, onWait?: () => void): ImportTx {
      // The checker commits every second: it leaves the WAL to the worker of `wal.ts`.
      const isLarge = dir !== null && mode !== 'set'
      const importTx = beginImport(db, mode, onWait, clock())
      const commit: ImportTx['commit'] = approve => {
        const counts = importTx.commit(approve)
        proxies.noteChange()
        // To other connections, emptying the WAL looks like a change of the list.
        if (isLarge && counts.added + counts.updated + counts.removed > 0) emptyWal(db)
        if (dir !== null) requireNotReplaced(db, file)
        return counts
      }
      const rollback = (): void => {
        importTx.rollback()
        if (isLarge) emptyWal(db) // it may have filled the disk
      }
      return { ...importTx, commit, rollback }
    },
    close,
    [Symbol.dispose]: close,
  }
}

export function openRegistry(dir: string, mode: OpenMode = {}) {
  const db = openAccessFile(join(dir, ACCESS_FILE), { ...mode, fill: seedPlans })
  const usage = createUsageStore(db)
  const close = (): void => db.close(true)
  return {
    db,
    keys: createKeyStore(db, usage),
    plans: createPlanStore(db),
    usage,
    close,
    [Symbol.dispose]: close,
  } satisfies Registry & { [member: string]: unknown }
}

export type List = ReturnType<typeof openList>

/** What is done with a store: what is missing is made, what is there is changed, or is only read. */
export type Need = 'make' | 'change' | 'read'

/** Works with the list in `dir`. @throws CommandError when the database fails, or is missing and needed. */
export async function withList<T>(
  dir: string,
  clock: Clock,
  need: Need,
  work: (list: List) => Awaitable<T>,
): Promise<T> {
  if (need !== 'make') requireData(dir, PROXY_FILE)
  const isReader = need === 'read'
  return withResource(join(dir, PROXY_FILE), () => openList(dir, { clock, isReader }), work)
}

/** Works with keys, plans and usage in `dir`, as `withList` does with the list. */
export async function withRegistry<T>(
  dir: string,
  need: Need,
  work: (registry: Registry) => Awaitable<T>,
): Promise<T> {
  if (need !== 'make') requireData(dir, ACCESS_FILE)
  else if (!existsSync(dir)) say(`there is no data directory ${resolve(dir)}; making a new one`)
  const isReader = need === 'read'
  return withResource(join(dir, ACCESS_FILE), () => openRegistry(dir, { isReader }), work)
}

/** What to do when the rows of a list are all replaced. */
export type Replacing = {
  /** Called with a sentence when the list is damaged; the new one then takes its place. */
  onDamage: (sentence: string) => void
}

/** The problem of the list in `dir`, as a sentence; `null` when it is intact or missing. */
function damageOfList(dir: string): string | null {
  const file = join(dir, PROXY_FILE)
  if (!existsSync(file)) return null
  try {
    using list = openList(dir)
    const damage = findDamage(list.db, 'quick_check') // the indexes are made again
    return damage === null ? null : damagedBy(file, damage).message
  } catch (error) {
    if (!isDamage(error)) throw toCommandError(file, error)
    return explain(file, error)
  }
}

/**
 * Works with a list whose rows are all to be replaced, as `withList` does. A damaged list stays where it is until a
 * new one beside it is complete.
 */
export async function withListToReplace<T>(
  dir: string,
  clock: Clock,
  work: (list: List) => Awaitable<T>,
  { onDamage }: Replacing,
): Promise<T> {
  const file = join(dir, PROXY_FILE)
  const damage = damageOfList(dir)
  if (damage === null) return withList(dir, clock, 'make', work)
  onDamage(damage)
  const scratch = join(dir, 'import.part')
  rmSync(scratch, { recursive: true, force: true }) // a killed import left it
  try {
    const result = await withList(scratch, clock, 'make', work)
    installDatabase(join(scratch, PROXY_FILE), file)
    return result
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Works with the states of the feeds in `dir`, as `withList` does with the list. */
export const withFeeds = <T>(dir: string, work: (store: FeedStore) => Awaitable<T>): Promise<T> =>
  withResource(join(dir, FEEDS_FILE), () => openFeeds(dir), work)

/** The states of the feeds in `dir`; none when no feed was ever fetched into it. */
export function listFeeds(dir: string, mode: OpenMode = { isReader: true }): StoredFeed[] {
  if (!existsSync(join(dir, FEEDS_FILE))) return []
  using feeds = openFeeds(dir, { ...mode, mustExist: true })
  return feeds.list()
}

/** Opens, works and closes; a failing database becomes a `CommandError` about `file`. */
export async function withResource<R extends { close(): void }, T>(
  file: string,
  open: () => R,
  work: (resource: R) => Awaitable<T>,
): Promise<T> {
  try {
    const resource = open()
    try {
      return await work(resource)
    } finally {
      resource.close()
    }
  } catch (error) {
    throw toCommandError(file, error)
  }
}
