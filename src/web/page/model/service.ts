/** What the page asks the service about the list: its statistics. */
import type { StatsDocument, StatsTotals } from '../../../proxies/stats-document.ts'
import type { Name, Param } from './query.ts'

/** What the page knows of the list. `off`: the service shows no statistics; `isOld`: it is of an earlier query. */
export type Known = { isOld?: boolean } & (
  | { kind: 'loading' | 'off' | 'failed'; stats: null }
  | { kind: 'totals'; stats: StatsTotals }
  | { kind: 'full'; stats: StatsDocument }
)

export const LOADING: Known = { kind: 'loading', stats: null }
const FAILED: Known = { kind: 'failed', stats: null }

/** How often statistics are asked for again, while the page is visible; sooner after a failure. */
export const POLL_MS = 60_000
export const RETRY_MS = 5_000
/** How long a choice has to stay before it is asked about. */
export const SETTLE_MS = 150

/** The filters that statistics know: not those by which an address could be guessed (contract F4). */
const COUNTED: readonly Name[] = [
  ...(['type', 'anon', 'ping', 'speed', 'time', 'works', 'country', 'country_mode'] as const),
  ...(['city', 'service', 'lang'] as const),
]
export const countedOf = (params: readonly Param[]): Param[] =>
  params.filter(([name]) => COUNTED.some(counted => counted === name))

async function load(query: string): Promise<Known> {
  try {
    const response = await fetch(`/stats${query}`, { cache: 'no-cache', credentials: 'omit' })
    // Where there are totals alone, no filter is taken.
    if (response.status === 400 && query !== '') return load('')
    if (response.status === 404) return { kind: 'off', stats: null }
    const stats = (await response.json()) as StatsTotals | StatsDocument // of our own service
    if (!response.ok || !Number.isInteger(stats.total)) return FAILED
    return 'facets' in stats ? { kind: 'full', stats } : { kind: 'totals', stats }
  } catch {
    return FAILED
  }
}

const asked = new Map<string, Promise<Known>>()

/** Who asks the same so soon gets the same answer. */
const SHARED_MS = 1_000

export function askStats(query: string): Promise<Known> {
  const known = asked.get(query)
  if (known !== undefined) return known
  const forget = (): void => void setTimeout(() => asked.delete(query), SHARED_MS)
  const fresh = load(query && `?${query}`).finally(forget)
  asked.set(query, fresh)
  return fresh
}
