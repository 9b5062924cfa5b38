/** Owns what the operator sees of a list as a whole: by type, by country and by age of the check. */

import { type ProxyType, TYPES } from '../proxy.ts'
import { countryText } from '../row.ts'
import { AGES_SECONDS, type Cell, type ListCounts, OLDER } from './counts.ts'

export type Breakdown = {
  rows: number
  /** The newest check, in Unix seconds; `null` for an empty list. */
  newest: number | null
  types: readonly { type: ProxyType; count: number }[]
  /** The most frequent first; the country is `''` where it is unknown. */
  countries: readonly { country: string; count: number }[]
  /** Rows by the smallest bound that holds; `null`: older than all. */
  ages: readonly { seconds: number | null; count: number }[]
}

/** The rows of the cells by one of their values. */
function countBy(cells: readonly Cell[], value: 'type' | 'country' | 'age'): Map<number, number> {
  const counts = new Map<number, number>()
  for (const cell of cells) {
    counts.set(cell[value], (counts.get(cell[value]) ?? 0) + cell.count)
  }
  return counts
}

export function breakdownOf({ rows, newest, cells }: ListCounts): Breakdown {
  const types = countBy(cells, 'type')
  const ages = countBy(cells, 'age')
  return {
    rows,
    newest,
    types: TYPES.map((type, i) => ({ type, count: types.get(i) ?? 0 })),
    countries: [...countBy(cells, 'country')]
      .sort(([a, countA], [b, countB]) => countB - countA || a - b)
      .map(([country, count]) => ({ country: countryText(country), count })),
    ages: [
      ...AGES_SECONDS.map((seconds, i) => ({ seconds, count: ages.get(i) ?? 0 })),
      { seconds: null, count: ages.get(OLDER) ?? 0 },
    ],
  }
}
