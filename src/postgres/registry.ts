/** The port `Registry` over PostgreSQL: keys, which are stored by their SHA-256 only, and plans. */
import {
  type EndingKey,
  hashKey,
  type KeyChanges,
  type KeySummary,
  type ListedKey,
  type NewKey,
  newKeyId,
  REFUSED_MIN,
  type RefusedKey,
  type StoredKey,
  shownPrefix,
} from '../access/key.ts'
import { hashesOf, type Known, problemsOf } from '../access/load.ts'
import { BUILT_IN_PLANS, changedPlan, type Plan, TEMP_PLAN } from '../access/plan.ts'
import type { LoadProblem, PlanRemoval, Registry, SomeKeys, UsageStore } from '../access/ports.ts'
import { MINUTE_MS, utcDay } from '../lib/time.ts'
import { arrayLiteral, bytea } from './arrays.ts'
import {
  type Connection,
  insertRows,
  onlyRow,
  type Query,
  SNAPSHOT,
  selectJson,
} from './connection.ts'

/**
 * Begins a change of keys and plans, and announces it at its commit. Returns its number, which the keys that it writes
 * carry. Changes lock the row until they commit, so their numbers are in the order of commits.
 */
async function nextVersion(query: Query): Promise<number> {
  const update = 'update proxylist.installation set keys_version = keys_version + 1'
  const returning = `keys_version::float8 as version, pg_notify('proxylist', 'keys')`
  return (await onlyRow<{ version: number }>(query, `${update} returning ${returning}`)).version
}

/** Runs `work` in a transaction with the number of a change, see `nextVersion`. */
type Change = <T>(work: (query: Query, version: number) => Promise<T>) => Promise<T>

const createChange =
  ({ transaction }: Pick<Connection, 'transaction'>): Change =>
  work =>
    transaction(async query => work(query, await nextVersion(query)))

type PlanRow = Omit<Plan, 'burst'> & {
  burst_requests: number | null
  burst_seconds: number | null
}

const toPlan = ({ burst_requests: requests, burst_seconds: seconds, ...row }: PlanRow): Plan => ({
  ...row,
  burst: requests === null || seconds === null ? null : { requests, seconds },
})

export const selectPlans = async (query: Query): Promise<Plan[]> =>
  (await selectJson<PlanRow>(query, 'select * from proxylist.plans order by name')).map(toPlan)

export const toPlanRow = ({ burst, ...plan }: Plan): PlanRow => ({
  ...plan,
  burst_requests: burst?.requests ?? null,
  burst_seconds: burst?.seconds ?? null,
})

export const seedPlans = (query: Query): Promise<void> =>
  insertRows(query, 'plans', BUILT_IN_PLANS.map(toPlanRow))

const createPlanStore = (connection: Connection) => {
  const change = createChange(connection)
  return {
    list: () => selectPlans(connection.query),

    set: changes =>
      change(async tx => {
        const plan = changedPlan(await selectPlans(tx), changes)
        const row = toPlanRow(plan)
        const set = Object.keys(row).map(column => `${column} = excluded.${column}`)
        await insertRows(tx, 'plans', [row], `on conflict (name) do update set ${set.join(', ')}`)
        return plan
      }),

    remove: (name: string): Promise<PlanRemoval> =>
      change<PlanRemoval>(async tx => {
        const count = 'select count(*)::float8 as keys from proxylist.keys where plan = $1'
        const { keys } = await onlyRow<{ keys: number }>(tx, count, [name])
        if (keys > 0) return { kind: 'in-use', keys }
        const text = 'delete from proxylist.plans where name = $1 returning name'
        const removed = await tx(text, [name])
        return { kind: removed.length > 0 ? 'removed' : 'unknown' }
      }),
  } satisfies Registry['plans']
}

/** The columns of a key, by their names in a `StoredKey`. Its secrets are not among them. */
const COLUMNS = {
  ...{ id: 'id', prefix: 'prefix', label: 'label', note: 'note', from: 'callers', plan: 'plan' },
  ...{ createdAt: 'created_at', expiresAt: 'expires_at', revokedAt: 'revoked_at' },
} as const satisfies Record<Exclude<keyof StoredKey, 'hash' | 'oldSecrets'>, string>
const SELECTED = Object.entries(COLUMNS).map(([name, column]) => `k.${column} as "${name}"`)

/** `today` is by the database's clock, which decides limits; all else is by `nowMs`. */
const SUMMARY = `
  with clock as materialized (select (proxylist.now_ms() / 86400000)::int as today)
  select ${SELECTED}, p.enabled as "isEnabled",
    case when u.day >= today then u.requests else 0 end as "requestsToday"`

const fromKeys = (keys: string): string => `
  from clock, ${keys} k join proxylist.plans p on p.name = coalesce(k.plan, '${TEMP_PLAN}')
    left join proxylist.usage u on u.kind = 'key' and u.id = k.id`

const countToday = (set: 'served' | 'callers'): string =>
  `(select count(*) from proxylist.networks n where n.kind = 'key'
      and n.id = k.id and n.network_set = '${set}' and n.day = today)`

const LISTED = `${SUMMARY},
    ${countToday('served')} as "subnetsToday", ${countToday('callers')} as "clientsToday",
    (select coalesce(json_agg(o.expires_at order by o.expires_at), '[]') from proxylist.old_secrets o
      where o.key_id = k.id and o.expires_at > $1::float8) as "oldSecretsUntil"
  ${fromKeys('proxylist.keys')}`

/** Limits the keys before the joins: PostgreSQL would join and sort all keys. */
const SLICE = '(select * from proxylist.keys where id > $1 order by id limit $2::int)'
const SCANNED = `${SUMMARY}, nullif(greatest(k.last_seen, u.latest), 0) as "lastSeenMs"
  ${fromKeys(SLICE)} order by k.id`

type Hex<S extends { hash: Uint8Array }> = Omit<S, 'hash'> & { hash: string }
type KeyJson = Hex<Omit<StoredKey, 'oldSecrets'>> & {
  oldSecrets: Hex<StoredKey['oldSecrets'][number]>[]
}
const STORED = `
  select ${SELECTED}, encode(k.hash, 'hex') as hash,
    (select coalesce(json_agg(json_build_object('hash', encode(o.hash, 'hex'), 'expiresAt', o.expires_at)
        order by o.expires_at), '[]')
      from proxylist.old_secrets o where o.key_id = k.id) as "oldSecrets"
  from proxylist.keys k where k.version > $1::float8 order by k.created_at, k.id`

const fromHex = <S extends { hash: string }>(secret: S) => ({
  ...{ ...secret, hash: Uint8Array.fromHex(secret.hash) },
})

/** The keys that a version of keys after `since` wrote, in their stored form; by default all. */
export const readStoredKeys = async (query: Query, since = -1): Promise<StoredKey[]> =>
  (await selectJson<KeyJson>(query, STORED, [since])).map(key => ({
    ...fromHex(key),
    oldSecrets: key.oldSecrets.map(fromHex),
  }))

async function insertKeys(
  query: Query,
  keys: readonly StoredKey[],
  version: number,
): Promise<void> {
  const names = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[]
  const rows = keys.map(key => ({
    ...Object.fromEntries(names.map(name => [COLUMNS[name], key[name]])),
    ...{ hash: bytea(key.hash), version },
  }))
  await insertRows(query, 'keys', rows)
  const secrets = keys.flatMap(({ id, oldSecrets }) =>
    oldSecrets.map(old => ({ hash: bytea(old.hash), key_id: id, expires_at: old.expiresAt })),
  )
  await insertRows(query, 'old_secrets', secrets)
}

export const insertAllKeys = async (query: Query, keys: readonly StoredKey[]): Promise<void> =>
  insertKeys(query, keys, await nextVersion(query))

const HAVING_SECRETS = `
  select key_id as id, hash from proxylist.old_secrets where hash = any($1::bytea[])
  union all select id, hash from proxylist.keys where hash = any($1::bytea[])`

const knownOf = (keys: readonly StoredKey[], plans: readonly Plan[]): Known => ({
  ids: new Set(keys.map(({ id }) => id)),
  idOf: new Map(keys.flatMap(key => hashesOf(key).map(hash => [hash.toHex(), key.id]))),
  plans: new Set(plans.map(({ name }) => name)),
})

/** A null keeps the value. `$7` tells whether to change the end, because null means that a key has none. */
const SET = `label = coalesce($3, label), note = coalesce($4, note), callers = coalesce($5, callers),
  plan = coalesce($6, plan), expires_at = case when $7 then $8::float8 else expires_at end`

/** Changes a key and returns whether there is one. `set` may use `$1`, its id, and `$2`, the version. */
const update = (
  change: Change,
  id: string,
  set: string,
  values: readonly (string | number | boolean | null)[],
) =>
  change(async (tx, version) => {
    const rows = await tx(
      `update proxylist.keys set ${set}, version = $2::float8 where id = $1 returning id`,
      [id, version, ...values],
    )
    return rows.length > 0
  })

/** The keys of a database; `patient` reads and stores many of them at once. */
export const createKeyStore = (connection: Connection, patient = connection) => {
  const { query } = connection
  const change = createChange(connection)
  return {
    add: ({ key, ...rest }: NewKey, nowMs: number) =>
      change(async (tx, version) => {
        const hash = hashKey(key)
        const [existing] = await tx<{ id: string }>(HAVING_SECRETS, [arrayLiteral([bytea(hash)])])
        if (existing) return { id: existing.id, isNew: false }
        const id = newKeyId()
        const made = { id, hash, prefix: shownPrefix(key), createdAt: nowMs }
        await insertKeys(tx, [{ ...rest, ...made, revokedAt: null, oldSecrets: [] }], version)
        return { id, isNew: true }
      }),

    set(id: string, { label, note, from, plan, expiresAt }: KeyChanges): Promise<boolean> {
      const texts = [label ?? null, note ?? null, from ?? null, plan ?? null]
      return update(change, id, SET, [...texts, expiresAt !== undefined, expiresAt ?? null])
    },

    rotate: (id: string, key: string, untilMs: number, nowMs: number): Promise<boolean> =>
      change(async (tx, version) => {
        const select = 'select hash from proxylist.keys where id = $1'
        const [old] = await tx<{ hash: Uint8Array }>(select, [id])
        if (!old) return false
        const secret = { hash: bytea(old.hash), key_id: id, expires_at: untilMs }
        await insertRows(tx, 'old_secrets', [secret])
        await tx(
          `update proxylist.old_secrets set expires_at = least(expires_at, $2::float8)
           where key_id = $1`,
          [id, untilMs],
        )
        await tx(
          'delete from proxylist.old_secrets where key_id = $1 and expires_at <= $2::float8',
          [id, nowMs],
        )
        await tx(
          'update proxylist.keys set hash = $2, prefix = $3, version = $4::float8 where id = $1',
          [id, hashKey(key), shownPrefix(key), version],
        )
        return true
      }),

    revoke: (id: string, nowMs: number): Promise<boolean> =>
      update(change, id, 'revoked_at = coalesce(revoked_at, $3::float8)', [nowMs]),

    /** Locks the used rows in the same order as requests. */
    remove: (id: string) =>
      change<'removed' | 'unknown' | 'not-revoked'>(async tx => {
        const [row] = await tx<{ revoked: boolean }>(
          'select revoked_at is not null as revoked from proxylist.keys where id = $1',
          [id],
        )
        if (!row?.revoked) return row ? 'not-revoked' : 'unknown'
        await tx(`delete from proxylist.usage where kind = 'key' and id = $1`, [id])
        await tx(`delete from proxylist.networks where kind = 'key' and id = $1`, [id])
        await tx('delete from proxylist.days where key_id = $1', [id])
        await tx('delete from proxylist.keys where id = $1', [id])
        return 'removed'
      }),

    list: (nowMs: number, ids?: readonly string[]) =>
      selectJson<ListedKey>(
        patient.query,
        `${LISTED} where $2::text[] is null or k.id = any($2::text[]) order by k.created_at, k.id`,
        [nowMs, ids === undefined ? null : arrayLiteral(ids)],
      ),

    scan: (after: string, most: number) => selectJson<KeySummary>(query, SCANNED, [after, most]),

    async ending(fromMs: number, untilMs: number, most: number): Promise<SomeKeys<EndingKey>> {
      const keys = await query<EndingKey & { total: number }>(
        `select id, label, expires_at::float8 as "expiresAt", (count(*) over ())::float8 as total
         from proxylist.keys where revoked_at is null and plan is not null
           and expires_at > $1::float8 and expires_at <= $2::float8 order by expires_at, id limit $3`,
        [fromMs, untilMs, most],
      )
      return { keys, total: keys[0]?.total ?? 0 }
    },

    async refused(nowMs: number, share: number, most: number): Promise<SomeKeys<RefusedKey>> {
      const keys = await query<RefusedKey & { total: number }>(
        `select id, label, requests, refused, (count(*) over ())::float8 as total
         from (select k.id, k.label, coalesce(u.requests, 0)::float8 as requests, d.refused::float8 as refused
               from proxylist.days d join proxylist.keys k on k.id = d.key_id
               left join proxylist.usage u on u.kind = 'key' and u.id = k.id and u.day = d.day
               where d.day = $1::integer) today
         where refused >= ${REFUSED_MIN} and refused > $2::float8 * (requests + refused) order by refused desc, id limit $3`,
        [utcDay(nowMs), share, most],
      )
      return { keys, total: keys[0]?.total ?? 0 }
    },

    /** Today by the clock of the limits. */
    count: () =>
      onlyRow<{ total: number; usedToday: number }>(
        query,
        `select (select count(*)::float8 from proxylist.keys where revoked_at is null) as total,
           (select count(*)::float8 from proxylist.usage where kind = 'key' and requests > 0
              and day >= proxylist.now_ms() / 86400000) as "usedToday"`,
      ),

    countByPlan: () =>
      query<{ plan: string | null; keys: number }>(
        'select plan, count(*)::float8 as keys from proxylist.keys group by plan',
      ),

    dump: (): Promise<StoredKey[]> => patient.transaction(tx => readStoredKeys(tx), SNAPSHOT),

    load: (keys: readonly StoredKey[], isTrial: boolean): Promise<LoadProblem[]> =>
      createChange(patient)(async (tx, version) => {
        const known = knownOf(await readStoredKeys(tx), await selectPlans(tx))
        const problems = problemsOf(keys, known)
        if (problems.length === 0 && !isTrial) await insertKeys(tx, keys, version)
        return problems
      }),
  } satisfies Registry['keys']
}

const session = { idle_in_transaction_session_timeout: MINUTE_MS }
/** Of a connection for statements on all keys, or a whole list; a program that is frozen keeps its locks for a minute. */
export const PATIENT = { timeoutMs: 10 * MINUTE_MS, session }

/** Keys and plans on a connection, with the usage of their keys; `patient` moves many keys at once. */
export function createRegistry<U extends UsageStore>(
  connection: Connection,
  usage: U,
  patient: Connection = connection,
) {
  return {
    usage,
    keys: createKeyStore(connection, patient),
    plans: createPlanStore(connection),
  } satisfies Registry
}
