/** Owns the numbers of rows that a backup or a restore reports. */
import type { Database } from 'bun:sqlite'
import type { ServerHolds } from '../migrate.ts'

/** Numbers of rows, for the operator. */
export type Counts = { keys: number; plans: number; proxies: number }

export const NO_COUNTS: Counts = { keys: 0, plans: 0, proxies: 0 }

/** The tables of each database whose rows are counted. */
const COUNTED = { access: ['keys', 'plans'], proxies: ['proxies'] } as const

/** The rows of the tables of an open database. */
export function countRows(db: Database, holds: ServerHolds): Partial<Counts> {
  const count = (table: string) =>
    db.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()?.n ?? 0
  return Object.fromEntries(COUNTED[holds].map(table => [table, count(table)]))
}
