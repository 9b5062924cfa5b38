/**
 * Owns the use of keys by hour and by day in PostgreSQL: what answers added and is not written yet,
 * table `days`, and the hours that table `usage` still has.
 */
import {
  type AnswerUse,
  type DayUse,
  type KeyUse,
  mergeDays,
  unusedDay,
} from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import { utcDay } from '../../lib/time.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { UnknownOutcome } from '../errors.ts'

/** Keys that a flush of some writes at least, and of how many such flushes one writes its part. */
const FLUSH_MIN = 100
const FLUSH_CALLS = 30

/** What answers added to a day of a key. */
type Noted = { readonly id: string; readonly day: number; records: number; refused: number }

/** A row of the statement below; times are float8, days JSON. */
type UseRow = { seen: number | null; days: string | null; unmoved: string | null }

const HISTORY = `
  select nullif(greatest(
      (select k.last_seen from proxylist.keys k where k.id = i.id collate "C"),
      (select max(u.latest) from proxylist.usage u
       where case when i.id = '${DEMO_KEY}' then u.kind = 'demo'
         else u.kind = 'key' and u.id = i.id collate "C" end)), 0)::float8 as seen,
    (select json_agg(json_build_object('day', d.day, 'requests', d.requests, 'records', d.records,
        'refused', d.refused, 'hours', d.hours) order by d.day)::text
     from proxylist.days d where d.key_id = i.id collate "C" and d.day between $2 and $3) as days,
    (select json_agg(json_build_object('day', o.day, 'requests', proxylist.total(o.hours),
        'records', 0, 'refused', 0, 'hours', o.hours))::text
     from (
       select u.hour / 24 as day, proxylist.sum_hours(
         proxylist.add_hours(u.hours, proxylist.one_hour(u.hour, u.hour_requests))) as hours
       from proxylist.usage u
       where (u.hour_requests <> 0 or cardinality(u.hours) > 0) and u.hour / 24 between $2 and $3
         and case when i.id = '${DEMO_KEY}' then u.kind = 'demo'
           else u.kind = 'key' and u.id = i.id collate "C" end
       group by 1
     ) o) as unmoved
  from unnest($1::text[]) with ordinality i (id, place) order by i.place`

const daysOf = (json: string | null): DayUse[] => (json === null ? [] : JSON.parse(json))

/** What was noted in memory, by day and key; the one that was noted first at the start. */
function createNotes() {
  let pending = new Map<string, Noted>()
  const add = (day: number, id: string, records: number, refused: number): void => {
    const name = `${day} ${id}`
    const noted = pending.get(name) ?? { id, day, records: 0, refused: 0 }
    noted.records += records
    noted.refused += refused
    pending.set(name, noted)
  }
  return {
    add,
    count: (): number => pending.size,
    /** Takes the first ones out. */
    take(most: number): Noted[] {
      const taken = [...pending.values()].slice(0, most)
      for (const { day, id } of taken) pending.delete(`${day} ${id}`)
      return taken
    },
    /** Puts back what was taken, at the start. */
    putBack(taken: readonly Noted[]): void {
      const later = pending
      pending = new Map()
      for (const { day, id, records, refused } of [...taken, ...later.values()]) {
        add(day, id, records, refused)
      }
    },
    daysOf: (wanted: string): DayUse[] =>
      [...pending.values()]
        .filter(({ id }) => id === wanted)
        .map(({ day, records, refused }) => ({ ...unusedDay(day), records, refused })),
  }
}

/** The use of keys over a connection. */
export function createKeyUse(query: Query) {
  const notes = createNotes()
  /** What a flush is writing: it is seen in the history, but not written twice. */
  let writing: readonly Noted[] = []

  const writingOf = (id: string): DayUse[] =>
    writing
      .filter(noted => noted.id === id)
      .map(({ day, records, refused }) => ({ ...unusedDay(day), records, refused }))

  return {
    note({ keyId, records, refused, nowMs }: AnswerUse): void {
      if (records + refused > 0) notes.add(utcDay(nowMs), keyId, records, refused)
    },

    /** Writes what was noted; when nobody knows whether it was written, it is not written again. */
    async flush(keys: 'some' | 'all'): Promise<void> {
      const count = notes.count()
      if (count === 0) return
      const most = keys === 'all' ? count : Math.max(FLUSH_MIN, Math.ceil(count / FLUSH_CALLS))
      const taken = notes.take(most)
      writing = [...writing, ...taken]
      try {
        await query(
          `select proxylist.add_days($1::int[], $2::text[], $3::int[], $4::int[],
             array_fill('{}'::text, array[cardinality($1::int[])]))`,
          [
            arrayLiteral(taken.map(({ day }) => day)),
            arrayLiteral(taken.map(({ id }) => id)),
            arrayLiteral(taken.map(({ records }) => records)),
            arrayLiteral(taken.map(({ refused }) => refused)),
          ],
        )
      } catch (failure) {
        if (!(failure instanceof UnknownOutcome)) notes.putBack(taken)
        throw failure
      } finally {
        writing = writing.filter(noted => !taken.includes(noted))
      }
    },

    async history(ids: readonly string[], fromDay: number, toDay: number): Promise<KeyUse[]> {
      const pending = ids.map(id => [...notes.daysOf(id), ...writingOf(id)])
      const rows = await query<UseRow>(HISTORY, [arrayLiteral(ids), fromDay, toDay])
      return rows.map(({ seen, days, unmoved }, i): KeyUse => {
        const recent = (pending[i] ?? []).filter(({ day }) => day >= fromDay && day <= toDay)
        return {
          lastSeenMs: seen,
          days: mergeDays(daysOf(days), [...daysOf(unmoved), ...recent]),
        }
      })
    },
  }
}
