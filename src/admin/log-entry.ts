/** Entries of the live log: a line of the access log, its filters, why it was refused, and the label of its key. */
import type { Registry } from '../access/ports.ts'
import { describeParameters } from '../api/query.ts'
import type { Clock } from '../lib/clock.ts'
import { nextTurn } from '../lib/errors.ts'
import { queryStringOf, splitQueryString } from '../lib/query-string.ts'
import type { LogEntry } from './api-types.ts'
import type { Logged } from './live-log.ts'

/** A text that looks like a key: one of ours, or 16 characters with a digit. Any parameter may have it by mistake. */
const LIKE_KEY = /pl_|temp_|(?:^|[^\w-])(?=[\w-]{16})[\w-]*\d/i

/** Reads the filters of a URL. Leaves out unknown parameters, and values that look like a key. */
export function createFilterReader(provider: string) {
  const names = new Set<string | null>(describeParameters(provider).map(({ name }) => name))
  return (url: string): string => {
    const all = splitQueryString(queryStringOf(url))
    const keys = all.flatMap(({ name, value }) => (name === 'key' && value ? [value] : []))
    const mayBeShown = (value: string): boolean =>
      !LIKE_KEY.test(value) && !keys.some(key => key !== 'demo' && value.includes(key))
    return all
      .flatMap(({ name, value }) =>
        names.has(name) && value && mayBeShown(value) ? [`${name}=${encoded(value)}`] : [],
      )
      .join('&')
  }
}
const encoded = (value: string): string =>
  encodeURIComponent(value.toWellFormed()).replace(/%2C|%3A/g, decodeURIComponent)

/** The paths whose query has filters. */
const WITH_FILTERS: ReadonlySet<string> = new Set(['/api', '/stats'])

/** Lines that are described at once: about a millisecond of work. */
const SLICE = 200

/** Describes finished requests, with the current labels of their keys. */
export function createLogReader(
  keys: Pick<Registry['keys'], 'list'>,
  provider: string,
  clock: Clock,
) {
  const filtersOf = createFilterReader(provider)
  /** Without keys, the log has no labels. */
  async function listed(ids: readonly string[]) {
    try {
      return ids.length === 0 ? [] : await keys.list(clock(), ids)
    } catch {
      return []
    }
  }
  return async (all: readonly Logged[]): Promise<LogEntry[]> => {
    const entries: LogEntry[] = []
    for (const { line, url, error } of all) {
      if (entries.length % SLICE === SLICE - 1) await nextTurn()
      const { why, ...entry }: LogEntry & { why?: string } = JSON.parse(line) // our own
      const { code = null, message = null } = error ?? {}
      const query = WITH_FILTERS.has(entry.path) ? filtersOf(url) : ''
      const said = { code: code as LogEntry['code'], message: why ?? message }
      entries.push({ ...entry, query, ...said, label: '' })
    }
    const ids = new Set(entries.flatMap(({ key }) => key ?? []))
    const labels = new Map((await listed([...ids])).map(({ id, label }) => [id, label]))
    return entries.map(entry => ({ ...entry, label: labels.get(entry.key ?? '') ?? '' }))
  }
}
