/** Owns plans in SQLite. */
import type { Database } from 'bun:sqlite'
import { BUILT_IN_PLANS, type Plan } from '../../access/plan.ts'
import type { PlanRemoval, Registry } from '../../access/store.ts'

export type PlanRow = {
  name: string
  burst_requests: number | null
  burst_seconds: number | null
  daily: number | null
  subnets: number | null
  clients: number | null
  count: number | null
}

/** The columns of a `PlanRow`, of table `plans p`. */
export const PLAN_COLUMNS = 'p.name, burst_requests, burst_seconds, daily, subnets, clients, count'

/** The plan of a row; it has a burst limit only if both of its columns have a value. */
export const toPlan = (row: PlanRow): Plan => ({
  name: row.name,
  burst:
    row.burst_requests === null || row.burst_seconds === null
      ? null
      : { requests: row.burst_requests, seconds: row.burst_seconds },
  daily: row.daily,
  subnets: row.subnets,
  clients: row.clients,
  count: row.count,
})

/** The plans of an open database. */
export function createPlanStore(db: Database) {
  const list = (): Plan[] =>
    db.prepare<PlanRow, []>(`select ${PLAN_COLUMNS} from plans p order by name`).all().map(toPlan)

  const countKeys = (name: string): number =>
    db.prepare<{ n: number }, [string]>('select count(*) as n from keys where plan = ?').get(name)
      ?.n ?? 0

  return {
    list,
    find: (name: string): Plan | null => list().find(plan => plan.name === name) ?? null,

    set({ name, burst, daily, subnets, clients, count }: Plan): void {
      const values = [burst?.requests, burst?.seconds, daily, subnets, clients, count]
      db.run(
        `insert into plans (name, burst_requests, burst_seconds, daily, subnets, clients, count)
         values (?, ?, ?, ?, ?, ?, ?)
         on conflict (name) do update set burst_requests = excluded.burst_requests,
           burst_seconds = excluded.burst_seconds, daily = excluded.daily,
           subnets = excluded.subnets, clients = excluded.clients, count = excluded.count`,
        [name, ...values.map(value => value ?? null)],
      )
    },

    remove: (name: string): PlanRemoval =>
      db
        .transaction((): PlanRemoval => {
          const keys = countKeys(name)
          if (keys > 0) return { kind: 'in-use', keys }
          const { changes } = db.run('delete from plans where name = ?', [name])
          return { kind: changes > 0 ? 'removed' : 'unknown' }
        })
        .immediate(),
  } satisfies Registry['plans']
}

/** Puts the built-in plans into a database that has no plan at all. */
export function seedPlans(db: Database): void {
  const plans = createPlanStore(db)
  if (plans.list().length > 0) return
  db.transaction(() => {
    if (plans.list().length === 0) for (const plan of BUILT_IN_PLANS) plans.set(plan)
  }).immediate()
}
