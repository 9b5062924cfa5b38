/** The use of keys by hour and by day in PostgreSQL: table `days`, and the use that this process has not written yet. */
import {
  createUseBuffer,
  type DayUse,
  dayOf,
  type KeyUse,
  mergeDays,
} from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import type { Admitted } from '../../access/rate-limit.ts'
import { UnknownOutcome } from '../../lib/errors.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Query } from '../connection.ts'

const ADD = `
  insert into proxylist.days as d (day, key_id, requests, records, refused, hours)
  select day, id, requests, records, refused, hours
  from json_to_recordset($1::text::json)
    as r (day integer, id text, requests integer, records bigint, refused bigint, hours integer[])
  where id = '${DEMO_KEY}' or exists (select from proxylist.keys k where k.id = r.id collate "C")
  order by day, id collate "C"
  on conflict (day, key_id) do update set requests = d.requests + excluded.requests,
    records = d.records + excluded.records, refused = d.refused + excluded.refused,
    hours = array(
      select coalesce(d.hours[i], 0) + coalesce(excluded.hours[i], 0)
      from generate_series(1, greatest(cardinality(d.hours), cardinality(excluded.hours))) i)`

type UseRow = { seen: number | null; days: string }

/** Looks up each day of each key: a range of days would read the rows of all keys. */
const HISTORY = `
  select nullif(greatest(
      (select k.last_seen from proxylist.keys k where k.id = i.id collate "C"),
      case when i.id = '${DEMO_KEY}'
        then (select max(u.latest) from proxylist.usage u where u.kind = 'demo')
        else (select u.latest from proxylist.usage u where u.kind = 'key' and u.id = i.id collate "C")
      end), 0)::float8 as seen,
    (select coalesce(json_agg(json_build_object('day', d.day, 'requests', d.requests,
        'records', d.records, 'refused', d.refused, 'hours', d.hours) order by d.day), '[]')::text
     from generate_series($2::int, $3::int) of_day
     cross join lateral (
       select * from proxylist.days d where d.day = of_day and d.key_id = i.id collate "C" offset 0
     ) d) as days
  from unnest($1::text[]) with ordinality i (id, ordinal)
  order by i.ordinal`

/** Keys per statement: reading more at once could exceed the timeout of a statement. */
export const KEYS_MAX = 5_000

export function createKeyUse(query: Query) {
  const buffer = createUseBuffer()

  return {
    note: buffer.note,

    /** Counts a request that was admitted (1) or refunded (-1), in memory. */
    count({ rules, instants }: Admitted, n: 1 | -1): void {
      for (const [i, { subject }] of rules.entries()) {
        const atMs = instants[i]
        if (subject.kind === 'temp' || atMs === undefined) continue // its key is another subject
        buffer.addRequests(subject.kind === 'demo' ? DEMO_KEY : subject.id, atMs, n)
      }
    },

    /** Writes buffered use. If the outcome of the write is unknown, it is not repeated. */
    async flush(): Promise<void> {
      const taken = buffer.take()
      if (taken.length === 0) return
      try {
        const days = Map.groupBy(taken, ({ id }) => id)
          .entries()
          .flatMap(([id, uses]) => mergeDays(uses.map(dayOf), []).map(use => ({ ...use, id })))
        await query(ADD, [JSON.stringify([...days])])
      } catch (failure) {
        if (!(failure instanceof UnknownOutcome)) buffer.putBack(taken)
        throw failure
      }
    },

    async history(ids: readonly string[], fromDay: number, toDay: number): Promise<KeyUse[]> {
      const uses: KeyUse[] = []
      while (uses.length < ids.length) {
        const some = ids.slice(uses.length, uses.length + KEYS_MAX)
        const pending = some.map(id => buffer.daysOf(id))
        const rows = await query<UseRow>(HISTORY, [arrayLiteral(some), fromDay, toDay])
        for (const [i, { seen, days }] of rows.entries()) {
          const recent = (pending[i] ?? []).filter(({ day }) => day >= fromDay && day <= toDay)
          const written: DayUse[] = JSON.parse(days)
          uses.push({ lastSeenMs: seen, days: mergeDays(written, recent) })
        }
      }
      return uses
    },
  }
}
