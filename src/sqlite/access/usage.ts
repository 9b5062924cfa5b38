/**
 * Owns usage in SQLite: the table of admissions and the sets of networks. The decisions are made
 * in `access/rate-limit.ts` and `access/network-quota.ts`.
 */
import type { Database } from 'bun:sqlite'
import { consume, type NetworkTable } from '../../access/network-quota.ts'
import {
  admit,
  type Subject,
  UNUSED,
  type Usage,
  type UsageTable,
} from '../../access/rate-limit.ts'
import type { UsageStore } from '../../access/store.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../lib/time.ts'
import { dataVersionOf } from '../database.ts'

/** Rows that a prune examines, and networks that it removes, at a time: requests wait for it. */
const PRUNE_SLICE = 10_000
const REMOVE_SLICE = 2_000
/** Usage is removed this long after the last admission: longer than any window. */
const KEEP_MS = 2 * DAY_MS
/** Client addresses are forgotten earlier: they are many, and their windows are an hour at most. */
const KEEP_ADDRESSES_MS = 2 * HOUR_MS

/** Rows that no rule counts any more are removed when there are this many. */
const OBSOLETE_MAX = 512

type AdmissionRow = [
  id: number,
  kind: Subject['kind'],
  subjectId: string,
  at: number,
  requests: number,
  kept: number,
]

/** What is known of a subject: its usage, and the ids of the rows of its admissions. */
type Known = { usage: Usage; ids: number[] }
type KnownByKind = { readonly [kind in Subject['kind']]: Map<string, Known> }

const admissionStatements = (db: Database) => ({
  selectNew: db.prepare<AdmissionRow, [number]>(
    `select id, subject_kind, subject_id, at, requests, kept from admissions
     where id > ? order by id`,
  ),
  insert: db.prepare<never, AdmissionRow>(
    `insert into admissions (id, subject_kind, subject_id, at, requests, kept)
     values (?, ?, ?, ?, ?, ?)`,
  ),
  remove: db.prepare<never, [string]>(
    'delete from admissions where id in (select value from json_each(?))',
  ),
})

/**
 * The table of admissions, and its content by subject in memory. What other processes append is
 * read at the beginning of every transaction, so memory is never behind.
 */
function createAdmissionTable(db: Database) {
  const known: KnownByKind = { key: new Map(), demo: new Map(), temp: new Map() }
  let lastId = 0
  let seenVersion: number | null = null // null: not read yet
  const version = dataVersionOf(db)
  const { selectNew, insert, remove } = admissionStatements(db)
  let obsolete: number[] = []

  /** Adds a row to memory; returns the ids of rows that are now obsolete. */
  function apply([id, kind, subjectId, at, requests, kept]: AdmissionRow): number[] {
    let entry = known[kind].get(subjectId)
    if (entry === undefined) {
      entry = { usage: { admissions: [], day: 0, requests: 0 }, ids: [] }
      known[kind].set(subjectId, entry)
    }
    const { usage, ids } = entry
    usage.admissions.push(at)
    usage.day = utcDay(at)
    usage.requests = requests
    ids.push(id)
    lastId = id
    const dropped = ids.length - kept
    if (dropped <= 0) return []
    usage.admissions.splice(0, dropped)
    return ids.splice(0, dropped)
  }

  return {
    /** Whether the table has been read; reading a long one for the first time takes long. */
    isRead: (): boolean => seenVersion !== null,
    /** Reads what others have appended. */
    catchUp(): void {
      const current = version()
      if (current === seenVersion) return
      for (const row of selectNew.values(lastId) as AdmissionRow[]) apply(row) // untyped
      seenVersion = current
    },
    /** Forgets subjects that a prune at `timeMs` has removed from the table. */
    forgetBefore(timeMs: number): void {
      for (const [kind, subjects] of Object.entries(known)) {
        const keptMs = kind === 'key' ? KEEP_MS : KEEP_ADDRESSES_MS
        for (const [id, { usage }] of subjects) {
          if ((usage.admissions.at(-1) ?? 0) < timeMs - keptMs) subjects.delete(id)
        }
      }
    },
    /** Forgets what was read, so that all of it is read again. */
    reset(): void {
      for (const subjects of Object.values(known)) subjects.clear()
      obsolete = []
      lastId = 0
      seenVersion = null
    },
    read: ({ kind, id }: Subject): Usage | null => known[kind].get(id)?.usage ?? null,
    /** Appends an admission; rows of the subject before the last `kept` become obsolete. */
    record({ kind, id }: Subject, atMs: number, requests: number, kept: number): void {
      const row: AdmissionRow = [++lastId, kind, id, atMs, requests, kept]
      insert.run(...row)
      obsolete.push(...apply(row))
    },
    /** Removes obsolete rows, many at a time; until then they do no harm. */
    removeObsolete(): void {
      if (obsolete.length < OBSOLETE_MAX) return
      remove.run(JSON.stringify(obsolete))
      obsolete = []
    },
  } satisfies UsageTable & { [method: string]: unknown }
}

/** The table of networks. */
function createNetworkTable(db: Database): NetworkTable {
  const select = db.prepare<{ network: string }, [string, string, string, number]>(
    `select network from networks
     where subject_kind = ? and subject_id = ? and network_set = ? and day = ?`,
  )
  const insert = db.prepare<never, [string, string, string, number, string]>(
    `insert or ignore into networks (subject_kind, subject_id, network_set, day, network)
     values (?, ?, ?, ?, ?)`,
  )
  return {
    networks: ({ kind, id }, set, day) =>
      new Set(select.all(kind, id, set, day).map(({ network }) => network)),
    addNetworks({ kind, id }, set, day, networks) {
      for (const network of networks) insert.run(kind, id, set, day, network)
    },
  }
}

/**
 * Removes, slice by slice, what no limit counts any more. Age is measured from the latest admission
 * when the clock is ahead of it: the clock may step back, and used quota must not be lost then.
 */
function createPrune(db: Database) {
  const lastAdmission = db.prepare<{ at: number | null }, []>(
    'select max(at) as at from (select at from admissions order by id desc limit 1000)',
  )
  const sliceEnd = db.prepare<{ id: number }, [number, number]>(
    'select id from admissions where id > ? order by id limit 1 offset ?',
  )
  const deleteAdmissions = db.prepare<never, [number, number, number, number]>(
    // The last row stays, so that its id is never used again.
    `delete from admissions where id > ?1 and id <= ?2 and id < (select max(id) from admissions)
       and (at < ?3 or at < ?4 and subject_kind <> 'key')`,
  )
  const deleteNetworks = db.prepare<never, [number, number]>(
    `delete from networks where (subject_kind, subject_id, network_set, day, network) in
       (select subject_kind, subject_id, network_set, day, network from networks where day < ? limit ?)`,
  )
  let prunedId = 0 // rows up to here were looked at; 0: none
  return (nowMs: number): { timeMs: number; mayRemain: boolean } => {
    const timeMs = Math.min(nowMs, lastAdmission.get()?.at ?? 0)
    const cutoffMs = timeMs - KEEP_MS
    const endId = sliceEnd.get(prunedId, PRUNE_SLICE)?.id ?? null
    const toId = endId ?? Number.MAX_SAFE_INTEGER
    deleteAdmissions.run(prunedId, toId, cutoffMs, timeMs - KEEP_ADDRESSES_MS)
    prunedId = endId ?? 0
    const { changes } = deleteNetworks.run(utcDay(cutoffMs), REMOVE_SLICE)
    return { timeMs, mayRemain: endId !== null || changes === REMOVE_SLICE }
  }
}

/** The usage of an open database. Every method is synchronous. */
export function createUsageStore(db: Database) {
  const admissions = createAdmissionTable(db)
  const tables: UsageTable & NetworkTable = { ...admissions, ...createNetworkTable(db) }
  const prune = createPrune(db)
  const begin = db.prepare('begin immediate')
  const commit = db.prepare('commit')
  const rollback = db.prepare('rollback')
  const removeProbe = db.prepare("delete from networks where subject_kind = 'probe'")
  const writeProbe = db.prepare("insert into networks values ('probe', '', '', 0, '')")

  /** Runs `work` in one transaction; what it wrote is durable once this returns. */
  function inTransaction<T>(work: () => T): T {
    if (!admissions.isRead()) admissions.catchUp() // not under the lock, where others would wait
    begin.run()
    try {
      admissions.catchUp()
      const result = work()
      admissions.removeObsolete()
      commit.run()
      return result
    } catch (error) {
      admissions.reset()
      if (db.inTransaction) rollback.run()
      throw error
    }
  }

  return {
    admit: batch => inTransaction(() => batch.map(admission => admit(tables, admission))),
    consume: batch => inTransaction(() => batch.map(consumption => consume(tables, consumption))),
    peek(batch) {
      admissions.catchUp()
      return batch.map(subject => admissions.read(subject) ?? UNUSED)
    },
    prune(nowMs) {
      const { timeMs, mayRemain } = prune(nowMs)
      if (!mayRemain) admissions.forgetBefore(timeMs)
      return mayRemain
    },
    /** Commits a write that no limit counts. */
    probe: () =>
      inTransaction(() => {
        removeProbe.run() // a row that is there already would not be written
        writeProbe.run()
      }),
  } satisfies UsageStore
}
