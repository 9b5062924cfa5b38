/**
 * Owns reading what has changed of the list since a version, or all of it, as of one moment: what a
 * node makes its copy from.
 */
import type { Row } from '../../proxies/row.ts'
import type { City, ListChanges, Version } from '../../replication/store.ts'
import type { Connection, Query } from '../connection.ts'

/** Rows in one answer of the database. */
const PAGE_ROWS = 10_000

type State = { database: string; version: number; mark: string; rows: number; known: boolean }

/** Where the list stands, and whether all changes since another version are still known. */
async function stateOf(query: Query, since: Version | null): Promise<State> {
  const [state] = await query<State>(
    `select i.id::text as database, l.version::float8 as version,
       coalesce(v.mark::text, '') as mark, l.rows::float8 as rows,
       l.removed_before <= $1::float8 and exists (select from proxylist.list_versions
         where version = $1::float8 and mark::text = $2) as known
     from proxylist.list l cross join proxylist.installation i
       left join proxylist.list_versions v on v.version = l.version`,
    [since?.version ?? -1, since?.mark ?? ''],
  )
  if (state === undefined) throw new Error('the database has no list')
  return state
}

/** The rows of a statement, page by page. Only one such cursor is open at a time. */
async function* pagesOf<R extends object>(query: Query, select: string, version: number) {
  await query(`declare changes no scroll cursor for ${select}`, [version])
  for (;;) {
    const rows = await query<R>(`fetch ${PAGE_ROWS} from changes`)
    if (rows.length > 0) yield rows
    if (rows.length < PAGE_ROWS) break
  }
  await query('close changes')
}

/** A row as the statement below returns it: numbers of 8 bytes would come as text. */
type StoredRow = {
  id: number
  at: number
  ping: number
  type: number
  anon: number
  works: number
  speed: number
  services: number
  country: number
  city: number
  out: string
}

const ROWS = `select id::float8 as id, checked_at::float8 as at, ping_ms::float8 as ping, type, anon,
  works, speed::float8 as speed, services, country, city, ip_out as out from proxylist.proxies`

/** An IPv4 address is stored as a decimal number. */
const DECIMAL = /^\d+$/

const toRow = (row: StoredRow): Row => {
  const { id, at, ping, type, anon, works, speed, services, country, city, out } = row
  const ipOut = DECIMAL.test(out) ? Number(out) : out
  return [id, at, ping, type, anon, works, speed, services, country, city, ipOut]
}

async function* rowsSince(query: Query, since: number) {
  // The whole list in the order of the table, in which it is written fastest.
  const which = since < 0 ? 'where version > $1::float8 order by id' : 'where version > $1::float8'
  for await (const page of pagesOf<StoredRow>(query, `${ROWS} ${which}`, since)) {
    yield page.map(toRow)
  }
}

async function* removedSince(query: Query, since: number) {
  const select = 'select id::float8 as id from proxylist.removed where version > $1::float8'
  for await (const page of pagesOf<{ id: number }>(query, select, since)) {
    yield page.map(({ id }) => id)
  }
}

async function* none(): AsyncGenerator<number[]> {}

async function changedRows(query: Query, since: number): Promise<number> {
  const [row] = await query<{ rows: number }>(
    `select ((select count(*) from proxylist.proxies where version > $1::float8) +
       (select count(*) from proxylist.removed where version > $1::float8))::float8 as rows`,
    [since],
  )
  return row?.rows ?? 0
}

/**
 * Calls `apply` with what has changed of the list since a version, or with all of it when that is
 * `null`, too old or not known. `removed` is to be read before `rows`.
 */
export const readListChanges = <T>(
  { transaction }: Pick<Connection, 'transaction'>,
  since: Version | null,
  apply: (changes: ListChanges) => Promise<T>,
): Promise<T> =>
  transaction(async query => {
    const { database, version, mark, rows, known } = await stateOf(query, since)
    const isWhole = since === null || since.database !== database || !known
    const from = isWhole ? -1 : since.version
    const cities = await query<City>(
      `select id, name, name_en as "nameEn" from proxylist.cities where version > $1::float8 order by id`,
      [from],
    )
    return apply({
      isWhole,
      to: { database, version, mark },
      size: isWhole ? rows : await changedRows(query, from),
      cities,
      removed: isWhole ? none() : removedSince(query, from),
      rows: rowsSince(query, from),
    })
  }, 'isolation level repeatable read read only')
