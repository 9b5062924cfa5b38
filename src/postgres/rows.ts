/** Owns reading statements that always return one row. */
import type { Query, Value } from './connection.ts'

/** The only row of a statement that always has one. */
export async function onlyRow<R extends object>(
  query: Query,
  text: string,
  values?: readonly Value[],
): Promise<R> {
  const [row] = await query<R>(text, values)
  if (row === undefined) throw new Error('a statement that always has a row returned none')
  return row
}
