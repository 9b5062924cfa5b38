/** The daily quotas of networks in PostgreSQL: one call for a batch of answers, decided as by `network-quota.ts`. */
import {
  type Consumption,
  decide,
  type NetworkCounts,
  type NetworkDecision,
  SETS,
} from '../../access/network-quota.ts'
import { type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { StoreError } from '../../lib/errors.ts'
import { utcDay } from '../../lib/time.ts'
import { columnsOf } from '../arrays.ts'
import type { Query } from '../connection.ts'

/** Answers lock rows in the order of the primary key, and answers of one subject in order of arrival. */
const CONSUME = `
  select n, proxylist.now_ms()::float8 as "nowMs", proxylist.consume(kind, id, additions)::text as counts
  from (
    select * from json_to_recordset($1::text::json) as r (n integer, kind text, id text, additions json)
    order by kind collate "C", id collate "C", n offset 0
  ) answers`
type Counts = { n: number; nowMs: number; counts: string }

const COUNT = `
  select (count(*) filter (where n.network_set = 'served'))::int as served,
    (count(*) filter (where n.network_set = 'callers'))::int as callers
  from unnest($1::text[], $2::text[], $3::int[]) with ordinality s (kind, id, day, ordinal)
  left join proxylist.networks n
    on n.kind = s.kind collate "C" and n.id = s.id collate "C" and n.day = s.day
  group by s.ordinal order by s.ordinal`

const additionsOf = ({ quotas, networks, atMs }: Consumption) =>
  SETS.flatMap(set => {
    const quota = quotas[set]
    if (quota === null) return []
    return [{ set, day: utcDay(atMs), quota, networks: [...new Set(networks[set])] }]
  })

/** The networks over a connection; `usageOf` reads the usage of a subject. */
export const createNetworks = (query: Query, usageOf: (subject: Subject) => Promise<Usage>) => ({
  async consume(batch: readonly Consumption[]): Promise<readonly NetworkDecision[]> {
    const answers = batch.map(({ subject, ...answer }, n) => ({
      ...{ n, ...subject, additions: additionsOf({ subject, ...answer }) },
    }))
    const rows = await query<Counts>(CONSUME, [JSON.stringify(answers)])
    const byNumber = new Map(rows.map(row => [row.n, row]))
    const deciding = batch.map(async (consumption, n) => {
      const row = byNumber.get(n)
      if (row === undefined) throw new StoreError('the database returned no row')
      const counts: [used: number, added: number][] = JSON.parse(row.counts)
      const additions = additionsOf(consumption).map((addition, i) => {
        const [used, added] = counts[i] ?? [0, 0]
        return { ...addition, used, added }
      })
      const isOver = additions.some(({ quota, used, added }) => used + added > quota)
      // A retry has to pass the window, too.
      const usage = isOver ? await usageOf(consumption.rule.subject) : UNUSED
      return decide({ ...consumption, nowMs: row.nowMs }, additions, () => usage)
    })
    return Promise.all(deciding)
  },

  countNetworks(batch: readonly { subject: Subject; day: number }[]): Promise<NetworkCounts[]> {
    const rows = batch.map(({ subject, day }) => ({ ...subject, day }))
    return query<NetworkCounts>(COUNT, columnsOf(rows, 'kind', 'id', 'day'))
  },
})
