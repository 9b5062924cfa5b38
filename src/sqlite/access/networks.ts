/** The networks of quotas in SQLite (`access/network-quota.ts` decides). */
import type { Database } from 'bun:sqlite'
import type { NetworkCounts, NetworkTable } from '../../access/network-quota.ts'
import type { Subject } from '../../access/rate-limit.ts'

/** Networks are removed so many days after theirs: no window lasts longer. */
const KEEP_DAYS = 2

export function createNetworkTable(db: Database) {
  const ofSet = 'subject_kind = ?1 and subject_id = ?2 and network_set = ?3'
  type OfDay = [kind: string, id: string, set: string, day: number]
  const selectCount = db.prepare<{ n: number }, OfDay>(
    `select count(*) as n from networks where ${ofSet} and day = ?4`,
  )
  const selectLacking = db.prepare<{ network: string }, [...OfDay, networks: string]>(
    `select value as network from json_each(?5) asked where not exists
       (select 1 from networks where ${ofSet} and day = ?4 and network = asked.value)`,
  )
  const insert = db.prepare<never, [...OfDay, network: string]>(
    'insert or ignore into networks values (?, ?, ?, ?, ?)',
  )
  const removeOld = db.prepare<never, OfDay>(`delete from networks where ${ofSet} and day < ?4`)
  const removeOf = db.prepare<never, [kind: string, id: string]>(
    'delete from networks where subject_kind = ? and subject_id = ?',
  )
  return {
    count({ subject: { kind, id }, day }: { subject: Subject; day: number }): NetworkCounts {
      const countOf = (set: string): number => selectCount.get(kind, id, set, day)?.n ?? 0
      return { served: countOf('served'), callers: countOf('callers') }
    },
    compare({ kind, id }, set, day, networks) {
      const used = selectCount.get(kind, id, set, day)?.n ?? 0
      const lacking = selectLacking.all(kind, id, set, day, JSON.stringify(networks))
      return { used, lacking: new Set(lacking.map(({ network }) => network)) }
    },
    addNetworks({ kind, id }, set, day, networks) {
      removeOld.run(kind, id, set, day - KEEP_DAYS)
      for (const each of networks) insert.run(kind, id, set, day, each)
    },
    removeOf({ kind, id }: Subject): void {
      removeOf.run(kind, id)
    },
  } satisfies NetworkTable & { [method: string]: unknown }
}
