/**
 * Owns writing the list: an import is one transaction, so that readers see the list as it was
 * or as it is after (contract D2, D5). Knows nothing of file formats.
 */
import type { Database, Statement } from 'bun:sqlite'
import { ANONS, fold, type IncomingProxy, type Proxy, SERVICES, TYPES } from '../proxy.ts'
import { idOf, UNKNOWN, UNKNOWN_PING } from './proxies.ts'

export type ImportCounts = {
  added: number
  updated: number
  unchanged: number
  removed: number
}

/** How a column takes a newer value; `stated` says when the row knows it at all. */
const stated = (column: string, unknown: string): [string, string] => [
  column,
  `case when excluded.${column} = ${unknown} then ${column} else excluded.${column} end`,
]
// A new default name replaces the pair of names; one that is already shown changes nothing.
const SAME_CITY = `excluded.city_en = '' and excluded.city in ('', city, city_en)`
const KEEP_CITY = `excluded.city = '' or (${SAME_CITY})`

/** Each column beside id and checked_at, and what an update makes of it. */
const MERGE: readonly (readonly [column: string, merged: string])[] = [
  ['type', 'excluded.type'],
  stated('anon', '0'),
  stated('ping_ms', String(UNKNOWN_PING)),
  stated('works', String(UNKNOWN)),
  stated('speed', String(UNKNOWN)),
  ['services', '(services & ~$stated) | excluded.services'],
  stated('country', "''"),
  ['city', `case when ${KEEP_CITY} then city else excluded.city end`],
  ['city_key', `case when ${KEEP_CITY} then city_key else excluded.city_key end`],
  ['city_en', `case when ${SAME_CITY} then city_en else excluded.city_en end`],
  ['city_en_key', `case when ${SAME_CITY} then city_en_key else excluded.city_en_key end`],
  stated('ip_out', "''"),
]
const COLUMNS = ['id', 'checked_at', ...MERGE.map(([column]) => column)]
const columns = COLUMNS.join(', ')

/** Adds a row, or merges it into the stored one unless its check is older or nothing differs. */
const upsertInto = (table: string): string => `
  insert into ${table} (${columns}) values (${COLUMNS.map(column => `$${column}`).join(', ')})
  on conflict (id) do update set checked_at = excluded.checked_at,
    ${MERGE.map(([column, merged]) => `${column} = ${merged}`).join(',\n    ')}
  where excluded.checked_at > checked_at or excluded.checked_at = checked_at and
    (${MERGE.map(([column]) => column).join(', ')}) is not (${MERGE.map(([, m]) => m).join(', ')})`

const SWAP = {
  stage: `create temp table incoming as select ${columns} from proxies limit 0`,
  key: 'create unique index temp.incoming_by_id on incoming (id)',
  remove: 'delete from proxies where id not in (select id from temp.incoming)',
  copy: `insert into proxies (${columns}) select ${columns} from temp.incoming where true
    on conflict (id) do update set
      ${COLUMNS.map(column => `${column} = excluded.${column}`).join(', ')}
    where (${columns}) is not (${COLUMNS.map(column => `excluded.${column}`).join(', ')})`,
  drop: 'drop table if exists temp.incoming',
} as const

const bits = (services: Proxy['services']): number =>
  SERVICES.reduce((mask, service, bit) => (services.has(service) ? mask | (1 << bit) : mask), 0)

const toRow = (proxy: IncomingProxy) => ({
  id: idOf(proxy),
  checked_at: proxy.checkedAt,
  type: TYPES.indexOf(proxy.type),
  anon: proxy.anon === '' ? 0 : 1 + ANONS.indexOf(proxy.anon),
  ping_ms: proxy.pingMs ?? UNKNOWN_PING,
  works: proxy.works ?? UNKNOWN,
  speed: proxy.speed ?? UNKNOWN,
  services: bits(proxy.services),
  country: proxy.country,
  city: proxy.city,
  city_key: fold(proxy.city),
  city_en: proxy.cityEn,
  city_en_key: fold(proxy.cityEn || proxy.city),
  ip_out: proxy.ipOut,
  stated: bits(proxy.servicesStated),
})

const countRows = (db: Database, table: string): number =>
  db.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()?.n ?? 0

/**
 * Begins an import. With `replace` the list becomes what importing the rows into an empty one
 * would give. Nothing is visible before `commit`; `rollback` leaves the list as it was.
 */
export function beginImport(db: Database, replace: boolean) {
  db.run('begin immediate')
  if (replace) {
    db.run(SWAP.drop)
    db.run(SWAP.stage)
    db.run(SWAP.key)
  }
  const before = countRows(db, 'proxies')
  const upsert: Statement = db.prepare(upsertInto(replace ? 'temp.incoming' : 'proxies'))
  let accepted = 0
  let written = 0

  /** Replaces the list by the staged one. */
  function swap(): ImportCounts {
    const removed = db.run(SWAP.remove).changes
    const changed = db.run(SWAP.copy).changes
    const added = countRows(db, 'proxies') - (before - removed)
    return { added, updated: changed - added, unchanged: accepted - changed, removed }
  }

  function merged(): ImportCounts {
    const added = countRows(db, 'proxies') - before
    return { added, updated: written - added, unchanged: accepted - written, removed: 0 }
  }

  return {
    add(proxy: IncomingProxy): void {
      accepted += 1
      written += upsert.run(toRow(proxy)).changes
    },
    commit(): ImportCounts {
      const counts = replace ? swap() : merged()
      upsert.finalize()
      db.run('commit')
      if (replace) db.run(SWAP.drop)
      return counts
    },
    rollback(): void {
      upsert.finalize()
      // A full disk has made SQLite roll back already.
      if (db.inTransaction) db.run('rollback')
    },
  }
}
