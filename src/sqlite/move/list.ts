/**
 * Owns reading all of an open list, and writing it into a new one, as the values that are moved to
 * another store (`move/contents.ts`).
 */
import type { Database } from 'bun:sqlite'
import type { Contents, Reader, Writer } from '../../move/contents.ts'
import type { Row } from '../../proxies/row.ts'
import { ROW_COLUMNS } from '../../proxies/row.ts'
import { createIndexUpkeep } from '../proxies/indexes.ts'

/** Rows of a page. */
export const PAGE_ROWS = 2_000

/** Rows in pages; none is empty. */
export function* pagesOf<R>(rows: Iterable<R>): Generator<R[]> {
  let page: R[] = []
  for (const row of rows) {
    if (page.push(row) < PAGE_ROWS) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}

export type ListPart = 'cities' | 'proxies'

const COLUMNS = ROW_COLUMNS.join(', ')

/** Reads an open list; everything within one transaction of the caller. */
export function createListReader(db: Database): Pick<Reader, ListPart> {
  const cities = db.prepare<Contents['cities'], []>(
    'select id, name, name_en as nameEn from cities order by id',
  )
  const page = db.prepare(`select ${COLUMNS} from proxies where id > ? order by id limit ?`)
  return {
    cities: () => pagesOf(cities.iterate()),
    *proxies() {
      for (let lastId = -1; ; ) {
        const rows = page.values(lastId, PAGE_ROWS) as unknown as Row[] // values() is untyped
        if (rows.length > 0) yield rows
        if (rows.length < PAGE_ROWS) return
        lastId = rows.at(-1)?.[0] ?? Number.MAX_SAFE_INTEGER
      }
    },
  }
}

/** Writes into an open list without any rows; `finish` makes its indexes. */
export function createListWriter(db: Database): Pick<Writer, ListPart> & { finish(): void } {
  const indexes = createIndexUpkeep(db)
  indexes.prepareFor(Number.POSITIVE_INFINITY)
  const city = db.prepare<never, [number, string, string]>('insert into cities values (?, ?, ?)')
  const proxy = db.prepare<never, Row>(
    `insert into proxies (${COLUMNS}) values (${ROW_COLUMNS.map(() => '?').join(', ')})`,
  )
  return {
    cities(page) {
      for (const { id, name, nameEn } of page) city.run(id, name, nameEn)
    },
    proxies(page) {
      for (const row of page) proxy.run(...row)
    },
    finish: indexes.restore,
  }
}
