/**
 * Owns writing all of a database without data, from the values that are moved from another store
 * (`move/contents.ts`). Everything within one transaction of the caller.
 */

import type { Writer } from '../../move/contents.ts'
import { ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import { arrayLiteral } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { encodeNetworks } from '../usage/networks.ts'

type Table = 'plans' | 'keys' | 'old_secrets' | 'usage' | 'networks' | 'days' | 'cities' | 'feeds'
type Columns = { readonly [column: string]: unknown }

/** Inserts rows, all with the same columns; the types of these are those of the table. */
async function insert(query: Query, table: Table, rows: readonly Columns[]): Promise<void> {
  const [first] = rows
  if (first === undefined) return
  const columns = Object.keys(first).join(', ')
  await query(
    `insert into proxylist.${table} (${columns}) select ${columns}
     from json_populate_recordset(null::proxylist.${table}, $1::text::json)`,
    [JSON.stringify(rows)],
  )
}

const bytea = (bytes: Uint8Array): string => `\\x${bytes.toHex()}`

const INSERT_PROXIES = `insert into proxylist.proxies (${ROW_COLUMNS.join(', ')}, version)
  select *, $${ROW_COLUMNS.length + 1}::bigint from unnest(${ROW_COLUMNS.map(
    (column, i) => `$${i + 1}::${column === 'ip_out' ? 'text' : 'bigint'}[]`,
  ).join(', ')})`

/** A list has a million rows: as arrays they take half the time that JSON takes. */
async function insertProxies(query: Query, page: readonly Row[], version: number): Promise<void> {
  const columns = ROW_COLUMNS.map((column, i) =>
    arrayLiteral(page.map(row => (column === 'ip_out' ? String(row[i]) : (row[i] ?? null)))),
  )
  await query(INSERT_PROXIES, [...columns, String(version)])
}

/** Returns a function that makes what inserts pages into a table; `columnsOf` are those of a row. */
const inserter =
  (query: Query) =>
  <R>(table: Table, columnsOf: (row: R) => Columns) =>
  (page: readonly R[]): Promise<void> =>
    insert(query, table, page.map(columnsOf))

/** What writes keys and plans, under the number of their change. */
const keyWriter = (query: Query, version: number): Pick<Writer, 'plans' | 'keys' | 'seen'> => ({
  plans: inserter(query)('plans', ({ burst, ...plan }) => ({
    ...{ ...plan, burst_requests: burst?.requests ?? null },
    burst_seconds: burst?.seconds ?? null,
  })),
  async keys(page) {
    const keys = page.map(({ id, hash, prefix, label, plan, createdAt, expiresAt, revokedAt }) => ({
      ...{ id, hash: bytea(hash), prefix, label, plan, created_at: createdAt, version },
      ...{ expires_at: expiresAt, revoked_at: revokedAt },
    }))
    await insert(query, 'keys', keys)
    const secrets = page.flatMap(({ id, oldSecrets }) =>
      oldSecrets.map(({ hash, expiresAt }) => ({
        ...{ hash: bytea(hash), key_id: id, expires_at: expiresAt },
      })),
    )
    await insert(query, 'old_secrets', secrets)
  },
  async seen(page) {
    await query(
      `update proxylist.keys k set last_seen = s."lastSeenMs"
       from json_to_recordset($1::text::json) as s ("keyId" text, "lastSeenMs" bigint)
       where k.id = s."keyId"`,
      [JSON.stringify(page)],
    )
  },
})

/** `versions` are the numbers of the changes that write keys and plans, and the list. */
export function createWriter(query: Query, versions: { keys: number; list: number }): Writer {
  const into = inserter(query)
  return {
    ...keyWriter(query, versions.keys),
    usage: into('usage', ({ kind, id, admissions: at, latestMs: latest, day, requests }) => ({
      ...{ kind, id, at, latest, day, requests },
    })),
    networks: into('networks', ({ subject: { kind, id }, set, day, networks }) => ({
      ...{ kind, id, network_set: set, day, ...encodeNetworks(set, networks) },
    })),
    days: into('days', ({ keyId, day, requests, records, refused, hours }) => ({
      ...{ key_id: keyId, day, requests, records, refused, hours },
    })),
    cities: into('cities', ({ id, name, nameEn }) => ({
      ...{ id, name, name_en: nameEn, version: versions.list },
    })),
    proxies: page => insertProxies(query, page, versions.list),
    feeds: into('feeds', ({ validators, lastSuccessAt, nextTryAt, ...feed }) => ({
      ...{ ...feed, last_success_at: lastSuccessAt, next_try_at: nextTryAt },
      ...{ etag: validators.etag, last_modified: validators.lastModified },
      digest: validators.digest,
    })),
  }
}
