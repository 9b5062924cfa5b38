/**
 * What tests of limits share: callers, random steps of a clock, and the usage of an access.db
 * with what it has recorded.
 */
import { join } from 'node:path'
import fc from 'fast-check'
import { createAccess } from '../../src/access/access.ts'
import {
  consumptionOf,
  limitRulesOf,
  type Served,
  type Tenant,
} from '../../src/access/entitlements.ts'
import { type DayUse, unusedDay } from '../../src/access/history.ts'
import { type Caller, hashKey } from '../../src/access/key.ts'
import {
  consume,
  type NetworkDecision,
  type NetworkSet,
  type NetworkTable,
} from '../../src/access/network-quota.ts'
import { BUILT_IN_PLANS, DEMO_PLAN, type Plan, TEMP_PLAN } from '../../src/access/plan.ts'
import type { UsageStore } from '../../src/access/ports.ts'
import {
  type Admission,
  admit,
  type Decision,
  type Subject,
  type Usage,
  type UsageTable,
} from '../../src/access/rate-limit.ts'
import type { Waits } from '../../src/access/store-timeout.ts'
import { DAY_MS, HOUR_MS } from '../../src/lib/time.ts'
import type { SnapshotOptions } from '../../src/sqlite/access/admission-log.ts'
import { openAccessFile } from '../../src/sqlite/access/file.ts'
import { createUsageStore, LOCK_WAIT } from '../../src/sqlite/access/usage.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { type Limits, T0, UNLIMITED } from './fixtures.ts'
import { onCleanUp } from './temporary.ts'

export const IP = '198.51.100.7'

/** A request that has not waited for a store yet. */
export const unwaited = (): Waits => ({ waitedMs: 0 })

/** A key on a plan without a limit on streams. */
export const TENANT: Tenant = { id: 'k1', isTrial: false, streamsMax: null }

export type Regular = Extract<Caller, { kind: 'regular' }>

/** A plan as every installation starts with it. */
export function builtIn(name: string): Plan {
  const plan = BUILT_IN_PLANS.find(each => each.name === name)
  if (plan === undefined) throw new Error(`no plan ${name} is built in`)
  return plan
}

export const DEMO: Caller = { kind: 'demo', id: 'demo', plan: builtIn(DEMO_PLAN) }
export const temp = (id = 't1'): Caller => ({ kind: 'temp', id, plan: builtIn(TEMP_PLAN) })
/** A regular key whose plan limits nothing but this. */
export const regular = (limits: Partial<Limits>, id = 'k1'): Regular => ({
  kind: 'regular',
  id,
  plan: { ...UNLIMITED, ...limits, name: 'test' },
})
export const burst = (requests: number, seconds: number): Partial<Limits> => ({
  burst: { requests, seconds },
})

/** The UTC day of T0, which is noon, and its end. */
export const TODAY = 20_777
export const MIDNIGHT = T0 + 12 * HOUR_MS

/** How far the clock moves between two requests: rarely back, often to where a window ends. */
export const anyStepMs = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 1200 }) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 12_000 }) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ...[0, 1, 999, 1000, 1001, 4999, 5000, 5001, 30_000, 59_999, 60_000],
      ...[1_800_000, 3_599_999, 3_600_000],
    ),
  },
  { weight: 1, arbitrary: fc.integer({ min: -20_000, max: -1 }) },
  { weight: 1, arbitrary: fc.constantFrom(-DAY_MS, -HOUR_MS, 12 * HOUR_MS, DAY_MS - 1, DAY_MS) },
)
export const anyStartMs = fc.oneof(
  fc.constant(T0),
  fc.integer({ min: MIDNIGHT - 30_000, max: MIDNIGHT }), // the day ends soon
)

export type Outcome = 'ok' | 'window' | 'daily'
export const outcomeOf = (decision: Decision): Outcome =>
  decision.kind === 'refused' ? decision.by : 'ok'

/** The one result of a batch of one. */
function only<T>([result]: readonly T[]): T {
  if (result === undefined) throw new Error('a batch of one has no result')
  return result
}

/** The decisions of a store on a batch. */
export const decideAll = async (
  { admit: decide }: Pick<UsageStore, 'admit'>,
  batch: readonly Admission[],
): Promise<Decision[]> => Promise.all(await decide(batch))

export type OpenUsage = ReturnType<typeof openUsage>

/**
 * The usage of the access.db in `dir`, opened as a server does, or of an empty one in memory;
 * `options` are those of its snapshot, `lockWait` says how it waits for the lock. Closed by `cleanUp`.
 */
export function openUsage(
  dir: string | null = null,
  options: SnapshotOptions = {},
  lockWait = LOCK_WAIT,
) {
  const file = dir === null ? ':memory:' : join(dir, ACCESS_FILE)
  const db = openAccessFile(file, { isServer: true })
  const forget = onCleanUp(() => db.close(true))
  const usage = createUsageStore(db, options, lockWait)
  const selectNetworks = db.prepare<{ network: string }, [string, string, string, number]>(
    `select network from networks
     where subject_kind = ? and subject_id = ? and network_set = ? and day = ?`,
  )
  const read = (subject: Subject): Usage => only(usage.usagesOf([subject]))
  const networks = ({ kind, id }: Subject, set: NetworkSet, day: number) =>
    new Set(selectNetworks.all(kind, id, set, day).map(({ network }) => network))
  /** Reads what is recorded, and records nothing. */
  const readOnly: UsageTable & NetworkTable = {
    read,
    compare(subject, set, day, asked) {
      const known = networks(subject, set, day)
      return { used: known.size, lacking: new Set(asked.filter(each => !known.has(each))) }
    },
    record() {},
    addNetworks() {},
  }

  return {
    db,
    usage,
    read,
    networks,
    access: createAccess({ find: () => null }, usage),
    admit: (caller: Caller, ip: string, nowMs: number): Decision =>
      only(usage.admit([{ rules: limitRulesOf(caller, ip), nowMs }])),
    consume: (caller: Regular, served: Served): NetworkDecision =>
      only(usage.consume([consumptionOf(caller, served)])),
    /** What `admit` and `consume` would decide; nothing is recorded. */
    tryAdmit: (caller: Caller, ip: string, nowMs: number): Decision =>
      admit(readOnly, { rules: limitRulesOf(caller, ip), nowMs }),
    tryConsume: (caller: Regular, served: Served): NetworkDecision =>
      consume(readOnly, consumptionOf(caller, served)),
    countRows: (table: string): number =>
      db.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()?.n ?? 0,
    prune(nowMs: number): void {
      while (usage.prune(nowMs));
    },
    /** Adds keys with these ids, which `days` and last use are kept for. */
    addKeys(...ids: string[]): void {
      const insert = db.prepare(
        `insert into keys (id, hash, prefix, label, note, plan, created_at) values (?, ?, '', '', '', null, 0)`,
      )
      for (const id of ids) insert.run(id, hashKey(id))
    },
    close(): void {
      forget()
      db.close(true)
    },
  }
}

/** Works with empty usage in memory. */
export function withUsage<T>(work: (usage: OpenUsage) => T): T {
  const opened = openUsage()
  try {
    return work(opened)
  } finally {
    opened.close()
  }
}

/** A day with so many requests in one hour. */
export const dayWith = (
  day: number,
  hour: number,
  requests: number,
  more: Partial<DayUse> = {},
): DayUse => ({
  ...{ ...unusedDay(day), requests },
  hours: [...Array<number>(hour).fill(0), requests],
  ...more,
})
