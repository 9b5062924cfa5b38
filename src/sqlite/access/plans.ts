/** Plans in SQLite. */
import type { Database } from 'bun:sqlite'
import { BUILT_IN_PLANS, changedPlan, type Plan } from '../../access/plan.ts'
import type { PlanRemoval, Registry } from '../../access/ports.ts'
import { writeTransaction } from '../database.ts'

export type PlanRow = Omit<Plan, 'burst' | 'enabled'> & {
  burst_requests: number | null
  burst_seconds: number | null
  enabled: 0 | 1
}

export const PLAN_COLUMNS = `p.name, burst_requests, burst_seconds, daily, subnets, clients, count,
  downloads, enabled`

/** The plan of a row; it has a burst limit only if both of its columns have a value. */
export const toPlan = (row: PlanRow): Plan => {
  const { name, burst_requests: requests, burst_seconds: seconds, daily, subnets, clients } = row
  const burst = requests === null || seconds === null ? null : { requests, seconds }
  const { count, downloads, enabled } = row
  return { name, burst, daily, subnets, clients, count, downloads, enabled: enabled === 1 }
}

export function createPlanStore(db: Database) {
  const list = (): Plan[] =>
    db.prepare<PlanRow, []>(`select ${PLAN_COLUMNS} from plans p order by name`).all().map(toPlan)

  const countKeys = db.prepare<{ n: number }, [string]>(
    'select count(*) as n from keys where plan = ?',
  )

  return {
    list,

    set: changes =>
      writeTransaction(db, () => {
        const plan = changedPlan(list(), changes)
        const { burst, enabled, ...rest } = plan
        const { requests = null, seconds = null } = burst ?? {}
        db.prepare(
          `insert or replace into plans
             (name, burst_requests, burst_seconds, daily, subnets, clients, count, downloads, enabled)
           values ($name, $requests, $seconds, $daily, $subnets, $clients, $count, $downloads, $enabled)`,
        ).run({ ...rest, requests, seconds, enabled: enabled ? 1 : 0 })
        return plan
      }),

    remove: (name: string): PlanRemoval =>
      writeTransaction(db, () => {
        const keys = countKeys.get(name)?.n ?? 0
        if (keys > 0) return { kind: 'in-use', keys }
        const { changes } = db.run('delete from plans where name = ?', [name])
        return { kind: changes > 0 ? 'removed' : 'unknown' }
      }),
  } satisfies Registry['plans']
}

export const seedPlans = (db: Database): void => BUILT_IN_PLANS.forEach(createPlanStore(db).set)
