/** Owns what is counted of a list as a whole: by type, by country and by age of the check. */
import { DEFAULT_AGE_MAX_SECONDS } from './filter.ts'
import type { ProxyType } from './proxy.ts'

/** Bounds of the age of a check, in seconds. */
export const AGES_SECONDS = [60, 300, 600, 3600, 86_400, 604_800] as const

export type Breakdown = {
  rows: number
  /** The newest check, in Unix seconds; `null` for an empty list. */
  newest: number | null
  /** The check that half of the rows are newer than, likewise. */
  median: number | null
  types: readonly { type: ProxyType; count: number }[]
  /** The most frequent first; the country is `''` where it is unknown. */
  countries: readonly { country: string; count: number }[]
  /** Rows by the smallest bound that holds; `null`: older than all. */
  ages: readonly { seconds: number | null; count: number }[]
}

/** The rows that a query without `time` sees. */
export const freshRows = ({ ages }: Breakdown): number =>
  ages
    .filter(({ seconds }) => seconds !== null && seconds <= DEFAULT_AGE_MAX_SECONDS)
    .reduce((sum, { count }) => sum + count, 0)
