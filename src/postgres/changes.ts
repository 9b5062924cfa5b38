/**
 * What a node reads of the database to make its copies: where list and keys stand, and what has changed
 * since a version, as of one moment. Rows of the list come by COPY, in its text format.
 */
import type { TransactionSQL } from 'bun'
import type { ChangeSource, KeyChanges, ListChanges, Version, Versions } from '../node/ports.ts'
import { type City, ROW_COLUMNS, type Row } from '../proxies/row.ts'
import { type Connection, onlyRow, type Query, queryOf, SNAPSHOT } from './connection.ts'
import { newer, SCHEMA_VERSION } from './migrate.ts'
import { readStoredKeys, selectPlans } from './registry.ts'

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

/** The row of values as they are stored: in `ip_out`, an IPv4 address is a number, an IPv6 one is text, `''` unknown. */
export const toRow = (values: readonly (number | string)[]): Row =>
  values.map(value => {
    const number = Number(value)
    return value === '' || Number.isNaN(number) ? value : number
  }) as Row // the columns are those of a row

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
  /**
   * The rows of a COPY, in the portions in which they come; it begins when the first is asked for. No value is NULL,
   * or has a character that COPY escapes.
   */
  async function* copyOut<T>(select: string, toItem: (values: string[]) => T): AsyncGenerator<T[]> {
    let rest = ''
    for await (const { buffer, byteOffset, length } of tx
      .unsafe(`copy (${select}) to stdout`)
      .readable()) {
      const lines = (rest + Buffer.from(buffer, byteOffset, length).toString('latin1')).split('\n')
      rest = lines.pop() ?? ''
      if (lines.length > 0) yield lines.map(line => toItem(line.split('\t')))
    }
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
    removed: copyOut(gone, ([id]) => Number(id)),
    rows: copyOut(changed, toRow),
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
