/**
 * Owns usage in SQLite: its transactions, and the sets of networks. Admissions are in
 * `admission-log.ts`; the decisions are made in `access/rate-limit.ts` and `access/network-quota.ts`.
 */
import type { Database } from 'bun:sqlite'
import { consume, type NetworkTable } from '../../access/network-quota.ts'
import { admit, UNUSED, type UsageTable } from '../../access/rate-limit.ts'
import type { UsageStore } from '../../access/store.ts'
import { utcDay } from '../../lib/time.ts'
import { createAdmissionLog } from './admission-log.ts'
import type { SnapshotOptions } from './snapshot.ts'
import { KEEP_MS } from './subjects.ts'

/** Networks that a prune removes at a time: requests wait for it. */
const REMOVE_SLICE = 2_000

/** The table of networks. */
function createNetworkTable(db: Database) {
  const select = db.prepare<{ network: string }, [string, string, string, number]>(
    `select network from networks
     where subject_kind = ? and subject_id = ? and network_set = ? and day = ?`,
  )
  const insert = db.prepare<never, [string, string, string, number, string]>(
    `insert or ignore into networks (subject_kind, subject_id, network_set, day, network)
     values (?, ?, ?, ?, ?)`,
  )
  const remove = db.prepare<never, [number, number]>(
    `delete from networks where (subject_kind, subject_id, network_set, day, network) in
       (select subject_kind, subject_id, network_set, day, network from networks where day < ? limit ?)`,
  )
  return {
    networks: ({ kind, id }, set, day) =>
      new Set(select.all(kind, id, set, day).map(({ network }) => network)),
    addNetworks({ kind, id }, set, day, networks) {
      for (const network of networks) insert.run(kind, id, set, day, network)
    },
    /** Removes a slice of the networks of earlier days; returns whether more may remain. */
    removeBefore: (day: number): boolean => remove.run(day, REMOVE_SLICE).changes === REMOVE_SLICE,
  } satisfies NetworkTable & { [method: string]: unknown }
}

/** The usage of an open database. Every method is synchronous. */
export function createUsageStore(db: Database, options: Partial<SnapshotOptions> = {}) {
  const admissions = createAdmissionLog(db, options)
  const networks = createNetworkTable(db)
  const tables: UsageTable & NetworkTable = { ...admissions, ...networks }
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
      admissions.write()
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
    prune: nowMs =>
      inTransaction(() => {
        const { mayRemain, timeMs } = admissions.prune(nowMs)
        return mayRemain || networks.removeBefore(utcDay(timeMs - KEEP_MS))
      }),
    /** Commits a write that no limit counts. */
    probe: () =>
      inTransaction(() => {
        removeProbe.run() // a row that is there already would not be written
        writeProbe.run()
      }),
  } satisfies UsageStore
}
