/** Entries of the live log: a line of the access log, its filters, why it was refused, and the label of its key. */
import type { Registry } from '../access/ports.ts'
import { createParamsParser, describeParameters } from '../api/query.ts'
import { type Clock, stopwatch } from '../lib/clock.ts'
import { nextTurn } from '../lib/errors.ts'
import { type Pair, queryStringOf, splitQueryString } from '../lib/query-string.ts'
import type { LogEntry } from './api-types.ts'
import type { Logged } from './live-log.ts'

/** The longest time in milliseconds that requests wait for the log. */
const SLICE_MS = 4
/** The most parameters of a wrong query that are tried one by one. */
const TRIED_MAX = 100

/** A text that looks like a key: one of ours, or 16 characters with a digit. Any parameter may have it by mistake. */
const LIKE_KEY = /pl_|temp_|(?:^|[^\w-])(?=[\w-]{16})[\w-]*\d/i

/** Reads the filters of a URL in documented order. Leaves out wrong values, and values that look like a key. */
export function createFilterReader(provider: string) {
  const parameters = describeParameters(provider)
  const names = new Set<string | null>(parameters.map(({ name }) => name))
  const parse = createParamsParser(provider)
  const tryParse = (pairs: readonly Pair[]) => {
    try {
      return parse(pairs)
    } catch {
      return null
    }
  }
  return (url: string): string => {
    const all = splitQueryString(queryStringOf(url))
    const keys = all.flatMap(({ name, value }) => (name === 'key' && value ? [value] : []))
    const mayBeShown = (value: string): boolean =>
      !LIKE_KEY.test(value) && !keys.some(key => key !== 'demo' && value.includes(key))
    const known = all.filter(
      ({ name, value }) => names.has(name) && value !== null && value !== '' && mayBeShown(value),
    )
    const get = known.filter(pair => pair.name === 'get' && tryParse([pair]) !== null)
    const form = tryParse(get)?.output.kind ?? 'txt'
    const right =
      tryParse(known) === null
        ? known
            .slice(0, TRIED_MAX)
            .filter(pair => tryParse(pair.name === 'get' ? [pair] : [...get, pair]) !== null)
        : known
    return parameters
      .filter(({ forms }) => forms.includes(form))
      .flatMap(({ name }) => {
        const values = right.flatMap(pair => (pair.name === name ? [pair.value ?? ''] : []))
        if (values.length === 0) return []
        return `${name}=${encodeURIComponent(values.join().toWellFormed()).replace(/%2C|%3A/g, decodeURIComponent)}`
      })
      .join('&')
  }
}

/** The paths whose query has filters. */
const WITH_FILTERS: ReadonlySet<string> = new Set(['/api', '/stats'])

/** Describes finished requests, with the current labels of their keys. */
export function createLogReader(
  keys: Pick<Registry['keys'], 'list'>,
  provider: string,
  clock: Clock,
  startWatch = stopwatch,
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
    let elapsedMs = startWatch()
    for (const { line, url, error } of all) {
      if (elapsedMs() >= SLICE_MS) {
        await nextTurn()
        elapsedMs = startWatch()
      }
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
