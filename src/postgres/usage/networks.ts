/**
 * The daily quotas of networks in PostgreSQL: one call for a batch of answers. The decisions are those of
 * `network-quota.ts`.
 */
import {
  type Addition,
  type Consumption,
  decide,
  type NetworkCounts,
  type NetworkDecision,
  SETS,
} from '../../access/network-quota.ts'
import { type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { stopwatch } from '../../lib/clock.ts'
import { utcDay } from '../../lib/time.ts'
import { createListBatch, type Waited } from '../../lib/turn-batch.ts'
import { arrayLiteral, columnsOf, endsOf, limitOf } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { byKey } from './admissions.ts'
import { nameOf } from './refusals.ts'

const CONSUME = `select proxylist.consume($1::text[], $2::text[], $3::int[], $4::text[], $5::int[],
  $6::bigint[], $7::text[], $8::int[]) as numbers`

const COUNT = `
  select (count(*) filter (where n.network_set = 'served'))::int as served,
    (count(*) filter (where n.network_set = 'callers'))::int as callers
  from unnest($1::text[], $2::text[], $3::int[]) with ordinality s (kind, id, day, ordinal)
  left join proxylist.networks n
    on n.kind = s.kind collate "C" and n.id = s.id collate "C" and n.day = s.day
  group by s.ordinal order by s.ordinal`

const additionsOf = ({ subject, quotas, networks, atMs }: Consumption) =>
  SETS.flatMap(set => {
    const quota = quotas[set]
    if (quota === null) return []
    return [{ subject, set, day: utcDay(atMs), quota, networks: [...new Set(networks[set])] }]
  })

/** The networks over a connection; `usageOf` reads the usage of a subject. */
export function createNetworks(query: Query, usageOf: (subject: Subject) => Promise<Usage>) {
  return {
    async consume(
      batch: readonly Consumption[],
      waited: Waited = stopwatch(),
    ): Promise<readonly NetworkDecision[]> {
      const answers = batch.map(additionsOf)
      const all = answers.flat()
      const byName = new Map(all.map(({ subject }) => [nameOf(subject), subject]))
      const subjects = [...byName.values()].sort(byKey)
      const ordinals = new Map(subjects.map((subject, i) => [nameOf(subject), i + 1]))
      const rows = all.map(({ subject, set, day, quota, networks }) => ({
        ...{ ordinal: ordinals.get(nameOf(subject)) ?? null, set, day },
        ...{ quota: limitOf(quota), networks: arrayLiteral(networks) },
      }))
      const parameters = [
        ...columnsOf(subjects, 'kind', 'id'),
        ...columnsOf(rows, 'ordinal', 'set', 'day', 'quota', 'networks'),
        endsOf(answers),
      ]
      const [row] = await query<{ numbers: string }>(CONSUME, parameters, waited())
      const [nowMs = 0, ...numbers]: number[] = JSON.parse(`[${row?.numbers ?? ''}]`)
      const decisions: NetworkDecision[] = []
      for (const [i, answer] of answers.entries()) {
        const consumption = batch[i]
        if (consumption === undefined) break
        const additions = answer.map(({ set, quota }): Addition => {
          const [used = 0, added = 0] = numbers.splice(0, 2)
          return { set, quota, used, added }
        })
        const isOver = additions.some(({ quota, used, added }) => used + added > quota)
        // A retry has to pass the window, too.
        const usage = isOver ? await usageOf(consumption.rule.subject) : UNUSED
        decisions.push(decide({ ...consumption, nowMs }, additions, () => usage))
      }
      return decisions
    },

    count: createListBatch<{ subject: Subject; day: number }, NetworkCounts>((batch, waited) => {
      const rows = batch.map(({ subject, day }) => ({ ...subject, day }))
      return query<NetworkCounts>(COUNT, columnsOf(rows, 'kind', 'id', 'day'), waited())
    }),
  }
}
