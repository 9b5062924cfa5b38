/** What the page asks the service about the list: its statistics, and names of services. */
import { isObject, strings } from './json.ts'
import { readStats, type Stats } from './stats.ts'

/** What the page knows of the list. `off`: the service shows no statistics. */
export type Known =
  | { kind: 'loading' | 'off' | 'failed'; stats: null }
  | { kind: 'full' | 'totals'; stats: Stats }

export const LOADING: Known = { kind: 'loading', stats: null }

/** How often statistics are asked for again, while the page is visible. */
export const POLL_MS = 60_000

/**
 * Asks for the statistics. The browser sends the entity tag of what it has and gives that back
 * when nothing changed.
 * @returns `null` when they are those with the tag `known`.
 */
export async function askStats(
  known: string | null,
): Promise<{ now: Known; tag: string | null } | null> {
  try {
    const response = await fetch('/stats', { cache: 'no-cache', credentials: 'omit' })
    if (response.status === 404) return { now: { kind: 'off', stats: null }, tag: null }
    const tag = response.headers.get('etag')
    if (tag !== null && tag === known) return null
    const stats = response.ok ? readStats(await response.json()) : null
    if (stats === null) return { now: { kind: 'failed', stats }, tag: null }
    return { now: { kind: stats.counted === null ? 'totals' : 'full', stats }, tag }
  } catch {
    return { now: { kind: 'failed', stats: null }, tag: null }
  }
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
