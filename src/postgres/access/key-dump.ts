/** Owns moving keys between installations: reading them as they are stored, and storing them so. */
import type { StoredKey } from '../../access/key.ts'
import type { LoadProblem, Registry } from '../../access/ports.ts'
import { arrayLiteral, bytesLiteral } from '../arrays.ts'
import { type Connection, type Query, SNAPSHOT } from '../connection.ts'
import type { Change } from './changes.ts'

type StoredRow = Omit<StoredKey, 'oldSecrets'>
type SecretRow = { keyId: string; hash: Uint8Array; expiresAt: number }

/** Keys in one statement. */
const CHUNK = 5_000

/** A client returns bytes as `Buffer`, which is more than they are. */
const bytesOf = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes)

/** What a database has that keys to be stored could collide with. */
type Known = { ids: Set<string>; idOf: Map<string, string>; plans: Set<string> }

/** All secrets of a key. */
const hashesOf = ({ hash, oldSecrets }: StoredKey): Uint8Array[] => [
  hash,
  ...oldSecrets.map(old => old.hash),
]

function* chunksOf<T>(items: readonly T[]): Generator<T[]> {
  for (let at = 0; at < items.length; at += CHUNK) yield items.slice(at, at + CHUNK)
}

async function knownTo(query: Query, keys: readonly StoredKey[]): Promise<Known> {
  const plans = await query<{ name: string }>('select name from proxylist.plans')
  const known: Known = {
    ids: new Set(),
    idOf: new Map(),
    plans: new Set(plans.map(({ name }) => name)),
  }
  for (const chunk of chunksOf(keys)) {
    const rows = await query<{ id: string }>(
      'select id from proxylist.keys where id = any($1::text[])',
      [arrayLiteral(chunk.map(({ id }) => id))],
    )
    for (const { id } of rows) known.ids.add(id)
    const secrets = await query<{ id: string; hash: Uint8Array }>(
      `select key_id as id, hash from proxylist.old_secrets where hash = any($1::bytea[])
       union all select id, hash from proxylist.keys where hash = any($1::bytea[])`,
      [bytesLiteral(chunk.flatMap(hashesOf))],
    )
    for (const { id, hash } of secrets) known.idOf.set(bytesOf(hash).toHex(), id)
  }
  return known
}

/** Why a key cannot be stored beside what is known; `null` when it can. */
function problemOf(key: StoredKey, index: number, { ids, idOf, plans }: Known): LoadProblem | null {
  for (const hash of hashesOf(key)) {
    const id = idOf.get(hash.toHex())
    if (id !== undefined) return { kind: 'known-secret', index, id }
  }
  if (ids.has(key.id)) return { kind: 'known-id', index }
  return key.plan === null || plans.has(key.plan) ? null : { kind: 'unknown-plan', index }
}

/** Keys of one call that are the same are found too: each is known before the next is seen. */
function problemsOf(keys: readonly StoredKey[], known: Known): LoadProblem[] {
  const problems: LoadProblem[] = []
  for (const [index, key] of keys.entries()) {
    const problem = problemOf(key, index, known)
    if (problem) {
      problems.push(problem)
      continue
    }
    known.ids.add(key.id)
    for (const hash of hashesOf(key)) known.idOf.set(hash.toHex(), key.id)
  }
  return problems
}

async function store(query: Query, keys: readonly StoredKey[], version: number): Promise<void> {
  await query(
    `insert into proxylist.keys
       (id, hash, prefix, label, plan, created_at, expires_at, revoked_at, version)
     select *, $9::float8 from unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[],
       $6::bigint[], $7::bigint[], $8::bigint[])`,
    [
      arrayLiteral(keys.map(key => key.id)),
      bytesLiteral(keys.map(key => key.hash)),
      arrayLiteral(keys.map(key => key.prefix)),
      arrayLiteral(keys.map(key => key.label)),
      arrayLiteral(keys.map(key => key.plan)),
      arrayLiteral(keys.map(key => key.createdAt)),
      arrayLiteral(keys.map(key => key.expiresAt)),
      arrayLiteral(keys.map(key => key.revokedAt)),
      version,
    ],
  )
  const old = keys.flatMap(({ id, oldSecrets }) => oldSecrets.map(each => ({ ...each, id })))
  await query(
    `insert into proxylist.old_secrets (hash, key_id, expires_at)
     select * from unnest($1::bytea[], $2::text[], $3::bigint[])`,
    [
      bytesLiteral(old.map(each => each.hash)),
      arrayLiteral(old.map(each => each.id)),
      arrayLiteral(old.map(each => each.expiresAt)),
    ],
  )
  // A key that comes back is not removed any more.
  await query('delete from proxylist.removed_keys where id = any($1::text[])', [
    arrayLiteral(keys.map(({ id }) => id)),
  ])
}

/** The keys that a version of keys after `since` wrote, as they are stored; by default all. */
export async function readStored(query: Query, since = -1): Promise<StoredKey[]> {
  const rows = await query<StoredRow>(
    `select id, hash, prefix, label, plan, created_at::float8 as "createdAt",
       expires_at::float8 as "expiresAt", revoked_at::float8 as "revokedAt"
     from proxylist.keys where version > $1::float8 order by created_at, id`,
    [since],
  )
  const secrets = await query<SecretRow>(
    `select o.key_id as "keyId", o.hash, o.expires_at::float8 as "expiresAt"
     from proxylist.old_secrets o join proxylist.keys k on k.id = o.key_id
     where k.version > $1::float8 order by o.expires_at`,
    [since],
  )
  const byKey = Map.groupBy(secrets, ({ keyId }) => keyId)
  const oldOf = (id: string) =>
    (byKey.get(id) ?? []).map(({ hash, expiresAt }) => ({ hash: bytesOf(hash), expiresAt }))
  return rows.map(row => ({ ...row, hash: bytesOf(row.hash), oldSecrets: oldOf(row.id) }))
}

export const createKeyDump = ({ transaction }: Connection, change: Change) =>
  ({
    dump: (): Promise<StoredKey[]> => transaction(tx => readStored(tx), SNAPSHOT),

    load: (keys: readonly StoredKey[], isTrial: boolean): Promise<LoadProblem[]> =>
      change(async (query, version) => {
        const problems = problemsOf(keys, await knownTo(query, keys))
        const isChanged = problems.length === 0 && keys.length > 0 && !isTrial
        if (isChanged) for (const chunk of chunksOf(keys)) await store(query, chunk, version)
        return { result: problems, isChanged }
      }),
  }) satisfies Pick<Registry['keys'], 'dump' | 'load'>
