/** Asks the server for statistics of the list. */
import type { StatsDocument, StatsTotals } from '../../../proxies/stats-document.ts'
import { type Problem, readProblem } from './answer.ts'
import type { Name, Param } from './query.ts'

/**
 * What the page knows of the list. `off`: the server publishes no statistics. `isOld`: the numbers are of an
 * earlier query. `refusal`: the error of a 400; the numbers count the whole list.
 */
export type StatsState = { isOld?: boolean; refusal?: Problem } & (
  | { kind: 'loading' | 'off' | 'failed'; stats: null }
  | { kind: 'totals'; stats: StatsTotals }
  | { kind: 'full'; stats: StatsDocument }
)

export const LOADING: StatsState = { kind: 'loading', stats: null }
const FAILED: StatsState = { kind: 'failed', stats: null }

/** How often statistics are loaded again while the page is visible, and after a failure. */
export const POLL_MS = 60_000
export const RETRY_MS = 5_000
/** How long a choice must be unchanged before its statistics are loaded. */
export const SETTLE_MS = 150

/** The filters of statistics: not those by which an address could be guessed (contract F4). */
const COUNTED: readonly Name[] = [
  ...(['type', 'anon', 'ping', 'speed', 'time', 'works', 'country', 'country_mode'] as const),
  ...(['city', 'service', 'lang'] as const),
]
export const countedOf = (params: readonly Param[]): Param[] =>
  params.filter(([name]) => COUNTED.includes(name))

export async function askStats(query: string): Promise<StatsState> {
  try {
    const path = query === '' ? '/stats' : `/stats?${query}`
    const response = await fetch(path, { cache: 'no-cache', credentials: 'omit' })
    if (response.status === 404) return { kind: 'off', stats: null }
    if (response.status === 400 && query !== '') {
      const refusal = readProblem(await response.text(), 400)
      const whole = await askStats('')
      // Where only totals are public, /stats takes no filters.
      return whole.kind === 'full' ? { ...whole, refusal } : whole
    }
    const stats = (await response.json()) as StatsTotals | StatsDocument
    if (!response.ok || !Number.isInteger(stats.total)) return FAILED
    return 'facets' in stats ? { kind: 'full', stats } : { kind: 'totals', stats }
  } catch {
    return FAILED
  }
}
