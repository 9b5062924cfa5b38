/** Owns reading statements that always return one row. */
import { StoreError } from '../lib/errors.ts'
import type { Query, Value } from './connection.ts'

const EMPTIED =
  'a table of the schema proxylist was emptied; restore a backup of the database, or use an empty one'

/**
 * The only row of a statement that always has one.
 * @throws StoreError when there is none, because somebody has emptied a table.
 */
export async function onlyRow<R extends object>(
  query: Query,
  text: string,
  values?: readonly Value[],
): Promise<R> {
  const [row] = await query<R>(text, values)
  if (row === undefined) throw new StoreError(EMPTIED)
  return row
}

/** Inserts rows into a table, all with the same columns; the types of these are those of the table. */
export async function insertRows(
  query: Query,
  table: string,
  rows: readonly { readonly [column: string]: unknown }[],
): Promise<void> {
  const [first] = rows
  if (first === undefined) return
  const columns = Object.keys(first).join(', ')
  await query(
    `insert into proxylist.${table} (${columns}) select ${columns}
     from json_populate_recordset(null::proxylist.${table}, $1::text::json)`,
    [JSON.stringify(rows)],
  )
}
