/**
 * Owns reading the list for the copies of machines: all of it, or what has changed since a version,
 * as of one moment.
 */
import type { TransactionSQL } from 'bun'
import type { Awaitable } from '../../lib/turn-batch.ts'
import { AT, ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import type { Connection, Query } from '../connection.ts'
import { type Kind, rowsOf, type Value } from './binary-copy.ts'

/** A version of the list; the mark tells it from one of the same number that a failover lost. */
export type Version = { version: number; mark: string }

export type CityRow = { id: number; name: string; nameEn: string }

/** Where the list goes, in portions; each is awaited before the next one is read. */
export type ListSink = {
  /** Called first. With `isWhole`, what follows is the whole list: everything else goes. */
  begin(position: Version & { isWhole: boolean }): Awaitable<void>
  cities(rows: readonly CityRow[]): Awaitable<void>
  rows(rows: readonly Row[]): Awaitable<void>
  /** Addresses that are not in the list any more. */
  removed(ids: readonly number[]): Awaitable<void>
}

/** Whether the copy at `since` can be brought up to date by changes, and where the list stands. */
const POSITION = `
  select l.version::float8 as version, v.mark::text as mark, coalesce(s.mark::text, '') as since_mark,
      l.removed_before::float8 as removed_before
    from proxylist.list l
    join proxylist.list_versions v on v.version = l.version
    left join proxylist.list_versions s on s.version = $1`
type Position = Version & { since_mark: string; removed_before: number }

const COLUMNS = ROW_COLUMNS.join(', ')
const KINDS: readonly Kind[] = ROW_COLUMNS.map(column =>
  column === 'ip_out' ? 'ascii' : 'integer',
)

/** The row of values as they are stored: an IPv4 address is a number in a row. */
function toRow(values: Value[]): Row {
  const out = values[AT.ipOut]
  if (out !== '' && !Number.isNaN(Number(out))) values[AT.ipOut] = Number(out)
  return values as Row // the columns are those of a row
}

async function readPosition(query: Query, since: Version | null) {
  const [found] = await query<Position>(POSITION, [since?.version ?? null])
  const { version, mark, since_mark, removed_before } = found ?? {
    ...{ version: 0, mark: '', since_mark: '', removed_before: 0 },
  }
  const isWhole = since === null || since.mark !== since_mark || since.version < removed_before
  return { version, mark, isWhole }
}

/** Passes on what a COPY gives, in portions of a bounded size. */
async function copyOut(
  tx: TransactionSQL,
  select: string,
  kinds: readonly Kind[],
  take: (rows: Value[][]) => Awaitable<void>,
): Promise<void> {
  const stream = tx.unsafe(`copy (${select}) to stdout (format binary)`).readable()
  for await (const rows of rowsOf(stream, kinds)) await take(rows)
}

async function readChanges(tx: TransactionSQL, since: Version | null, sink: ListSink) {
  const query: Query = async (text, values = []) => tx.unsafe(text, [...values])
  const position = await readPosition(query, since)
  await sink.begin(position)
  if (!position.isWhole && position.version === since?.version) return position
  const isNewer = position.isWhole ? 'true' : `version > ${since?.version ?? 0}`
  const cities = await query<CityRow>(
    `select id, name, name_en as "nameEn" from proxylist.cities where ${isNewer} order by id`,
  )
  if (cities.length > 0) await sink.cities(cities)
  if (!position.isWhole) {
    const gone = `select id from proxylist.removed r where ${isNewer}
      and not exists (select from proxylist.proxies p where p.id = r.id)`
    await copyOut(tx, gone, ['integer'], ids => sink.removed(ids.map(([id]) => Number(id))))
  }
  const rows = `select ${COLUMNS} from proxylist.proxies where ${isNewer}`
  await copyOut(tx, rows, KINDS, found => sink.rows(found.map(toRow)))
  return position
}

/**
 * Reads what has changed since a version, or all when that is not known any more, in one transaction
 * that reads only. A whole list of a million rows takes seconds: the connection must allow that.
 */
export const readList = (
  { using }: Connection,
  since: Version | null,
  sink: ListSink,
): Promise<Version & { isWhole: boolean }> =>
  using(sql =>
    sql.begin('isolation level repeatable read read only', tx => readChanges(tx, since, sink)),
  )
