/** Owns plans in PostgreSQL. */
import { BUILT_IN_PLANS, type Plan } from '../../access/plan.ts'
import type { PlanRemoval, Registry } from '../../access/ports.ts'
import type { Query } from '../connection.ts'
import { onlyRow } from '../rows.ts'
import type { Change } from './changes.ts'

type PlanRow = Omit<Plan, 'burst'> & {
  burst_requests: number | null
  burst_seconds: number | null
}

/** The plan of a row; it has a burst limit only if both of its columns have a value. */
const toPlan = ({ burst_requests: requests, burst_seconds: seconds, ...row }: PlanRow): Plan => ({
  ...row,
  burst: requests === null || seconds === null ? null : { requests, seconds },
})

export const select = async (query: Query, name: string | null): Promise<Plan[]> => {
  const rows = await query<PlanRow>(
    `select name, burst_requests, burst_seconds, daily::float8 as daily, subnets::float8 as subnets,
       clients::float8 as clients, count::float8 as count, downloads::float8 as downloads, enabled
     from proxylist.plans where $1::text is null or name = $1 order by name`,
    [name],
  )
  return rows.map(toPlan)
}

async function upsert(query: Query, plan: Plan): Promise<void> {
  const { name, burst, daily, subnets, clients, count, downloads, enabled } = plan
  const { requests = null, seconds = null } = burst ?? {}
  await query(
    `insert into proxylist.plans (name, burst_requests, burst_seconds, daily, subnets, clients, count,
       downloads, enabled)
     values ($1, $2::int, $3::int, $4::float8, $5::float8, $6::float8, $7::float8, $8::float8, $9)
     on conflict (name) do update set burst_requests = excluded.burst_requests,
       burst_seconds = excluded.burst_seconds, daily = excluded.daily, subnets = excluded.subnets,
       clients = excluded.clients, count = excluded.count, downloads = excluded.downloads,
       enabled = excluded.enabled`,
    [name, requests, seconds, daily, subnets, clients, count, downloads, enabled],
  )
}

/** Stores the built-in plans: once, when the schema is made. None of them is ever removed. */
export async function seedPlans(query: Query): Promise<void> {
  for (const plan of BUILT_IN_PLANS) await upsert(query, plan)
}

export const createPlanStore = (query: Query, change: Change) =>
  ({
    list: (): Promise<Plan[]> => select(query, null),

    find: async (name: string): Promise<Plan | null> => (await select(query, name))[0] ?? null,

    set: (plan: Plan): Promise<void> =>
      change(async tx => ({ result: await upsert(tx, plan), isChanged: true })),

    remove: (name: string): Promise<PlanRemoval> =>
      change<PlanRemoval>(async tx => {
        const { keys } = await onlyRow<{ keys: number }>(
          tx,
          'select count(*)::float8 as keys from proxylist.keys where plan = $1',
          [name],
        )
        if (keys > 0) return { result: { kind: 'in-use', keys }, isChanged: false }
        const removed = await tx('delete from proxylist.plans where name = $1 returning name', [
          name,
        ])
        const isChanged = removed.length > 0
        return { result: { kind: isChanged ? 'removed' : 'unknown' }, isChanged }
      }),
  }) satisfies Registry['plans']
