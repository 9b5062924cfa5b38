/** What the page asks the service about the list: its statistics, and names of services. */
import type { StatsDocument, StatsTotals } from '../../../proxies/stats-document.ts'
import { isObject, strings } from './json.ts'
import type { Name, Param } from './query.ts'

/** What the page knows of the list. `off`: the service shows no statistics. */
export type Known =
  | { kind: 'loading' | 'off' | 'failed'; stats: null }
  | { kind: 'totals'; stats: StatsTotals }
  | { kind: 'full'; stats: StatsDocument }

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

const isTotals = (document: unknown): document is StatsTotals =>
  isObject(document) && typeof document.total === 'number'
/** It is of our own service: what it has is as it should be. */
const isFull = (document: StatsTotals): document is StatsDocument => 'facets' in document

async function load(url: string): Promise<Known> {
  try {
    const response = await fetch(url, { cache: 'no-cache', credentials: 'omit' })
    if (response.status === 404) return { kind: 'off', stats: null }
    const document: unknown = response.ok ? await response.json() : null
    if (!isTotals(document)) return FAILED
    if (isFull(document)) return { kind: 'full', stats: document }
    return { kind: 'totals', stats: document }
  } catch {
    return FAILED
  }
}

const asked = new Map<string, Promise<Known>>()

/** Who asks the same so soon gets the same answer. */
const SHARED_MS = 1_000

/** Asks for the statistics of a query. */
export function askStats(query: string): Promise<Known> {
  const url = query === '' ? '/stats' : `/stats?${query}`
  const known = asked.get(url)
  if (known !== undefined) return known
  const fresh = load(url).finally(() => setTimeout(() => asked.delete(url), SHARED_MS))
  asked.set(url, fresh)
  return fresh
}

/** The values of the parameter `service` in an OpenAPI document; `null` when it has none. */
export function readServices(document: unknown): string[] | null {
  const found: string[][] = []
  const visit = (value: unknown, isService: boolean): void => {
    if (!isObject(value)) return
    const isHere = isService || value.name === 'service'
    if (isHere && Array.isArray(value.enum)) found.push(strings(value.enum))
    for (const inner of Object.values(value)) visit(inner, isHere)
  }
  visit(document, false)
  return found[0] ?? null
}

/** The names of services where statistics do not have them; `null` when nothing says. */
export async function askServices(): Promise<string[] | null> {
  try {
    const response = await fetch('/openapi.json', { credentials: 'omit' })
    return response.ok ? readServices(await response.json()) : null
  } catch {
    return null
  }
}
