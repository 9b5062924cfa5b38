/** The networks of quotas in SQLite (`access/network-quota.ts` decides). */
import type { Database } from 'bun:sqlite'
import type { NetworkSet, NetworkTable } from '../../access/network-quota.ts'
import type { Subject } from '../../access/rate-limit.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { dataVersionOf } from '../database.ts'

/** Networks are removed so many days after theirs: no window lasts longer. */
const KEEP_DAYS = 2
/** Reading so many networks takes as long as looking up one. */
const READ_AT_ONCE = 8
/** Most counts in memory. */
const COUNTS_MAX = 10_000

/**
 * Counting a set of tens of thousands takes 1 ms, reading it 20 ms. So counts are cached until another
 * connection commits, and a set is read only for responses with many networks.
 */
export function createNetworkTable(db: Database) {
  const ofSet =
    'from networks where subject_kind = ?1 and subject_id = ?2 and network_set = ?3 and day = ?4'
  type OfSet = [kind: string, id: string, set: string, day: number]
  type Row = [...OfSet, network: string]
  const select = db.prepare<{ network: string }, OfSet>(`select network ${ofSet}`)
  const selectOne = db.prepare<{ network: string }, Row>(`select network ${ofSet} and network = ?5`)
  const selectCount = db.prepare<{ n: number }, OfSet>(`select count(*) as n ${ofSet}`)
  const insert = db.prepare<never, Row>('insert or ignore into networks values (?, ?, ?, ?, ?)')
  const removeOld = db.prepare<never, OfSet>(`delete ${ofSet.replace('day =', 'day <')}`)
  const removeOf = db.prepare<never, [string, string]>(
    'delete from networks where subject_kind = ? and subject_id = ?',
  )
  const version = dataVersionOf(db) // changes when other connections commit
  const counts = createBoundedMap<string, { [S in NetworkSet]: number }>(COUNTS_MAX)
  let seenVersion = version()
  function count({ subject: { kind, id }, day }: { subject: Subject; day: number }) {
    const current = version()
    if (current !== seenVersion) counts.clear()
    seenVersion = current
    const name = `${day} ${kind} ${id}`
    const countOf = (set: NetworkSet): number => selectCount.get(kind, id, set, day)?.n ?? 0
    const known = counts.get(name) ?? { served: countOf('served'), callers: countOf('callers') }
    counts.set(name, known)
    return known
  }
  return {
    count,
    forgetCounts: (): void => counts.clear(),
    compare({ kind, id }, set, day, networks) {
      const used = count({ subject: { kind, id }, day })[set]
      const readAll = () => new Set(select.all(kind, id, set, day).map(({ network }) => network))
      const lookUp = { has: (each: string) => selectOne.get(kind, id, set, day, each) !== null }
      const known = used > READ_AT_ONCE * networks.length ? lookUp : readAll()
      return { used, lacking: new Set(networks.filter(each => !known.has(each))) }
    },
    addNetworks({ kind, id }, set, day, networks) {
      const known = count({ subject: { kind, id }, day })
      const isFirst = known[set] === 0
      if (isFirst && removeOld.run(kind, id, set, day - KEEP_DAYS).changes > 0) counts.clear()
      for (const each of networks) known[set] += insert.run(kind, id, set, day, each).changes
    },
    /** Removes all networks of a subject. */
    removeOf({ kind, id }: Subject): void {
      counts.clear()
      removeOf.run(kind, id)
    },
  } satisfies NetworkTable & { [method: string]: unknown }
}
