/**
 * The use of keys in SQLite, from three places: what answers added and is not written yet, the log of
 * admissions (`history.ts`), and table `days`, to which it moves days that are over.
 */
import type { Database } from 'bun:sqlite'
import {
  type AnswerUse,
  addDays,
  type DayUse,
  HISTORY_DAYS,
  type KeyUse,
  mergeDays,
  unusedDay,
} from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import { utcDay } from '../../lib/time.ts'
import type { createAdmissionLog } from './admission-log.ts'
import type { UseEntry } from './history.ts'
import type { Noted } from './subjects.ts'

/** Days of keys that are removed at a time: requests wait for it. */
const REMOVE_SLICE = 1_000
/** The newest days with use, which are kept however old they are; today's use is not here yet. */
const KEPT_DAYS = HISTORY_DAYS - 1

type DayRow = Omit<DayUse, 'hours'> & { id: string; hours: string }

const toDayUse = ({ day, requests, records, refused, hours }: DayRow): DayUse => ({
  ...{ day, requests, records, refused },
  hours: JSON.parse(hours) as number[], // written below
})

/** The days of an open database. */
function createDayTable(db: Database) {
  const select = db.prepare<DayRow, [days: string, ids: string]>(
    `select key_id as id, day, requests, records, refused, hours from days
     where day in (select value from json_each(?)) and key_id in (select value from json_each(?))
     order by day`,
  )
  const write = db.prepare<never, [number, string, number, number, number, string]>(
    `insert or replace into days (day, key_id, requests, records, refused, hours)
     values (?, ?, ?, ?, ?, ?)`,
  )
  const remove = db.prepare<never, [day: number, most: number]>(
    `delete from days where (day, key_id) in
       (select day, key_id from days where day < ? limit ?)`,
  )
  // A seek for each day: `distinct` reads the rows of all keys.
  const selectOldestKept = db.prepare<{ day: number | null }, [days: number]>(
    `with recursive newest (day, nth) as (
       select max(day), 1 from days
       union all
       select (select max(day) from days where day < newest.day), nth + 1 from newest
       where day is not null and nth < ?
     )
     select min(day) as day from newest`,
  )
  const see = db.prepare<never, { id: string; ms: number }>(
    'update keys set last_seen = max(coalesce(last_seen, 0), $ms) where id = $id',
  )
  const selectSeen = db.prepare<{ id: string; ms: number }, [ids: string]>(
    `select id, last_seen as ms from keys
     where id in (select value from json_each(?)) and last_seen is not null`,
  )
  const find = db.prepare<{ id: string }, [string]>('select id from keys where id = ?')

  /** The days of keys, from one day to another, by key. */
  function read(ids: readonly string[], fromDay: number, toDay: number): Map<string, DayUse[]> {
    const wanted = Array.from({ length: toDay - fromDay + 1 }, (_, i) => fromDay + i)
    const rows = select.all(JSON.stringify(wanted), JSON.stringify(ids))
    return new Map(
      Array.from(
        Map.groupBy(rows, ({ id }) => id),
        ([id, days]) => [id, days.map(toDayUse)],
      ),
    )
  }

  return {
    read,

    /** The last admissions that are known here, by key. */
    lastSeen: (ids: readonly string[]): Map<string, number> =>
      new Map(selectSeen.all(JSON.stringify(ids)).map(({ id, ms }) => [id, ms])),

    /** Adds to what is known of a day of a key; a key that was removed is left out. */
    add(id: string, use: DayUse, lastMs: number): void {
      if (id !== DEMO_KEY && find.get(id) === null) return
      const [known] = read([id], use.day, use.day).get(id) ?? []
      const { day, requests, records, refused, hours } = known ? addDays(known, use) : use
      write.run(day, id, requests, records, refused, JSON.stringify(hours))
      see.run({ id, ms: lastMs })
    },

    /**
     * Removes a slice of the days before `day`, but none of the newest `KEPT_DAYS`: requests while the
     * clock was ahead are one more day with use, not 90. Returns whether more may remain.
     */
    removeBefore(day: number): boolean {
      const oldestKept = selectOldestKept.get(KEPT_DAYS)?.day ?? day
      return remove.run(Math.min(day, oldestKept), REMOVE_SLICE).changes === REMOVE_SLICE
    },
  }
}

/** Keys whose days are moved at a time: requests wait for it. */
const MOVE_SLICE = 200

/**
 * Keys that a flush of some writes at least, and of how many such flushes one writes its part: writing
 * all of thousands of keys every second would make requests wait, and the log long.
 */
const FLUSH_MIN = 100
const FLUSH_CALLS = 30

/**
 * What answers added to the use of keys and is not written yet. It is counted with the subject of a
 * key, which `subjectOf` finds, so that it costs no look-up of its own.
 */
function createNotes(subjectOf: (id: string) => Noted | null) {
  /** Those that count something, by key, the one that was noted first at the start. */
  const pending = new Map<string, Noted>()
  /** What was counted with an object that no longer counts: on an earlier day, or before a reload. */
  let earlier: Noted[] = []
  /** Of those that are no subject, such as `demo`. */
  const others = new Map<string, Noted>()

  function notedOf(id: string): Noted {
    const known = subjectOf(id) ?? others.get(id)
    if (known) return known
    const added = { id, records: 0, refused: 0, notedMs: 0 }
    others.set(id, added)
    return added
  }

  function setAside(noted: Noted): void {
    earlier.push(countsOf(noted))
    clear(noted)
  }

  /** Adds one that has counted nothing so far. */
  function addPending(noted: Noted): void {
    const known = pending.get(noted.id)
    if (known !== undefined) {
      setAside(known)
      others.delete(noted.id)
    }
    pending.set(noted.id, noted)
  }

  const first = (most: number): Noted[] => {
    const some = earlier.slice(0, most)
    return [...some, ...pending.values().take(most - some.length)]
  }

  return {
    add({ keyId, records, refused, nowMs }: AnswerUse): void {
      if (records + refused === 0) return
      const noted = notedOf(keyId)
      if (isEmpty(noted)) addPending(noted)
      else if (utcDay(noted.notedMs) !== utcDay(nowMs)) setAside(noted)
      noted.records += records
      noted.refused += refused
      noted.notedMs = nowMs
    },
    count: (): number => earlier.length + pending.size,
    entries: (most: number): UseEntry[] =>
      first(most).map(({ id, notedMs, records, refused }) => [
        ...(['use', id, notedMs, records, refused] as const),
      ]),
    /** Forgets the first ones, whose entries are written. */
    forget(most: number): void {
      const written = first(most)
      const ofEarlier = Math.min(most, earlier.length)
      for (const noted of written.slice(ofEarlier)) {
        clear(noted)
        others.delete(noted.id)
        pending.delete(noted.id)
      }
      earlier = earlier.slice(ofEarlier)
    },
    /** The days of a key that are not written. */
    daysOf: (id: string): DayUse[] => {
      const known = pending.get(id)
      const its = earlier.filter(noted => noted.id === id)
      return [...its, ...(known === undefined ? [] : [known])].map(
        ({ records, refused, notedMs }) => ({ ...unusedDay(utcDay(notedMs)), records, refused }),
      )
    },
  }
}

const isEmpty = ({ records, refused }: Noted): boolean => records === 0 && refused === 0
const countsOf = ({ id, records, refused, notedMs }: Noted): Noted => ({
  ...{ id, records, refused, notedMs },
})
function clear(noted: Noted): void {
  noted.records = 0
  noted.refused = 0
}

/** The use of the keys of an open database, with the log of its admissions. */
export function createKeyUse(db: Database, admissions: ReturnType<typeof createAdmissionLog>) {
  const days = createDayTable(db)
  const noted = createNotes(admissions.subjectOf)

  const history = db.transaction((ids: readonly string[], fromDay: number, toDay: number) => {
    const moved = days.read(ids, fromDay, toDay)
    const seen = days.lastSeen(ids)
    admissions.catchUp() // to the same commit: the transaction has begun to read
    return ids.map((id): KeyUse => {
      const unmoved = admissions.useOf(id)
      const recent = [...(unmoved?.days ?? []), ...noted.daysOf(id)]
      const inRange = recent.filter(({ day }) => day >= fromDay && day <= toDay)
      const lastSeenMs = Math.max(seen.get(id) ?? 0, unmoved?.lastMs ?? 0)
      return { lastSeenMs: lastSeenMs || null, days: mergeDays(moved.get(id) ?? [], inRange) }
    })
  })

  return {
    note: noted.add,

    /** Writes what was noted of `keys`, in a transaction of its own. */
    flush(keys: 'some' | 'all', inTransaction: (work: () => void) => void): void {
      const count = noted.count()
      if (count === 0) return
      const most = keys === 'all' ? count : Math.max(FLUSH_MIN, Math.ceil(count / FLUSH_CALLS))
      inTransaction(() => noted.entries(most).forEach(admissions.append))
      noted.forget(most)
    },

    history: (ids: readonly string[], fromDay: number, toDay: number): KeyUse[] =>
      history(ids, fromDay, toDay),

    /** Moves a slice of the days before that of `timeMs`; returns whether more may remain. */
    moveDays(timeMs: number): boolean {
      const { found, mayRemain } = admissions.unmoved(utcDay(timeMs), MOVE_SLICE)
      for (const { id, lastMs, days: over } of found) {
        for (const use of over) {
          days.add(id, use, lastMs)
          admissions.append(['moved', id, timeMs, use.day])
        }
      }
      return mayRemain
    },

    removeBefore: days.removeBefore,
  }
}
