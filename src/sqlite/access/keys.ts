/**
 * Owns keys and plans in SQLite. Keys are looked up and stored by their SHA-256 only.
 */
import type { Database } from 'bun:sqlite'
import type { Caller, KeyRecord } from '../../access/access.ts'
import { hashKey, type ListedKey, type NewKey, newKeyId, shownPrefix } from '../../access/key.ts'
import { BUILT_IN_PLANS, type Plan } from '../../access/plan.ts'
import { createLru } from '../../lib/lru.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'
import { oncePerTurn } from '../../lib/turn-batch.ts'
import { dataVersionOf } from '../database.ts'

type PlanRow = {
  name: string
  burst_requests: number | null
  burst_seconds: number | null
  daily: number | null
  subnets: number | null
  clients: number | null
  count: number | null
}
type KeyRow = { id: string; expires_at: number | null; revoked_at: number | null }

const toPlan = (row: PlanRow): Plan => ({
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

/** Keys kept in memory. */
const KEYS_KNOWN_MAX = 50_000

const PLAN_COLUMNS = 'p.name, burst_requests, burst_seconds, daily, subnets, clients, count'

const LIST = `
  with today as (
    select subject, requests, max(id) from admissions where at >= $day * ${DAY_MS} group by subject
  )
  select k.id, prefix, label, plan, created_at as createdAt, expires_at as expiresAt,
    revoked_at as revokedAt,
    coalesce((select requests from today where subject = 'key:' || k.id), 0) as requestsToday,
    (select count(*) from networks where subject = 'key:' || k.id || ':served' and day = $day)
      as subnetsToday
  from keys k order by created_at, k.id`

export function createKeyStore(db: Database) {
  const find = db.prepare<KeyRow & PlanRow & { plan: string | null }, [Uint8Array]>(
    `select id, expires_at, revoked_at, plan, ${PLAN_COLUMNS}
     from keys k left join plans p on p.name = k.plan where hash = ?`,
  )

  // What was found stays right until another connection commits: the server itself changes no key.
  const known = createLru<string, KeyRecord>(KEYS_KNOWN_MAX, {
    recentUses: KEYS_KNOWN_MAX / 2,
  })
  const plans = new Map<string, Plan>()
  const version = oncePerTurn(dataVersionOf(db))
  let knownVersion = version()

  /** The plan of a row: one object for all keys that hold it. */
  function planOf(row: PlanRow): Plan {
    const plan = plans.get(row.name) ?? toPlan(row)
    plans.set(row.name, plan)
    return plan
  }

  function findStored(key: string): KeyRecord | null {
    const row = find.get(hashKey(key))
    if (row === null) return null
    const { id, plan, expires_at: expiresAt, revoked_at: revokedAt } = row
    const caller: Caller =
      plan === null ? { kind: 'temp', id } : { kind: 'regular', id, plan: planOf(row) }
    const record = { caller, expiresAt, revokedAt }
    known.set(key, record)
    return record
  }

  return {
    /** The key's record, whether or not it is in force; `null` when there is no such key. */
    find(key: string): KeyRecord | null {
      const current = version()
      if (current !== knownVersion) {
        known.clear()
        plans.clear()
      }
      knownVersion = current
      return known.get(key) ?? findStored(key)
    },

    /** Stores a key and gives its id, or the id of the same key when it is there already. */
    add({ key, label, plan, expiresAt }: NewKey, nowMs: number): { id: string; isNew: boolean } {
      return db
        .transaction(() => {
          const known = find.get(hashKey(key))
          if (known) return { id: known.id, isNew: false }
          const id = newKeyId()
          db.run(
            `insert into keys (id, hash, prefix, label, plan, created_at, expires_at)
             values (?, ?, ?, ?, ?, ?, ?)`,
            [id, hashKey(key), shownPrefix(key), label, plan, nowMs, expiresAt],
          )
          return { id, isNew: true }
        })
        .immediate()
    },

    /** Ends a key for good. False when there is none with this id. */
    revoke: (id: string, nowMs: number): boolean =>
      db.run('update keys set revoked_at = coalesce(revoked_at, ?) where id = ?', [nowMs, id])
        .changes > 0,

    list: (nowMs: number): ListedKey[] =>
      db.prepare<ListedKey, { day: number }>(LIST).all({ day: utcDay(nowMs) }),
  }
}

export function createPlanStore(db: Database) {
  const store = {
    /** All plans by name. */
    list: (): Plan[] =>
      db
        .prepare<PlanRow, []>(`select ${PLAN_COLUMNS} from plans p order by name`)
        .all()
        .map(toPlan),

    find: (name: string): Plan | null => store.list().find(plan => plan.name === name) ?? null,

    /** Makes or replaces a plan; keys that hold it follow at once. */
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

    /** Removes a plan that no key holds; says how many keys hold it. */
    remove: (name: string): { removed: boolean; keys: number } =>
      db
        .transaction(() => {
          const keys = db
            .prepare<{ n: number }, [string]>('select count(*) as n from keys where plan = ?')
            .get(name)?.n
          if (keys) return { removed: false, keys }
          return {
            removed: db.run('delete from plans where name = ?', [name]).changes > 0,
            keys: 0,
          }
        })
        .immediate(),
  }
  return store
}

/** Puts the built-in plans into a database that has no plan at all. */
export function seedPlans(db: Database): void {
  const plans = createPlanStore(db)
  if (plans.list().length > 0) return
  db.transaction(() => {
    if (plans.list().length === 0) for (const plan of BUILT_IN_PLANS) plans.set(plan)
  }).immediate()
}
