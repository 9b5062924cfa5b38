/**
 * The use of keys by hour and by day in PostgreSQL. It comes from three places: the buffer of this
 * process, table `days`, and the current hours in table `usage`.
 */
import {
  createUseBuffer,
  type DayUse,
  dayOf,
  type KeyUse,
  mergeDays,
  type PendingUse,
  unusedDay,
} from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import { UnknownOutcome } from '../../lib/errors.ts'
import { createListBatch } from '../../lib/turn-batch.ts'
import { columnsOf } from '../arrays.ts'
import type { Query } from '../connection.ts'

/** A row of `HISTORY`. `days` and `hours` are JSON; hours are counted from 1970. */
type UseRow = { seen: number | null; days: string | null; hours: string | null }

/** The rows of a key, or of all client addresses of demo; both use the primary key. */
const rowsOf = (columns: string): string =>
  `(select ${columns} from proxylist.usage u
      where u.kind = 'key' and u.id = i.id collate "C" and i.id <> '${DEMO_KEY}'
    union all
    select ${columns} from proxylist.usage u where u.kind = 'demo' and i.id = '${DEMO_KEY}')`

/** Looks up each day of each key: a range of days would read the rows of all keys. */
const HISTORY = `
  select nullif(greatest(
      (select k.last_seen from proxylist.keys k where k.id = i.id collate "C"),
      (select max(u.latest) from ${rowsOf('u.latest')} u)), 0)::float8 as seen,
    (select json_agg(json_build_object('day', d.day, 'requests', d.requests, 'records', d.records,
        'refused', d.refused, 'hours', d.hours) order by d.day)::text
     from generate_series(i.from_day, i.to_day) of_day
     cross join lateral (
       select * from proxylist.days d where d.day = of_day and d.key_id = i.id collate "C" offset 0
     ) d) as days,
    (select json_agg(json_build_array(o.hour, o.requests))::text
     from (
       select h.hour, sum(h.requests)::integer as requests
       from ${rowsOf('u.hour, u.hour_requests, u.hours')} u
       cross join lateral (
         select u.hour, u.hour_requests as requests
         union all
         select u.hour / 24 * 24 + n.ordinal::integer - 1, n.requests
         from unnest(u.hours) with ordinality n (requests, ordinal)
       ) h
       where u.hour / 24 between i.from_day and i.to_day and h.requests <> 0
       group by 1
     ) o) as hours
  from unnest($1::text[], $2::int[], $3::int[]) with ordinality i (id, from_day, to_day, ordinal)
  order by i.ordinal`

/** Keys per statement: reading more at once could exceed the timeout of a statement. */
export const KEYS_MAX = 5_000

const daysOfHours = (byHour: readonly (readonly [hour: number, requests: number])[]): DayUse[] =>
  byHour.map(([hour, requests]) => ({
    ...{ ...unusedDay(Math.floor(hour / 24)), requests },
    hours: [...new Array<number>(hour % 24).fill(0), requests],
  }))

export function createKeyUse(query: Query) {
  const buffer = createUseBuffer()
  /** Use that running flushes have taken: `history` includes it. */
  const writing = new Set<PendingUse>()

  const rowsOfKeys = createListBatch<{ id: string; fromDay: number; toDay: number }, UseRow>(
    (asked, waited) => query<UseRow>(HISTORY, columnsOf(asked, 'id', 'fromDay', 'toDay'), waited()),
  )

  async function historyOf(
    ids: readonly string[],
    fromDay: number,
    toDay: number,
  ): Promise<KeyUse[]> {
    const pending = ids.map(id => buffer.daysOf(id, writing))
    const rows = await rowsOfKeys(ids.map(id => ({ id, fromDay, toDay })))
    return rows.map(({ seen, days, hours }, i): KeyUse => {
      const recent = (pending[i] ?? []).filter(({ day }) => day >= fromDay && day <= toDay)
      const older: DayUse[] = JSON.parse(days ?? '[]')
      const newer = [...daysOfHours(JSON.parse(hours ?? '[]')), ...recent]
      return { lastSeenMs: seen, days: mergeDays(older, newer) }
    })
  }

  return {
    note: buffer.note,

    /** Writes buffered use. If the outcome of the write is unknown, it is not repeated. */
    async flush(): Promise<void> {
      const taken = buffer.take()
      if (taken.length === 0) return
      for (const use of taken) writing.add(use)
      try {
        await query(
          `select proxylist.add_days($1::int[], $2::text[], $3::bigint[], $4::bigint[],
             array_fill('{}'::text, array[cardinality($1::int[])]))`,
          columnsOf(
            taken.map(use => ({ ...dayOf(use), id: use.id })),
            ...(['day', 'id', 'records', 'refused'] as const),
          ),
        )
      } catch (failure) {
        if (!(failure instanceof UnknownOutcome)) buffer.putBack(taken)
        throw failure
      } finally {
        for (const use of taken) writing.delete(use)
      }
    },

    async history(ids: readonly string[], fromDay: number, toDay: number): Promise<KeyUse[]> {
      const uses: KeyUse[] = []
      while (uses.length < ids.length) {
        const next = ids.slice(uses.length, uses.length + KEYS_MAX)
        uses.push(...(await historyOf(next, fromDay, toDay)))
      }
      return uses
    },
  }
}
