/**
 * What a node reads of the database to make its copies: where list and keys stand, and what has changed
 * since a version, as of one moment. Rows of the list come in the binary format of COPY (PostgreSQL
 * documentation, COPY, "Binary Format"): as text, a million take longer.
 */
import type { TransactionSQL } from 'bun'
import type { ChangeSource, KeyChanges, ListChanges, Version, Versions } from '../node/ports.ts'
import { AT, type City, ROW_COLUMNS, type Row } from '../proxies/row.ts'
import { type Connection, onlyRow, type Query, queryOf, SNAPSHOT } from './connection.ts'
import { newer, SCHEMA_VERSION } from './migrate.ts'
import { readStoredKeys, selectPlans } from './registry.ts'

/** What a column holds: an integer of 2, 4 or 8 bytes, or text in ASCII. */
export type Kind = 'integer' | 'ascii'
export type CopyValue = number | string

/** The signature, the flags, and the length of an extension that no server sends. */
const HEADER_BYTES = 19

/** A number of at most 53 bits. */
const READERS: { readonly [bytes: number]: (buffer: Buffer, at: number) => number } = {
  2: (buffer, at) => buffer.readInt16BE(at),
  4: (buffer, at) => buffer.readInt32BE(at),
  8: (buffer, at) => buffer.readInt32BE(at) * 2 ** 32 + buffer.readUInt32BE(at + 4),
}

const valueAt = (kind: Kind, buffer: Buffer, at: number, length: number): CopyValue =>
  kind === 'ascii'
    ? buffer.toString('latin1', at, at + length)
    : (READERS[length]?.(buffer, at) ?? Number.NaN)

/** Reads the whole rows of a buffer from `at` on; returns where the rest begins. */
function readRows(
  buffer: Buffer,
  kinds: readonly Kind[],
  start: number,
  rows: CopyValue[][],
): number {
  let at = start
  for (;;) {
    let next = at + 2 // the number of columns
    if (next > buffer.length || buffer.readInt16BE(at) < 0) return at
    const row: CopyValue[] = []
    for (const kind of kinds) {
      if (next + 4 > buffer.length) return at
      const length = buffer.readInt32BE(next)
      if (next + 4 + length > buffer.length) return at
      row.push(valueAt(kind, buffer, next + 4, length))
      next += 4 + length
    }
    rows.push(row)
    at = next
  }
}

/** The rows of a COPY, in the portions in which they come; no column may be NULL. */
export async function* rowsOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  kinds: readonly Kind[],
): AsyncGenerator<CopyValue[][]> {
  let rest: Buffer = Buffer.alloc(0)
  let at = HEADER_BYTES
  for await (const bytes of stream) {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const buffer: Buffer = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const rows: CopyValue[][] = []
    if (buffer.length > at) at = readRows(buffer, kinds, at, rows)
    if (rows.length > 0) yield rows
    rest = buffer.subarray(at)
    at = 0
  }
}

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
export function toRow(values: CopyValue[]): Row {
  const out = values[AT.ipOut]
  if (out !== '' && !Number.isNaN(Number(out))) values[AT.ipOut] = Number(out)
  return values as Row // the columns are those of a row
}

async function readChanges(tx: TransactionSQL, since: Version | null): Promise<ListChanges> {
  const query = queryOf(tx)
  const position = await onlyRow<Position>(query, POSITION, [since?.version ?? null])
  const { database, version, mark, rows, sinceMark, removedBefore } = position
  const isWhole =
    since === null ||
    since.database !== database ||
    since.mark !== sinceMark ||
    since.version < removedBefore
  const isChanged = isWhole ? 'true' : `version > ${since.version}`
  let size = rows
  if (!isWhole) {
    const text = `select ((select count(*) from proxylist.proxies where ${isChanged}) +
       (select count(*) from proxylist.removed where ${isChanged}))::float8 as changed`
    size = (await onlyRow<{ changed: number }>(query, text)).changed
  }
  /** What a COPY gives, in portions of a bounded size; it begins when the first is asked for. */
  async function* copyOut<T>(
    select: string,
    kinds: readonly Kind[],
    toItem: (values: CopyValue[]) => T,
  ): AsyncGenerator<T[]> {
    const stream = tx.unsafe(`copy (${select}) to stdout (format binary)`).readable()
    for await (const page of rowsOf(stream, kinds)) yield page.map(toItem)
  }
  const gone = `select id from proxylist.removed r where ${isWhole ? 'false' : isChanged}
    and not exists (select from proxylist.proxies p where p.id = r.id)`
  // A whole list in the order of the table: so it is written fastest.
  const changed = `select ${COLUMNS} from proxylist.proxies where ${isChanged}
    ${isWhole ? 'order by id' : ''}`
  return {
    isWhole,
    since,
    to: { database, version, mark },
    size,
    cities: await query<City>(
      `select id, name, name_en as "nameEn" from proxylist.cities where ${isChanged} order by id`,
    ),
    removed: copyOut(gone, ['integer'], ([id]) => Number(id)),
    rows: copyOut(changed, KINDS, toRow),
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

/**
 * Where list and keys stand.
 * @throws CommandError when a newer program has migrated the schema, which it may do while this one runs.
 */
export async function versions({
  query,
  shown,
}: Pick<Connection, 'query' | 'shown'>): Promise<Versions> {
  const row = await onlyRow<{ schema: number; list: string; keys: string }>(
    query,
    `select i.schema,
       json_build_object('database', i.id, 'version', l.version, 'mark', coalesce(v.mark::text, ''))::text as list,
       json_build_object('database', i.id, 'version', i.keys_version, 'mark', coalesce(k.mark::text, ''))::text as keys
     from proxylist.installation i cross join proxylist.list l
       left join proxylist.keys_versions k on k.version = i.keys_version
       left join proxylist.list_versions v on v.version = l.version`,
  )
  if (row.schema > SCHEMA_VERSION) throw newer(row.schema, shown)
  return { list: JSON.parse(row.list), keys: JSON.parse(row.keys) }
}

/** Whether the changes since a version are all known: it is one of this history, and not too old. */
async function isKnown(query: Query, { database, version, mark }: Version): Promise<boolean> {
  const found = await query(
    `select from proxylist.keys_versions, proxylist.installation
     where keys_versions.version = $1::float8 and mark::text = $2 and id::text = $3`,
    [version, mark, database],
  )
  return found.length > 0
}

/**
 * What a node makes its copies from. `quick` asks where they stand and reads what has changed of keys,
 * which is little; `slow` reads all keys, and the list.
 */
export function createChangeSource(quick: Connection, slow: Connection): ChangeSource {
  const { shown } = quick
  /** To be called in one transaction: between two, another server may have taken over. */
  async function readKeys(
    query: Query,
    since: Version | null,
    isWhole: boolean,
  ): Promise<KeyChanges> {
    const { keys: to } = await versions({ query, shown })
    const version = isWhole || since === null ? -1 : since.version
    const removed = await query<{ id: string }>(
      'select id from proxylist.removed_keys where version > $1::float8',
      [version],
    )
    const plans = await selectPlans(query)
    const keys = await readStoredKeys(query, version)
    return { isWhole, since, to, plans, removed: removed.map(({ id }) => id), keys }
  }
  return {
    versions: () => versions(quick),
    async readKeys(since) {
      const some =
        since &&
        (await quick.transaction(
          async query => ((await isKnown(query, since)) ? readKeys(query, since, false) : null),
          SNAPSHOT,
        ))
      return some ?? slow.transaction(query => readKeys(query, since, true), SNAPSHOT)
    },
    readList: (since, apply) => readListChanges(slow, since, apply),
  }
}
