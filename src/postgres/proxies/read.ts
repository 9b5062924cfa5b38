/**
 * Owns reading the list for the copies of machines: all of it, or what has changed since a version,
 * as of one moment.
 */
import type { TransactionSQL } from 'bun'
import type { ListChanges, Version } from '../../node/ports.ts'
import { AT, type City, ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import { type Connection, type Query, SNAPSHOT } from '../connection.ts'
import { onlyRow } from '../rows.ts'
import { type Kind, rowsOf, type Value } from './binary-copy.ts'

/** Where the list stands, and what is known of the version of a copy. */
const POSITION = `
  select i.id::text as database, l.version::float8 as version, v.mark::text as mark,
      l.rows::float8 as rows, coalesce(s.mark::text, '') as "sinceMark",
      l.removed_before::float8 as "removedBefore"
    from proxylist.list l cross join proxylist.installation i
    join proxylist.list_versions v on v.version = l.version
    left join proxylist.list_versions s on s.version = $1`
type Position = Version & {
  rows: number
  sinceMark: string
  removedBefore: number
}

const COLUMNS = ROW_COLUMNS.join(', ')
const KINDS: readonly Kind[] = ROW_COLUMNS.map(column =>
  column === 'ip_out' ? 'ascii' : 'integer',
)

/** The row of values as they are stored: an IPv4 address is a number in a row, and its digits here. */
export function toRow(values: Value[]): Row {
  const out = values[AT.ipOut]
  if (out !== '' && !Number.isNaN(Number(out))) values[AT.ipOut] = Number(out)
  return values as Row // the columns are those of a row
}

/** What a COPY gives, in portions of a bounded size; it begins when the first is asked for. */
async function* copyOut(
  tx: TransactionSQL,
  select: string,
  kinds: readonly Kind[],
): AsyncGenerator<Value[][]> {
  yield* rowsOf(tx.unsafe(`copy (${select}) to stdout (format binary)`).readable(), kinds)
}

async function* mapped<T, U>(source: AsyncIterable<T>, map: (item: T) => U): AsyncGenerator<U> {
  for await (const item of source) yield map(item)
}

async function* nothing(): AsyncGenerator<never> {}

const isNewer = (since: Version | null): string =>
  since === null ? 'true' : `version > ${since.version}`

/** The number of rows that were changed or removed since a version. */
async function countChanges(query: Query, since: Version): Promise<number> {
  const { changed } = await onlyRow<{ changed: number }>(
    query,
    `select ((select count(*) from proxylist.proxies where ${isNewer(since)}) +
       (select count(*) from proxylist.removed where ${isNewer(since)}))::float8 as changed`,
  )
  return changed
}

async function readChanges(tx: TransactionSQL, since: Version | null): Promise<ListChanges> {
  const query: Query = async (text, values = []) => tx.unsafe(text, [...values])
  const position = await onlyRow<Position>(query, POSITION, [since?.version ?? null])
  const { database, version, mark, rows, sinceMark, removedBefore } = position
  const isWhole =
    since === null ||
    since.database !== database ||
    since.mark !== sinceMark ||
    since.version < removedBefore
  const from = isWhole ? null : since
  const gone = `select id from proxylist.removed r where ${isNewer(from)}
    and not exists (select from proxylist.proxies p where p.id = r.id)`
  return {
    isWhole,
    since,
    to: { database, version, mark },
    size: from === null ? rows : await countChanges(query, from),
    cities: await query<City>(
      `select id, name, name_en as "nameEn" from proxylist.cities
       where ${isNewer(from)} order by id`,
    ),
    removed:
      from === null
        ? nothing()
        : mapped(copyOut(tx, gone, ['integer']), ids => ids.map(([id]) => Number(id))),
    // A whole list in the order of the table: so it is written fastest.
    rows: mapped(
      copyOut(
        tx,
        `select ${COLUMNS} from proxylist.proxies where ${isNewer(from)}
         ${from === null ? 'order by id' : ''}`,
        KINDS,
      ),
      page => page.map(toRow),
    ),
  }
}

/**
 * Calls `apply` with what has changed since a version, or with all when that is not known any more, in
 * one transaction that reads only; `removed` is read before `rows`. A whole list of a million rows
 * takes seconds: the connection must allow that.
 */
export const readListChanges = <T>(
  { using }: Connection,
  since: Version | null,
  apply: (changes: ListChanges) => Promise<T>,
): Promise<T> => using(sql => sql.begin(SNAPSHOT, async tx => apply(await readChanges(tx, since))))
