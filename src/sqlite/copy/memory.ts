/**
 * Owns a list in memory that is filled with rows as they are stored elsewhere: for a command that reads
 * a shared list, with the code that reads one of a data directory.
 */
import { ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import type { City } from '../../replication/store.ts'
import { type List, openList } from '../stores.ts'

/** Opens a list with what `fill` adds. */
export async function openFilledList(
  fill: (add: {
    cities(cities: readonly City[]): void
    rows(rows: readonly Row[]): void
  }) => Promise<unknown>,
): Promise<List> {
  const list = openList(null)
  const { db } = list
  const addCity = db.prepare<never, [number, string, string]>('insert into cities values (?, ?, ?)')
  const addRow = db.prepare<never, Row>(
    `insert into proxies (${ROW_COLUMNS.join(', ')}) values (${ROW_COLUMNS.map(() => '?').join(', ')})`,
  )
  db.run('begin')
  await fill({
    cities(cities) {
      for (const { id, name, nameEn } of cities) addCity.run(id, name, nameEn)
    },
    rows(rows) {
      for (const row of rows) addRow.run(...row)
    },
  })
  db.run('commit')
  addCity.finalize()
  addRow.finalize()
  return list
}
