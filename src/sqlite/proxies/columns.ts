/** Owns the names of the columns in which a row of `proxies/row.ts` is stored. */
import type { Row } from '../../proxies/row.ts'

type Names<R extends readonly unknown[]> = { readonly [Position in keyof R]: string }

/** The columns of a row, in its order. */
export const ROW_COLUMNS = [
  'id',
  'checked_at',
  'ping_ms',
  'type',
  'anon',
  'works',
  'speed',
  'services',
  'country',
  'city',
  'ip_out',
] as const satisfies Names<Row>

/** The columns of an endpoint. */
export const ENDPOINT_COLUMNS = ROW_COLUMNS.slice(0, 4)
