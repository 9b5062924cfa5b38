/**
 * Owns keys in PostgreSQL. They are stored and found by their SHA-256 only. A node finds the keys of
 * its requests in its copy; the moving of keys to another installation is in `key-dump.ts`.
 */
import {
  hashKey,
  type KeyChanges,
  type ListedKey,
  type NewKey,
  newKeyId,
  shownPrefix,
} from '../../access/key.ts'
import { TEMP_PLAN } from '../../access/plan.ts'
import type { Registry } from '../../access/ports.ts'
import type { Query } from '../connection.ts'
import { onlyRow } from '../rows.ts'
import { NETWORKS_SIZE } from '../usage/networks.ts'
import type { Change } from './changes.ts'

/** Today is that of the clock that decides limits, all else is judged by `nowMs`. */
const LISTED = `
  with clock as materialized (select (proxylist.now_ms() / 86400000)::int as today)
  select k.id, k.prefix, k.label, k.plan, k.created_at::float8 as "createdAt",
    k.expires_at::float8 as "expiresAt", k.revoked_at::float8 as "revokedAt",
    p.enabled as "isEnabled",
    coalesce((select u.requests from proxylist.usage u
      where u.kind = 'key' and u.id = k.id and u.day >= today), 0) as "requestsToday",
    coalesce((select ${NETWORKS_SIZE} from proxylist.networks n where n.kind = 'key'
      and n.id = k.id and n.network_set = 'served' and n.day = today), 0) as "subnetsToday",
    coalesce((select ${NETWORKS_SIZE} from proxylist.networks n where n.kind = 'key'
      and n.id = k.id and n.network_set = 'callers' and n.day = today), 0) as "clientsToday",
    (select max(o.expires_at)::float8 from proxylist.old_secrets o
      where o.key_id = k.id and o.expires_at > $1::float8) as "oldSecretUntil"
  from clock, proxylist.keys k join proxylist.plans p on p.name = coalesce(k.plan, '${TEMP_PLAN}')`

/** The id of the key that has or had a secret with this hash; `null` when there is none. */
async function idOf(query: Query, hash: Uint8Array): Promise<string | null> {
  const [row] = await query<{ id: string }>(
    `select id from proxylist.keys where hash = $1
     union all select key_id from proxylist.old_secrets where hash = $1`,
    [hash],
  )
  return row?.id ?? null
}

/** What is `null` stays; `$5` is whether the end is changed, which may be to none. */
const SET = `label = coalesce($3, label), plan = coalesce($4, plan),
  expires_at = case when $5 then $6::float8 else expires_at end`

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
    return { result: rows.length > 0, isChanged: rows.length > 0 }
  })

/** What rotates the secrets of keys. */
const createRotate =
  (change: Change) =>
  (id: string, key: string, untilMs: number, nowMs: number): Promise<boolean> =>
    change(async (tx, version) => {
      const [old] = await tx<{ hash: Uint8Array }>(
        'select hash from proxylist.keys where id = $1',
        [id],
      )
      if (!old) return { result: false, isChanged: false }
      const isKept = untilMs > nowMs
      await tx(
        'delete from proxylist.old_secrets where key_id = $1 and ($2 or expires_at <= $3::float8)',
        [id, !isKept, nowMs],
      )
      if (isKept) {
        await tx(
          'insert into proxylist.old_secrets (hash, key_id, expires_at) values ($1, $2, $3::float8)',
          [old.hash, id, untilMs],
        )
      }
      await tx(
        'update proxylist.keys set hash = $2, prefix = $3, version = $4::float8 where id = $1',
        [id, hashKey(key), shownPrefix(key), version],
      )
      return { result: true, isChanged: true }
    })

/** What removes revoked keys with their use, which it locks in the order in which requests do. */
const createRemove = (change: Change) => (id: string) =>
  change<'removed' | 'unknown' | 'not-revoked'>(async (tx, version) => {
    const [row] = await tx<{ revoked: boolean }>(
      'select revoked_at is not null as revoked from proxylist.keys where id = $1',
      [id],
    )
    if (!row?.revoked) return { result: row ? 'not-revoked' : 'unknown', isChanged: false }
    await tx(`delete from proxylist.usage where kind = 'key' and id = $1`, [id])
    await tx(
      `select from proxylist.networks where kind = 'key' and id = $1
       order by network_set, day for update`,
      [id],
    )
    await tx(`delete from proxylist.networks where kind = 'key' and id = $1`, [id])
    await tx('delete from proxylist.days where key_id = $1', [id])
    await tx('delete from proxylist.keys where id = $1', [id])
    await tx('insert into proxylist.removed_keys (id, version) values ($1, $2::float8)', [
      id,
      version,
    ])
    return { result: 'removed', isChanged: true }
  })

/** The keys of a database, without `dump` and `load`. */
export const createKeyStore = (query: Query, change: Change) =>
  ({
    add: ({ key, label, plan, expiresAt }: NewKey, nowMs: number) =>
      change<{ id: string; isNew: boolean }>(async (tx, version) => {
        const hash = hashKey(key)
        const existing = await idOf(tx, hash)
        if (existing !== null) return { result: { id: existing, isNew: false }, isChanged: false }
        const id = newKeyId()
        await tx(
          `insert into proxylist.keys (id, hash, prefix, label, plan, created_at, expires_at, version)
           values ($1, $2, $3, $4, $5, $6::float8, $7::float8, $8::float8)`,
          [id, hash, shownPrefix(key), label, plan, nowMs, expiresAt, version],
        )
        return { result: { id, isNew: true }, isChanged: true }
      }),

    set(id: string, { label, plan, expiresAt }: KeyChanges): Promise<boolean> {
      const values = [label ?? null, plan ?? null, expiresAt !== undefined, expiresAt ?? null]
      return update(change, id, SET, values)
    },

    rotate: createRotate(change),

    revoke: (id: string, nowMs: number): Promise<boolean> =>
      update(change, id, 'revoked_at = coalesce(revoked_at, $3::float8)', [nowMs]),

    remove: createRemove(change),

    list: async (nowMs: number): Promise<ListedKey[]> => [
      ...(await query<ListedKey>(`${LISTED} order by k.created_at, k.id`, [nowMs])),
    ],

    read: async (id: string, nowMs: number): Promise<ListedKey | null> =>
      (await query<ListedKey>(`${LISTED} where k.id = $2`, [nowMs, id]))[0] ?? null,

    /** Today is that of the clock that decides limits. */
    async count(_nowMs: number): Promise<{ total: number; usedToday: number }> {
      return onlyRow(
        query,
        `select (select count(*)::float8 from proxylist.keys where revoked_at is null) as total,
           (select count(*)::float8 from proxylist.usage where kind = 'key' and requests > 0
              and day >= proxylist.now_ms() / 86400000) as "usedToday"`,
      )
    },
  }) satisfies Omit<Registry['keys'], 'dump' | 'load'>
