/**
 * Owns reading all of keys, plans and usage of an open database, and writing them into a new one, as
 * the values that are moved to another store (`move/contents.ts`).
 */
import type { Database } from 'bun:sqlite'
import { addDays, type DayUse } from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import type { NetworkSet } from '../../access/network-quota.ts'
import type { Subject, Usage } from '../../access/rate-limit.ts'
import type { Contents, Reader, Writer } from '../../move/contents.ts'
import { createAdmissionLog, writeSnapshot } from '../access/admission-log.ts'
import { createKeyWriter, readStoredKeys } from '../access/keys.ts'
import { createPlanStore } from '../access/plans.ts'
import { pagesOf } from './list.ts'

export type AccessPart = 'plans' | 'keys' | 'seen' | 'usage' | 'networks' | 'days'

type NetworkRow = { kind: Subject['kind']; id: string; set: NetworkSet; day: number; all: string }
type DayRow = Omit<DayUse, 'hours'> & { keyId: string; hours: string }
type Day = Contents['days']

const placeOf = ({ keyId, day }: Pick<Day, 'keyId' | 'day'>): string => `${day} ${keyId}`

/** The days of table `days`, each with what is not there yet, then those that are not there at all. */
function* mergedDays(rows: Iterable<DayRow>, unmoved: readonly Day[]): Generator<Day> {
  const rest = new Map(unmoved.map(day => [placeOf(day), day]))
  for (const { hours, ...row } of rows) {
    const moved = { ...row, hours: JSON.parse(hours) as number[] } // as `days.ts` writes them
    const more = rest.get(placeOf(row))
    rest.delete(placeOf(row))
    yield more === undefined ? moved : { keyId: row.keyId, ...addDays(moved, more) }
  }
  yield* rest.values()
}

/** The last admission of each id that has one, as the latest that any of these know. */
function lastSeen(known: Iterable<readonly [id: string, ms: number]>): Contents['seen'][] {
  const latest = new Map<string, number>()
  for (const [id, ms] of known) latest.set(id, Math.max(latest.get(id) ?? 0, ms))
  return [...latest].flatMap(([keyId, lastSeenMs]) =>
    lastSeenMs === 0 ? [] : [{ keyId, lastSeenMs }],
  )
}

/** The use of the keys of an open database; it is read once, when it is first needed. */
function createUse(db: Database) {
  const admissions = createAdmissionLog(db)
  const ids = db.prepare<{ id: string }, []>('select id from keys')
  const seen = db.prepare<{ id: string; ms: number }, []>(
    'select id, last_seen as ms from keys where last_seen is not null',
  )
  const idsOfKeys = () => new Set(ids.all().map(({ id }) => id))
  const usages = function* (): Generator<readonly (Subject & Usage)[]> {
    for (const some of admissions.subjects()) {
      yield some.map(({ kind, id, admissions: at, day, requests, latestMs }) => ({
        ...{ kind, id, admissions: [...at], day, requests, latestMs },
      }))
    }
  }
  return {
    usages,
    /** Days that are not in table `days`; those of keys that were removed are left out. */
    days(): Day[] {
      const keyIds = idsOfKeys().add(DEMO_KEY)
      const known = admissions.readHistory().filter(({ id }) => keyIds.has(id))
      return known.flatMap(({ id, days }) => days.map(day => ({ keyId: id, ...day })))
    },
    seen(): Contents['seen'][] {
      const keyIds = idsOfKeys()
      const ofSubjects = [...usages()].flat().filter(({ kind }) => kind === 'key')
      const known = [
        ...seen.all().map(({ id, ms }) => [id, ms] as const),
        ...admissions.readHistory().map(({ id, lastMs }) => [id, lastMs] as const),
        ...ofSubjects.map(({ id, latestMs }) => [id, latestMs] as const),
      ]
      return lastSeen(known.filter(([id]) => keyIds.has(id)))
    },
    catchUp: admissions.catchUp,
  }
}

/** Reads an open database; everything within one transaction of the caller. */
export function createAccessReader(db: Database): Pick<Reader, AccessPart> {
  const use = createUse(db)
  const caughtUp = <T>(read: () => T): T => {
    use.catchUp()
    return read()
  }
  const networks = db.prepare<NetworkRow, []>(
    `select subject_kind as kind, subject_id as id, network_set as "set", day,
       json_group_array(network) as "all"
     from networks where subject_kind <> 'probe'
     group by subject_kind, subject_id, network_set, day`,
  )
  const days = db.prepare<DayRow, []>(
    'select key_id as keyId, day, requests, records, refused, hours from days',
  )
  return {
    plans: () => pagesOf(createPlanStore(db).list()),
    keys: () => pagesOf(readStoredKeys(db)),
    seen: () => caughtUp(() => pagesOf(use.seen())),
    usage: () => caughtUp(use.usages),
    *networks() {
      for (const page of pagesOf(networks.iterate())) {
        yield page.map(({ kind, id, set, day, all }) => ({
          ...{ subject: { kind, id }, set, day },
          networks: JSON.parse(all) as string[], // as the select makes it
        }))
      }
    },
    days: () => caughtUp(() => pagesOf(mergedDays(days.iterate(), use.days()))),
  }
}

/** Writes into an open database without any rows; `finish` writes what was collected. */
export function createAccessWriter(db: Database): Pick<Writer, AccessPart> & { finish(): void } {
  const plans = createPlanStore(db)
  const write = createKeyWriter(db)
  const used: (Subject & Usage)[] = []
  let demoMs = 0
  const see = db.prepare<never, [number, string]>('update keys set last_seen = ? where id = ?')
  const network = db.prepare(
    `insert into networks (subject_kind, subject_id, network_set, day, network)
     values (?, ?, ?, ?, ?)`,
  )
  const day = db.prepare(
    `insert into days (day, key_id, requests, records, refused, hours) values (?, ?, ?, ?, ?, ?)`,
  )
  return {
    plans: page => page.forEach(plans.set),
    keys: page => page.forEach(write),
    seen(page) {
      for (const { keyId, lastSeenMs } of page) see.run(lastSeenMs, keyId)
    },
    usage(page) {
      for (const usage of page) {
        used.push(usage)
        if (usage.kind === 'demo') demoMs = Math.max(demoMs, usage.latestMs)
      }
    },
    networks(page) {
      for (const { subject, set, day: of, networks } of page) {
        for (const name of networks) network.run(subject.kind, subject.id, set, of, name)
      }
    },
    days(page) {
      for (const { keyId, day: of, requests, records, refused, hours } of page) {
        day.run(of, keyId, requests, records, refused, JSON.stringify(hours))
      }
    },
    finish: () => writeSnapshot(db, used, demoMs),
  }
}
