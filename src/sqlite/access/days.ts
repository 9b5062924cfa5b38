/**
 * Owns table `days`: the use of keys on days that are over. Days that are not, and those that were
 * not moved here yet, are in `history.ts`.
 */
import type { Database } from 'bun:sqlite'
import { addDays, type DayUse, HISTORY_DAYS } from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'

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
export function createDayTable(db: Database) {
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
    const byKey = new Map<string, DayUse[]>()
    for (const row of select.all(JSON.stringify(wanted), JSON.stringify(ids))) {
      const days = byKey.get(row.id) ?? []
      days.push(toDayUse(row))
      byKey.set(row.id, days)
    }
    return byKey
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
