/**
 * What a node reads of the database to make its copies: where list and keys stand, and what has changed
 * since a version, as of one moment. Rows of the list come in the binary format of COPY (PostgreSQL
 * documentation, COPY, "Binary Format"): as text, a million take longer.
 */
import type { TransactionSQL } from 'bun'
import type { ChangeSource, KeyChanges, ListChanges, Version, Versions } from '../node/ports.ts'
import { AT, type City, ROW_COLUMNS, type Row } from '../proxies/row.ts'
import { type Connection, onlyRow, type Query, SNAPSHOT } from './connection.ts'
import { readStoredKeys, select as selectPlans } from './registry.ts'
import { newer, SCHEMA_VERSION } from './schema.ts'

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

/** What a COPY gives, in portions of a bounded size; it begins when the first is asked for. */
async function* copyOut(
  tx: TransactionSQL,
  select: string,
  kinds: readonly Kind[],
): AsyncGenerator<CopyValue[][]> {
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
    `select i.id::text as database, i.schema,
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
