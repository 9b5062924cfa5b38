/**
 * Owns keys in SQLite. They are stored and found by their SHA-256 only. Plans are in `plans.ts`.
 */
import type { Database } from 'bun:sqlite'
import { keySubject } from '../../access/entitlements.ts'
import {
  type Caller,
  hashKey,
  type KeyRecord,
  type ListedKey,
  type NewKey,
  newKeyId,
  shownPrefix,
} from '../../access/key.ts'
import type { Plan } from '../../access/plan.ts'
import { type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import type { KeyReader, Registry } from '../../access/store.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { utcDay } from '../../lib/time.ts'
import { oncePerTurn } from '../../lib/turn-batch.ts'
import { dataVersionOf } from '../database.ts'
import { PLAN_COLUMNS, type PlanRow, toPlan } from './plans.ts'

type KeyRow = { id: string; expires_at: number | null; revoked_at: number | null }

/** Keys kept in memory. */
const KEYS_MAX = 50_000

const LIST = `
  select k.id, prefix, label, plan, created_at as createdAt, expires_at as expiresAt,
    revoked_at as revokedAt,
    (select count(*) from networks
     where subject_kind = 'key' and subject_id = k.id and network_set = 'served' and day = $day)
      as subnetsToday
  from keys k order by created_at, k.id`

type UsageReader = { peek(batch: readonly Subject[]): Usage[] }

function listKeys(db: Database, usage: UsageReader, nowMs: number): ListedKey[] {
  const day = utcDay(nowMs)
  const rows = db.prepare<Omit<ListedKey, 'requestsToday'>, { day: number }>(LIST).all({ day })
  const used = usage.peek(rows.map(({ id }) => keySubject(id)))
  return rows.map((row, i) => {
    const its = used[i] ?? UNUSED
    return { ...row, requestsToday: its.day >= day ? its.requests : 0 }
  })
}

/** The keys of an open database, and their usage. Records are cached in memory, by key. */
export function createKeyStore(db: Database, usage: UsageReader) {
  const find = db.prepare<KeyRow & PlanRow & { plan: string | null }, [Uint8Array]>(
    `select id, expires_at, revoked_at, plan, ${PLAN_COLUMNS}
     from keys k left join plans p on p.name = k.plan where hash = ?`,
  )

  // A record stays right until another connection commits: the server itself changes no key.
  const known = createBoundedMap<string, KeyRecord>(KEYS_MAX)
  const plans = new Map<string, Plan>()
  const version = oncePerTurn(dataVersionOf(db))
  let knownVersion = version()

  /** The plan of a row: one object for all keys that have it. */
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
    /** The key's record, valid or not; `null` when there is no such key. */
    find(key: string): KeyRecord | null {
      const current = version()
      if (current !== knownVersion) {
        known.clear()
        plans.clear()
      }
      knownVersion = current
      return known.get(key) ?? findStored(key)
    },

    add({ key, label, plan, expiresAt }: NewKey, nowMs: number): { id: string; isNew: boolean } {
      return db
        .transaction(() => {
          const existing = find.get(hashKey(key))
          if (existing) return { id: existing.id, isNew: false }
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

    revoke: (id: string, nowMs: number): boolean =>
      db.run('update keys set revoked_at = coalesce(revoked_at, ?) where id = ?', [nowMs, id])
        .changes > 0,

    list: (nowMs: number): ListedKey[] => listKeys(db, usage, nowMs),

    /** Whether there is a key. Unlike `list`, it reads neither all keys nor their usage. */
    hasAny: (): boolean => db.query('select 1 from keys limit 1').get() !== null,
  } satisfies KeyReader & Registry['keys'] & { hasAny(): boolean }
}
