/** Owns reading what subjects have used from PostgreSQL; counts nothing. */

import type { Used } from '../../access/ports.ts'
import { type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { createTurnBatch } from '../../lib/turn-batch.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { nameOf } from './known.ts'

/** Usage of subjects as JSON, by one statement. */
type UsageRow = { now_ms: number; found: string | null }
type FoundUsage = { at: number[]; latest: number; day: number; requests: number } | null

const PEEK = `
  select proxylist.now_ms()::float8 as now_ms, (
    select json_agg(case when u.kind is not null then json_build_object('at', u.at,
        'latest', u.latest, 'day', u.day, 'requests', u.requests) end order by s.place)::text
    from unnest($1::text[], $2::text[]) with ordinality s (kind, id, place)
    left join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
  ) as found`

const toUsage = (found: FoundUsage): Usage =>
  found === null
    ? UNUSED
    : {
        ...{ admissions: found.at, latestMs: found.latest },
        ...{ day: found.day, requests: found.requests },
      }

/** What subjects have used, and the time by the database's clock. */
export async function peek(query: Query, batch: readonly Subject[], waitedMs = 0): Promise<Used> {
  const parameters = [
    arrayLiteral(batch.map(({ kind }) => kind)),
    arrayLiteral(batch.map(({ id }) => id)),
  ]
  const [row] = await query<UsageRow>(PEEK, parameters, waitedMs)
  const found: FoundUsage[] = JSON.parse(row?.found ?? '[]')
  return { usages: found.map(toUsage), nowMs: row?.now_ms ?? 0 }
}

/** The same for all calls of a turn together; each subject is read once. */
export function createPeek(query: Query): (batch: readonly Subject[]) => Promise<Used> {
  const inBatch = createTurnBatch<readonly Subject[], Used>(async (calls, waited) => {
    const byName = new Map(calls.flat().map(subject => [nameOf(subject), subject]))
    const { usages, nowMs } = await peek(query, [...byName.values()], waited?.())
    const found = new Map([...byName.keys()].map((name, i) => [name, usages[i] ?? UNUSED]))
    return calls.map(subjects => ({
      usages: subjects.map(subject => found.get(nameOf(subject)) ?? UNUSED),
      nowMs,
    }))
  })
  return batch => inBatch(batch)
}

/** How many keys have sent requests on a UTC day or later. */
export async function countUsed(query: Query, day: number): Promise<number> {
  const [row] = await query<{ n: number }>(
    `select count(*)::int as n from proxylist.usage
     where kind = 'key' and day >= $1 and requests > 0`,
    [day],
  )
  return row?.n ?? 0
}

/** Subjects with an admission that lies after `timeMs`. */
export const after = (query: Query, timeMs: number): Promise<Subject[]> =>
  query<Subject>(
    'select kind, id from proxylist.usage where latest > $1::bigint order by kind, id',
    [String(timeMs)],
  )
