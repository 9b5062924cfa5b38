/** Owns counting a list by type, by country and by age, which reads all rows. */
import type { Database } from 'bun:sqlite'
import { AGES_SECONDS, type Breakdown } from '../../proxies/breakdown.ts'
import { TYPES } from '../../proxies/proxy.ts'
import { countryText } from '../../proxies/row.ts'

type Counted = { value: number; count: number }

const countBy = (db: Database, column: string): Counted[] =>
  db
    .prepare<Counted, []>(
      `select ${column} as value, count(*) as count from proxies group by 1 order by 2 desc, 1`,
    )
    .all()

/** The rows of an open list as it is at one instant, `now` in Unix seconds. */
export function readBreakdown(db: Database, now: number): Breakdown {
  const later = db.prepare<{ rows: number; newest: number | null }, [number]>(
    'select count(*) as rows, max(checked_at) as newest from proxies where checked_at >= ?',
  )
  const since = (second: number) => later.get(second) ?? { rows: 0, newest: null }
  return db.transaction((): Breakdown => {
    const { rows, newest } = since(Number.MIN_SAFE_INTEGER)
    const bounds = AGES_SECONDS.map(seconds => ({ seconds, rows: since(now - seconds).rows }))
    const types = new Map(countBy(db, 'type').map(({ value, count }) => [value, count]))
    return {
      rows,
      newest,
      types: TYPES.map((type, i) => ({ type, count: types.get(i) ?? 0 })),
      countries: countBy(db, 'country').map(({ value, count }) => ({
        ...{ country: countryText(value), count },
      })),
      ages: [...bounds, { seconds: null, rows }].map(({ seconds, rows: within }, i) => ({
        ...{ seconds, count: within - (bounds[i - 1]?.rows ?? 0) },
      })),
    }
  })()
}
