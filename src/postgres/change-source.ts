/**
 * Owns what a node reads of the database to make its copies: where list and keys stand, and the keys
 * and plans that have changed. The changes of the list are read in `proxies/`.
 */
import type { ChangeSource, KeyChanges, Version, Versions } from '../node/ports.ts'
import { readStoredKeys } from './access/keys.ts'
import { select as selectPlans } from './access/plans.ts'
import { type Connection, type Query, SNAPSHOT } from './connection.ts'
import { readListChanges } from './proxies/read.ts'
import { onlyRow } from './rows.ts'
import { newer, SCHEMA_VERSION } from './schema.ts'

type Standing = {
  database: string
  schema: number
  keysVersion: number
  keysMark: string
  listVersion: number
  listMark: string
}

/**
 * Where list and keys stand.
 * @throws CommandError when a newer program has migrated the schema, which it may do while this one runs.
 */
export async function versions({
  query,
  shown,
}: Pick<Connection, 'query' | 'shown'>): Promise<Versions> {
  const row = await onlyRow<Standing>(
    query,
    `select i.id::text as database, i.version as schema,
       i.keys_version::float8 as "keysVersion", coalesce(k.mark::text, '') as "keysMark",
       l.version::float8 as "listVersion", coalesce(v.mark::text, '') as "listMark"
     from proxylist.installation i cross join proxylist.list l
       left join proxylist.keys_versions k on k.version = i.keys_version
       left join proxylist.list_versions v on v.version = l.version`,
  )
  const { database, schema, keysVersion, keysMark, listVersion, listMark } = row
  if (schema > SCHEMA_VERSION) throw newer(schema, shown)
  return {
    list: { database, version: listVersion, mark: listMark },
    keys: { database, version: keysVersion, mark: keysMark },
  }
}

/** Whether the changes since a version are all known: it is one of this history, and not too old. */
async function isKnown(query: Query, { database, version, mark }: Version): Promise<boolean> {
  const { known } = await onlyRow<{ known: boolean }>(
    query,
    `select exists (select from proxylist.keys_versions, proxylist.installation
       where keys_versions.version = $1::float8 and mark::text = $2 and id::text = $3) as known`,
    [version, mark, database],
  )
  return known
}

/** What is read in one transaction: between two, another server may have taken over. */
async function readKeys(
  { query, shown }: Pick<Connection, 'query' | 'shown'>,
  since: Version | null,
  isWhole: boolean,
): Promise<KeyChanges> {
  const { keys: to } = await versions({ query, shown })
  const version = isWhole || since === null ? -1 : since.version
  const removed = await query<{ id: string }>(
    'select id from proxylist.removed_keys where version > $1::float8',
    [version],
  )
  return {
    isWhole,
    since,
    to,
    plans: await selectPlans(query, null),
    removed: removed.map(({ id }) => id),
    keys: await readStoredKeys(query, version),
  }
}

/**
 * What a node makes its copies from. `quick` asks where they stand and reads what has changed of keys,
 * which is little; `slow` reads all keys, and the list.
 */
export const createChangeSource = (quick: Connection, slow: Connection): ChangeSource => {
  const { shown } = quick
  const readSince = (since: Version): Promise<KeyChanges | null> =>
    quick.transaction(
      async query =>
        (await isKnown(query, since)) ? readKeys({ query, shown }, since, false) : null,
      SNAPSHOT,
    )
  return {
    versions: () => versions(quick),
    async readKeys(since) {
      const some = since && (await readSince(since))
      return some ?? slow.transaction(query => readKeys({ query, shown }, since, true), SNAPSHOT)
    },
    readList: (since, apply) => readListChanges(slow, since, apply),
  }
}
