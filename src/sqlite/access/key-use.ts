/**
 * The use of keys in SQLite, from three places: what answers added and is not written yet, the log of
 * admissions (`history.ts`), and table `days`, to which it moves days that are over.
 */
import type { Database } from 'bun:sqlite'
import {
  addDays,
  createNotes,
  type DayUse,
  HISTORY_DAYS,
  type KeyUse,
  mergeDays,
} from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import { utcDay } from '../../lib/time.ts'
import type { createAdmissionLog } from './admission-log.ts'

/** Days of keys that are removed at a time: requests wait for it. */
const REMOVE_SLICE = 1_000
/** The newest days with use, which are kept however old they are; today's use is not here yet. */
const KEPT_DAYS = HISTORY_DAYS - 1

export type DayRow = Omit<DayUse, 'hours'> & { id: string; hours: string }

export const toDayUse = ({ day, requests, records, refused, hours }: DayRow): DayUse => ({
  ...{ day, requests, records, refused },
  hours: JSON.parse(hours) as number[], // written below
})

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

export function createKeyUse(db: Database, admissions: ReturnType<typeof createAdmissionLog>) {
  const days = createDayTable(db)
  const notes = createNotes()

  const history = db.transaction((ids: readonly string[], fromDay: number, toDay: number) => {
    const moved = days.read(ids, fromDay, toDay)
    const seen = days.lastSeen(ids)
    admissions.catchUp() // to the same commit: the transaction has begun to read
    return ids.map((id): KeyUse => {
      const unmoved = admissions.useOf(id)
      const recent = [...(unmoved?.days ?? []), ...notes.daysOf(id)]
      const inRange = recent.filter(({ day }) => day >= fromDay && day <= toDay)
      const lastSeenMs = Math.max(seen.get(id) ?? 0, unmoved?.lastMs ?? 0)
      return { lastSeenMs: lastSeenMs || null, days: mergeDays(moved.get(id) ?? [], inRange) }
    })
  })

  return {
    note: notes.note,

    /** Writes what was noted of `keys`, in a transaction of its own. */
    flush(keys: 'some' | 'all', inTransaction: (work: () => void) => void): void {
      const taken = notes.take(keys)
      if (taken.length === 0) return
      try {
        inTransaction(() => {
          for (const { id, atMs, records, refused } of taken) {
            admissions.append(['use', id, atMs, records, refused])
          }
        })
      } catch (error) {
        notes.putBack(taken)
        throw error
      }
    },

    history,

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
