/**
 * Owns a list in memory that is filled with rows as they are stored elsewhere: for a command that reads
 * a shared list, with the code that reads one of a data directory.
 */
import { ROW_COLUMNS, type Row } from '../../proxies/row.ts'
import type { ListChanges } from '../../replication/store.ts'
import { type List, openList } from '../stores.ts'

/** Opens a list that holds these cities and rows. */
export async function openFilledList({
  cities,
  rows,
}: Pick<ListChanges, 'cities' | 'rows'>): Promise<List> {
  const list = openList(null)
  const { db } = list
  const addCity = db.prepare<never, [number, string, string]>('insert into cities values (?, ?, ?)')
  const addRow = db.prepare<never, Row>(
    `insert into proxies (${ROW_COLUMNS.join(', ')}) values (${ROW_COLUMNS.map(() => '?').join(', ')})`,
  )
  db.run('begin')
  for (const { id, name, nameEn } of cities) addCity.run(id, name, nameEn)
  for await (const page of rows) for (const row of page) addRow.run(...row)
  db.run('commit')
  addCity.finalize()
  addRow.finalize()
  return list
}
