/** Keys in SQLite, stored and found by their SHA-256 only. */
import type { Database } from 'bun:sqlite'
import { keySubject } from '../../access/entitlements.ts'
import {
  type Caller,
  DEMO_KEY,
  type EndingKey,
  hashKey,
  type KeyChanges,
  type KeyRecord,
  type KeySummary,
  type ListedKey,
  type NewKey,
  newKeyId,
  REFUSED_MIN,
  type RefusedKey,
  type StoredKey,
  shownPrefix,
} from '../../access/key.ts'
import { type Known, problemsOf } from '../../access/load.ts'
import type { NetworkSet } from '../../access/network-quota.ts'
import { DEMO_PLAN, type Plan, TEMP_PLAN } from '../../access/plan.ts'
import type { KeyReader, LoadProblem, Registry, SomeKeys } from '../../access/ports.ts'
import { type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { createFifoMap } from '../../lib/bounded-map.ts'
import { parseRanges } from '../../lib/ip.ts'
import { utcDay } from '../../lib/time.ts'
import { oncePerTurn } from '../../lib/turn-batch.ts'
import { writeTransaction } from '../database.ts'
import { PLAN_COLUMNS, type PlanRow, toPlan } from './plans.ts'

type FoundRow = PlanRow &
  Omit<KeyRecord, 'caller' | 'callers'> & { id: string; plan: string | null; callers: string }

const KEYS_MAX = 100_000

const PLAN_OF_KEY = `join plans p on p.name = coalesce(k.plan, '${TEMP_PLAN}')`

const countToday = (set: NetworkSet): string =>
  `(select count(*) from networks
    where subject_kind = 'key' and subject_id = k.id and network_set = '${set}' and day = $day)`

const SUMMARY = `k.id, prefix, label, note, callers as "from", plan, created_at as createdAt,
    expires_at as expiresAt, revoked_at as revokedAt, enabled as isEnabled`

const LISTED = `
  select ${SUMMARY},
    ${countToday('served')} as subnetsToday, ${countToday('callers')} as clientsToday,
    (select json_group_array(o.expires_at order by o.expires_at) from old_secrets o
      where o.key_id = k.id and o.expires_at > $nowMs) as oldSecretsUntil
  from keys k ${PLAN_OF_KEY}`

type UsageReader = {
  usagesOf(batch: readonly Subject[]): Usage[]
  countKeysUsed(day: number): number
  removeNetworks(key: { kind: 'key'; id: string }): void
}
type Row<Key> = Omit<Key, 'requestsToday' | 'isEnabled'> & { isEnabled: 0 | 1 }
type ListRow = Row<Omit<ListedKey, 'oldSecretsUntil'>> & { oldSecretsUntil: string }

function withUse<R extends { id: string; isEnabled: 0 | 1 }>(
  rows: readonly R[],
  usage: UsageReader,
  nowMs: number,
) {
  const today = utcDay(nowMs)
  const usages = usage.usagesOf(rows.map(({ id }) => keySubject(id)))
  return rows.map((row, i) => {
    const { requests, latestMs } = usages[i] ?? UNUSED
    const requestsToday = utcDay(latestMs) >= today ? requests : 0
    const { isEnabled, ...rest } = row
    return { row: { ...rest, isEnabled: isEnabled === 1, requestsToday }, latestMs }
  })
}

function listKeys(db: Database, usage: UsageReader, nowMs: number, ids?: readonly string[]) {
  const where = ids === undefined ? '$ids is null' : 'k.id in (select value from json_each($ids))'
  const rows = db
    .prepare<ListRow, { [name: string]: string | number | null }>(
      `${LISTED} where ${where} order by created_at, k.id`,
    )
    .all({ day: utcDay(nowMs), nowMs, ids: ids === undefined ? null : JSON.stringify(ids) })
  return withUse(rows, usage, nowMs).map(
    ({ row }): ListedKey => ({ ...row, oldSecretsUntil: JSON.parse(row.oldSecretsUntil) }),
  )
}

/** Finds records by key, and caches them in memory. */
export function createKeyReader(db: Database) {
  const findCurrent = db.prepare<FoundRow, [Uint8Array]>(
    `select id, label, callers, expires_at as expiresAt, revoked_at as revokedAt, plan, ${PLAN_COLUMNS}
     from keys k ${PLAN_OF_KEY} where hash = ?`,
  )
  const findOld = db.prepare<FoundRow, [Uint8Array]>(
    `select id, label, callers, min(coalesce(k.expires_at, o.expires_at), o.expires_at) as expiresAt,
       revoked_at as revokedAt, plan, ${PLAN_COLUMNS}
     from old_secrets o join keys k on k.id = o.key_id ${PLAN_OF_KEY} where o.hash = ?`,
  )
  const findPlan = db.prepare<PlanRow, [string]>(
    `select ${PLAN_COLUMNS} from plans p where name = ?`,
  )

  const known = createFifoMap<string, KeyRecord>(KEYS_MAX)
  const plans = new Map<string, Plan>()
  const selectChanges = db.prepare<{ n: number }, []>('select n from key_changes')
  const countChanges = oncePerTurn(() => selectChanges.get()?.n ?? 0)
  let knownChanges = -1

  /** The plan of a row: one object for all keys that have it. */
  function planOf(row: PlanRow): Plan {
    const plan = plans.get(row.name) ?? toPlan(row)
    plans.set(row.name, plan)
    return plan
  }

  /** Clears the cache. Call it after a change by this process, which may show in the same turn. */
  function forget(): void {
    known.clear()
    plans.clear()
  }

  /** Other processes change keys and plans too. Most of their commits are admissions. */
  function forgetIfChanged(): void {
    const changes = countChanges()
    if (changes !== knownChanges) forget()
    knownChanges = changes
  }

  function findDemo(): KeyRecord | null {
    const row = findPlan.get(DEMO_PLAN)
    if (row === null) return null
    const caller: Caller = { kind: 'demo', id: DEMO_KEY, plan: planOf(row) }
    return { caller, label: '', callers: null, expiresAt: null, revokedAt: null }
  }

  function findStored(key: string): KeyRecord | null {
    const hash = hashKey(key)
    const row = findCurrent.get(hash) ?? findOld.get(hash)
    if (row === null) return null
    const { id, label, plan, expiresAt, revokedAt } = row
    const callers = parseRanges(row.callers)
    const caller: Caller = { kind: plan === null ? 'temp' : 'regular', id, plan: planOf(row) }
    return { caller, label, callers, expiresAt, revokedAt }
  }

  return {
    forget,
    find(key: string): KeyRecord | null {
      forgetIfChanged()
      const record = known.get(key)
      if (record !== undefined) return record
      const found = key === DEMO_KEY ? findDemo() : findStored(key)
      // A copy, because a part of a URL would keep all of the URL in memory.
      if (found !== null) known.set(Buffer.from(key).toString(), found)
      return found
    },
    /** The id of the key that has or had this secret; `null` when there is none. */
    idOf: (hash: Uint8Array): string | null =>
      (findCurrent.get(hash) ?? findOld.get(hash))?.id ?? null,
  }
}

/** All stored keys, in the order of lists; call it within a transaction. */
export function readStoredKeys(db: Database): StoredKey[] {
  const secrets = db
    .prepare<{ keyId: string; hash: Uint8Array; expiresAt: number }, []>(
      'select key_id as keyId, hash, expires_at as expiresAt from old_secrets order by expires_at',
    )
    .all()
  const byKey = Map.groupBy(secrets, ({ keyId }) => keyId)
  return db
    .prepare<Omit<StoredKey, 'oldSecrets'>, []>(
      `select id, hash, prefix, label, note, callers as "from", plan, created_at as createdAt,
         expires_at as expiresAt, revoked_at as revokedAt
       from keys order by created_at, id`,
    )
    .all()
    .map(row => ({
      ...row,
      oldSecrets: (byKey.get(row.id) ?? []).map(({ hash, expiresAt }) => ({ hash, expiresAt })),
    }))
}

/** Returns a function that stores a key unchanged, in the transaction of the caller. */
export function createKeyWriter(db: Database): (key: StoredKey) => void {
  const insert = db.prepare(
    `insert into keys (id, hash, prefix, label, note, callers, plan, created_at, expires_at, revoked_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const insertOld = db.prepare('insert into old_secrets values (?, ?, ?)')
  return ({ id, hash, prefix, oldSecrets, ...key }) => {
    const { label, note, from, plan, createdAt, expiresAt, revokedAt } = key
    insert.run(id, hash, prefix, label, note, from, plan, createdAt, expiresAt, revokedAt)
    for (const old of oldSecrets) insertOld.run(old.hash, id, old.expiresAt)
  }
}

function knownTo(db: Database): Known {
  const secrets = db
    .query<{ id: string; hash: Uint8Array }, []>(
      'select id, hash from keys union all select key_id, hash from old_secrets',
    )
    .all()
  const plans = db.query<{ name: string }, []>('select name from plans').all()
  return {
    ids: new Set(secrets.map(({ id }) => id)),
    idOf: new Map(secrets.map(({ id, hash }) => [hash.toHex(), id])),
    plans: new Set(plans.map(({ name }) => name)),
  }
}

export function createKeyStore(db: Database, usage: UsageReader) {
  const { find, idOf, forget } = createKeyReader(db)
  const write = createKeyWriter(db)
  const findStored = db.prepare<{ hash: Uint8Array; revokedAt: number | null }, [string]>(
    'select hash, revoked_at as revokedAt from keys where id = ?',
  )
  const selectEnding = db.prepare<EndingKey & { total: number }, [number, number, number]>(
    `select id, label, expires_at as expiresAt, count(*) over () as total from keys
     where revoked_at is null and plan is not null and expires_at > ? and expires_at <= ?
     order by expires_at, id limit ?`,
  )
  const selectRefused = db.prepare<RefusedKey & { total: number }, [number, number, number]>(
    `select id, label, requests, refused, count(*) over () as total from days join keys on id = key_id
     where day = ? and refused >= ${REFUSED_MIN} and refused > ? * (requests + refused) order by refused desc, id limit ?`,
  )
  const countKeys = db.prepare<{ n: number }, []>(
    'select count(*) as n from keys where revoked_at is null',
  )
  const countByPlan = db.prepare<{ plan: string | null; keys: number }, []>(
    'select plan, count(*) as keys from keys group by plan',
  )
  const selectNext = db.prepare<Row<KeySummary>, [after: string, most: number]>(
    `select ${SUMMARY}, last_seen as lastSeenMs from keys k ${PLAN_OF_KEY}
     where k.id > ? order by k.id limit ?`,
  )

  return {
    find,
    forget,

    add: ({ key, ...rest }: NewKey, nowMs: number): { id: string; isNew: boolean } =>
      writeTransaction(db, () => {
        const hash = hashKey(key)
        const existing = idOf(hash)
        if (existing !== null) return { id: existing, isNew: false }
        const made = { id: newKeyId(), hash, prefix: shownPrefix(key), createdAt: nowMs }
        write({ ...rest, ...made, revokedAt: null, oldSecrets: [] })
        return { id: made.id, isNew: true }
      }),

    set(id: string, { label, note, from, plan, expiresAt }: KeyChanges): boolean {
      const texts = [label ?? null, note ?? null, from ?? null, plan ?? null]
      const { changes } = db.run(
        `update keys set label = coalesce(?, label), note = coalesce(?, note),
           callers = coalesce(?, callers), plan = coalesce(?, plan),
           expires_at = iif(?, ?, expires_at) where id = ?`,
        [...texts, expiresAt !== undefined, expiresAt ?? null, id],
      )
      return changes > 0
    },

    rotate: (id: string, key: string, untilMs: number, nowMs: number): boolean =>
      writeTransaction(db, () => {
        const old = findStored.get(id)
        if (old === null) return false
        db.run('insert into old_secrets values (?, ?, ?)', [old.hash, id, untilMs])
        const shorten = 'update old_secrets set expires_at = min(expires_at, ?) where key_id = ?'
        db.run(shorten, [untilMs, id])
        db.run('delete from old_secrets where key_id = ? and expires_at <= ?', [id, nowMs])
        const secret = [hashKey(key), shownPrefix(key), id]
        db.run('update keys set hash = ?, prefix = ? where id = ?', secret)
        return true
      }),

    revoke: (id: string, nowMs: number): boolean =>
      db.run('update keys set revoked_at = coalesce(revoked_at, ?) where id = ?', [nowMs, id])
        .changes > 0,

    remove: (id: string): 'removed' | 'unknown' | 'not-revoked' =>
      writeTransaction(db, () => {
        const key = findStored.get(id)
        if (key === null) return 'unknown'
        if (key.revokedAt === null) return 'not-revoked'
        db.run('delete from days where key_id = ?', [id])
        usage.removeNetworks({ kind: 'key', id })
        db.run('delete from keys where id = ?', [id])
        return 'removed'
      }),

    list: (nowMs: number, ids?: readonly string[]): ListedKey[] => listKeys(db, usage, nowMs, ids),

    scan: (after: string, most: number, nowMs: number): KeySummary[] =>
      withUse(selectNext.all(after, most), usage, nowMs).map(({ row, latestMs }) => ({
        ...row,
        lastSeenMs: Math.max(row.lastSeenMs ?? 0, latestMs) || null,
      })),

    ending(fromMs: number, untilMs: number, most: number): SomeKeys<EndingKey> {
      const keys = selectEnding.all(fromMs, untilMs, most)
      return { keys, total: keys[0]?.total ?? 0 }
    },

    refused(nowMs: number, share: number, most: number): SomeKeys<RefusedKey> {
      const keys = selectRefused.all(utcDay(nowMs), share, most)
      return { keys, total: keys[0]?.total ?? 0 }
    },

    count: (nowMs: number): { total: number; usedToday: number } => ({
      total: countKeys.get()?.n ?? 0,
      usedToday: usage.countKeysUsed(utcDay(nowMs)),
    }),

    countByPlan: () => countByPlan.all(),

    dump: db.transaction(() => readStoredKeys(db)),

    load: (keys: readonly StoredKey[], isTrial: boolean): LoadProblem[] =>
      writeTransaction(db, () => {
        const problems = problemsOf(keys, knownTo(db))
        if (problems.length === 0 && !isTrial) keys.forEach(write)
        return problems
      }),

    /** Whether there is a key. Unlike `list`, it reads neither all keys nor their usage. */
    hasAny: (): boolean => db.query('select 1 from keys limit 1').get() !== null,
  } satisfies KeyReader & Registry['keys'] & { hasAny(): boolean; forget(): void }
}
