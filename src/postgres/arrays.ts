/** The text of arrays as parameters (PostgreSQL documentation, 8.15.6). */

export const INTEGER_MAX = 2 ** 31 - 1

/** A limit as an `integer`: one that is larger, or `null` for none, is never reached. */
export const limitOf = (limit: number | null | undefined): number =>
  Math.min(limit ?? INTEGER_MAX, INTEGER_MAX)

/** The literal of an array; text is quoted, `null` is the value NULL. */
export const arrayLiteral = (items: readonly (string | number | boolean | null)[]): string =>
  `{${items.map(item => (typeof item === 'string' ? quoted(item) : String(item ?? 'null'))).join()}}`

const quoted = (text: string): string =>
  text.includes('"') || text.includes('\\') ? `"${text.replace(/["\\]/g, '\\$&')}"` : `"${text}"`

/** The literals of some columns of rows, for `unnest`. */
export const columnsOf = <Column extends string>(
  rows: readonly { readonly [column in Column]: string | number | null }[],
  ...columns: readonly Column[]
): string[] => columns.map(column => arrayLiteral(rows.map(row => row[column])))

export const bytea = (bytes: Uint8Array): string => `\\x${bytes.toHex()}`

/** The literal of where each of some lists ends, counted from 1, when they are joined to one. */
export function endsOf(lists: readonly { length: number }[]): string {
  let end = 0
  return arrayLiteral(lists.map(({ length }) => (end += length)))
}
