/**
 * The use of keys by hour and by day in SQLite: counted in memory, and added to table `days` every 30
 * seconds and when a server ends. A crash loses unwritten use; limits do not depend on it.
 */
import type { Database } from 'bun:sqlite'
import {
  addDays,
  createUseBuffer,
  type DayUse,
  dayOf,
  type KeyUse,
  mergeDays,
} from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import type { Admitted, Subject } from '../../access/rate-limit.ts'

/** Rows that `removeBefore` removes at a time, because requests wait. */
const REMOVE_MAX = 1_000

type DayRow = Omit<DayUse, 'hours'> & { id: string; hours: string }

const toDayUse = ({ day, requests, records, refused, hours }: DayRow): DayUse => ({
  ...{ day, requests, records, refused },
  hours: JSON.parse(hours) as number[], // as `write` below writes it
})

/** The key whose use a subject counts for. The key of a temporary client address has its own subject. */
const keyOf = ({ kind, id }: Subject): string | null =>
  kind === 'temp' ? null : kind === 'demo' ? DEMO_KEY : id

/** `latestOf` returns the last admission of a key that is in the log, else 0. */
export function createKeyUse(db: Database, latestOf: (id: string) => number) {
  const columns = 'key_id as id, day, requests, records, refused, hours'
  const select = db.prepare<DayRow, [days: string, ids: string]>(
    `select ${columns} from days
     where day in (select value from json_each(?)) and key_id in (select value from json_each(?))
     order by day`,
  )
  const selectOne = db.prepare<DayRow, [day: number, id: string]>(
    `select ${columns} from days where day = ? and key_id = ?`,
  )
  const write = db.prepare<never, [number, string, number, number, number, string]>(
    `insert or replace into days (day, key_id, requests, records, refused, hours)
     values (?, ?, ?, ?, ?, ?)`,
  )
  const findKey = db.prepare<{ id: string }, [string]>('select id from keys where id = ?')
  const remove = db.prepare<never, [day: number, most: number]>(
    `delete from days where (day, key_id) in
       (select day, key_id from days where day < ? limit ?)`,
  )
  const setSeen = db.prepare<never, { id: string; ms: number }>(
    'update keys set last_seen = max(coalesce(last_seen, 0), $ms) where id = $id',
  )
  const selectSeen = db.prepare<{ id: string; ms: number }, [ids: string]>(
    `select id, last_seen as ms from keys
     where id in (select value from json_each(?)) and last_seen is not null`,
  )
  const buffer = createUseBuffer()

  function addToDay(id: string, use: DayUse): void {
    const row = selectOne.get(use.day, id)
    if (row === null && id !== DEMO_KEY && findKey.get(id) === null) return
    const { day, requests, records, refused, hours } =
      row === null ? use : addDays(toDayUse(row), use)
    write.run(day, id, requests, records, refused, JSON.stringify(hours))
  }

  return {
    note: buffer.note,

    /** Counts a request that was admitted (1) or refunded (-1), in memory. */
    count({ rules, instants }: Admitted, n: 1 | -1): void {
      rules.forEach(({ subject }, i) => {
        const id = keyOf(subject)
        const atMs = instants[i]
        if (id !== null && atMs !== undefined) buffer.addRequests(id, atMs, n)
      })
    },

    flush(inTransaction: (work: () => void) => void): void {
      const taken = buffer.take()
      if (taken.length === 0) return
      try {
        inTransaction(() => {
          for (const use of taken) addToDay(use.id, dayOf(use))
        })
      } catch (error) {
        buffer.putBack(taken)
        throw error
      }
    },

    /** The use of keys, on other servers as of their last flush. */
    read(ids: readonly string[], fromDay: number, toDay: number): KeyUse[] {
      const asked = JSON.stringify(ids)
      const days = Array.from({ length: toDay - fromDay + 1 }, (_, i) => fromDay + i)
      const rows = Map.groupBy(select.all(JSON.stringify(days), asked), ({ id }) => id)
      const seen = new Map(selectSeen.all(asked).map(({ id, ms }) => [id, ms]))
      return ids.map((id): KeyUse => {
        const pending = buffer.daysOf(id).filter(({ day }) => day >= fromDay && day <= toDay)
        const lastSeenMs = Math.max(seen.get(id) ?? 0, latestOf(id))
        const written = (rows.get(id) ?? []).map(toDayUse)
        return { lastSeenMs: lastSeenMs || null, days: mergeDays(written, pending) }
      })
    },

    /** Stores the last admissions of keys that the log is about to forget. */
    keepSeen(forgotten: readonly (Subject & { latestMs: number })[]): void {
      for (const { kind, id, latestMs } of forgotten) {
        if (kind === 'key') setSeen.run({ id, ms: latestMs })
      }
    },

    removeBefore(day: number): void {
      remove.run(day, REMOVE_MAX)
    },
  }
}
