/**
 * Owns what has been used: the log of admissions and the sets of networks, in access.db.
 * What they mean is in `limits.ts`.
 */
import type { Database } from 'bun:sqlite'
import type { Admission, Usage, UsageStore } from '../../access/rate-limit.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../lib/time.ts'
import { dataVersionOf, type OpenOptions, openDatabase } from '../database.ts'
import schema from './migrations/1-keys-plans-usage.sql' with { type: 'text' }

/** Rows a sweep looks at, and networks it removes, at a time: no request waits long for it. */
const SWEEP_SLICE = 10_000
const REMOVE_SLICE = 2_000
/** Usage is forgotten this long after the last admission: longer than any window. */
const KEEP_MS = 2 * DAY_MS
/** Client addresses are many, and their windows an hour at most. */
const KEEP_ADDRESSES_MS = 2 * HOUR_MS

/** Every admission dirties a page of the log's end: small pages keep commits small. */
const PAGE_BYTES = 1024

type AccessFileOptions = Pick<OpenOptions, 'serving' | 'again'>

export const openAccessFile = (file: string, options: AccessFileOptions = {}): Database =>
  openDatabase(file, { holds: 'access', schema: [schema], pageBytes: PAGE_BYTES, ...options })

/** Rows that may be in the log though nothing counts them any more. */
const OBSOLETE_MAX = 512

type LogRow = [id: number, subject: string, at: number, requests: number, kept: number]

/** What is known of a subject: its usage, and the log rows its admissions stand in. */
type Known = { usage: Usage; ids: number[] }

function beginKnowing(known: Map<string, Known>, subject: string): Known {
  const fresh = { usage: { admissions: [], day: 0, requests: 0 }, ids: [] }
  known.set(subject, fresh)
  return fresh
}

/**
 * The log of admissions, and its content by subject in memory. What other processes append is
 * read before every transaction, so memory is never behind.
 */
function createAdmissionLog(db: Database) {
  const known = new Map<string, Known>()
  let lastId = 0
  let seenVersion: number | null = null // null: not read yet
  const version = dataVersionOf(db)
  const selectNew = db.prepare<LogRow, [number]>(
    'select id, subject, at, requests, kept from admissions where id > ? order by id',
  )
  const insert = db.prepare<never, LogRow>(
    'insert into admissions (id, subject, at, requests, kept) values (?, ?, ?, ?, ?)',
  )
  const remove = db.prepare<never, [string]>(
    'delete from admissions where id in (select value from json_each(?))',
  )
  let obsolete: number[] = []

  /** Takes a row into what is known. */
  function apply([id, subject, at, requests, kept]: LogRow, isOwn: boolean): void {
    const { usage, ids } = known.get(subject) ?? beginKnowing(known, subject)
    usage.admissions.push(at)
    usage.day = utcDay(at)
    usage.requests = requests
    ids.push(id)
    while (ids.length > kept) {
      usage.admissions.shift()
      const dropped = ids.shift() ?? 0
      if (isOwn) obsolete.push(dropped)
    }
    lastId = id
  }

  return {
    /** Whether the log was read at all; the first time takes long when it is long. */
    isRead: (): boolean => seenVersion !== null,
    /** Reads what others have appended. */
    catchUp(): void {
      const current = version()
      if (current === seenVersion) return
      for (const row of selectNew.values(lastId) as LogRow[]) apply(row, false) // untyped
      seenVersion = current
    },
    /** Forgets subjects that the sweep at `timeMs` has removed. */
    forgetBefore(timeMs: number): void {
      for (const [subject, { usage }] of known) {
        const keptMs = subject.startsWith('key:') ? KEEP_MS : KEEP_ADDRESSES_MS
        if ((usage.admissions.at(-1) ?? 0) < timeMs - keptMs) known.delete(subject)
      }
    },
    /** Forgets what was read, to read it all again. */
    reset(): void {
      known.clear()
      obsolete = []
      lastId = 0
      seenVersion = null
    },
    read: (subject: string): Usage | null => known.get(subject)?.usage ?? null,
    /** Appends an admission; rows of the subject before the last `kept` become obsolete. */
    append(subject: string, { atMs, requests }: Admission, kept: number): void {
      const row: LogRow = [++lastId, subject, atMs, requests, kept]
      insert.run(...row)
      apply(row, true)
    },
    /** Removes rows that no subject counts any more, many at a time; until then they do no harm. */
    tidy(): void {
      if (obsolete.length < OBSOLETE_MAX) return
      remove.run(JSON.stringify(obsolete))
      obsolete = []
    },
  }
}

/** Reads and writes the table `networks`. */
function createNetworkTable(db: Database): Pick<UsageStore, 'networks' | 'addNetworks'> {
  const select = db.prepare<{ network: string }, [string, number]>(
    'select network from networks where subject = ? and day = ?',
  )
  const insert = db.prepare<never, [string, number, string]>(
    'insert or ignore into networks (subject, day, network) values (?, ?, ?)',
  )
  return {
    networks: (subject, day) => new Set(select.all(subject, day).map(({ network }) => network)),
    addNetworks(subject, day, added): void {
      for (const network of added) insert.run(subject, day, network)
    },
  }
}

/**
 * Forgets, slice by slice, what no limit looks at any more. A clock that runs ahead of every
 * admission removes nothing: it may step back, and quota must not come back with it.
 */
function createSweep(db: Database) {
  const lastAdmission = db.prepare<{ at: number | null }, []>(
    'select max(at) as at from (select at from admissions order by id desc limit 1000)',
  )
  const sliceEnd = db.prepare<{ id: number }, [number, number]>(
    'select id from admissions where id > ? order by id limit 1 offset ?',
  )
  const deleteAdmissions = db.prepare<never, [number, number, number, number]>(
    // The last row stays, so that its id is never given again.
    `delete from admissions where id > ?1 and id <= ?2 and id < (select max(id) from admissions)
       and (at < ?3 or at < ?4 and subject not like 'key:%')`,
  )
  const deleteNetworks = db.prepare<never, [number, number]>(
    `delete from networks where (subject, day, network) in
       (select subject, day, network from networks where day < ? limit ?)`,
  )
  let sweptId = 0 // the log is looked at up to here; 0: from its beginning
  return (nowMs: number): { timeMs: number; mayRemain: boolean } => {
    const timeMs = Math.min(nowMs, lastAdmission.get()?.at ?? 0)
    const cutoffMs = timeMs - KEEP_MS
    const endId = sliceEnd.get(sweptId, SWEEP_SLICE)?.id ?? null
    const toId = endId ?? Number.MAX_SAFE_INTEGER
    deleteAdmissions.run(sweptId, toId, cutoffMs, timeMs - KEEP_ADDRESSES_MS)
    sweptId = endId ?? 0
    const { changes } = deleteNetworks.run(utcDay(cutoffMs), REMOVE_SLICE)
    return { timeMs, mayRemain: endId !== null || changes === REMOVE_SLICE }
  }
}

/** The store of usage. */
export function createUsageStore(db: Database) {
  const log = createAdmissionLog(db)
  const sweep = createSweep(db)
  const begin = db.prepare('begin immediate')
  const commit = db.prepare('commit')
  const rollback = db.prepare('rollback')
  const removeProbe = db.prepare("delete from networks where subject = 'probe'")

  let isInTransaction = false
  const store: UsageStore = {
    ...createNetworkTable(db),
    transaction(work) {
      if (!log.isRead()) log.catchUp() // not under the lock, at which other servers would wait
      begin.run()
      isInTransaction = true
      try {
        log.catchUp()
        const result = work(store)
        log.tidy()
        commit.run()
        return result
      } catch (error) {
        log.reset()
        if (db.inTransaction) rollback.run()
        throw error
      } finally {
        isInTransaction = false
      }
    },
    read(subject): Usage | null {
      if (!isInTransaction) log.catchUp()
      return log.read(subject)
    },
    record: log.append,
  }

  return {
    ...store,
    /** Forgets up to a slice of what no limit looks at any more; says whether more may remain. */
    removeStale(nowMs: number): boolean {
      const { timeMs, mayRemain } = sweep(nowMs)
      if (!mayRemain) log.forgetBefore(timeMs)
      return mayRemain
    },
    /** Commits a write that changes nothing that counts. @throws when usage cannot be written. */
    probe(): void {
      store.transaction(() => {
        removeProbe.run() // what is there already would not be written
        store.addNetworks('probe', 0, ['probe'])
      })
    },
  }
}
