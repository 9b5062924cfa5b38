/** The lines of the live log: which ones are shown, and their words. */
import type { ErrorCode, LogEntry, LogPage } from '../../admin/api-types.ts'
import { paramsOf } from './address.ts'

/** The most lines that a tab keeps. */
export const LOG_LINES = 2000

/** Adds new lines to `lines`, newest first. */
export const append = (lines: readonly LogEntry[], { lines: more }: LogPage): LogEntry[] =>
  [...more.toReversed(), ...lines].slice(0, LOG_LINES)

/** `code` is an error code or one of `OUTCOMES`, `key` an id; `''` matches any. */
export type LogFilter = { code: string; key: string; text: string }

/** The log starts with the requests that customers pay for. */
const START: LogFilter = { code: '', key: '', text: '/api' }

/** The filter in a fragment such as `#log?code=PROXIES_NOT_FOUND`. */
export function readLogFilter(hash: string): LogFilter {
  return { ...START, ...Object.fromEntries(paramsOf(hash)) }
}
export function logHref(filter: Partial<LogFilter>): string {
  const changed = Object.entries(filter).filter(([name, value]) => value !== START[name as 'code'])
  return changed.length === 0 ? '#log' : `#log?${new URLSearchParams(changed)}`
}

export const CODE_WORDS: { readonly [code in ErrorCode]: string } = {
  PROXIES_NOT_FOUND: 'nothing matched',
  INVALID_PARAMETER: 'bad parameter',
  KEY_MISSING: 'no key',
  INVALID_KEY: 'unknown or ended key',
  TEMP_KEY_INVALID: 'ended temporary key',
  RATE_LIMIT_EXCEEDED: 'too many at once',
  DAILY_LIMIT_REACHED: 'daily requests used up',
  SUBNET_LIMIT_REACHED: 'daily networks used up',
  DEMO_LIMIT_REACHED: 'demo limit reached',
  TEMP_LIMIT_REACHED: 'temporary key limit reached',
  NOT_FOUND: 'no such path',
  METHOD_NOT_ALLOWED: 'wrong method',
  INTERNAL_ERROR: 'internal error',
  DB_EXECUTE_FAILED: 'database failed',
}

export function wordsOf({ code, status }: LogEntry): string {
  if (code !== null) return CODE_WORDS[code]
  return status === 304 ? 'not changed' : 'answered'
}

export function outcomeOf(status: number) {
  if (status >= 500) return 'failed'
  if (status === 404) return 'notFound'
  if (status === 429) return 'refused'
  return status >= 400 ? 'rejected' : 'ok'
}

/** Filters by outcome, besides the error codes. */
export const OUTCOMES = { ok: 'Answered', error: 'Any error' }

/** The lines that match a filter. Its text is searched in all members. */
export const selectLines = (lines: readonly LogEntry[], { code, key, text }: LogFilter) =>
  lines.filter(entry => {
    const outcome = outcomeOf(entry.status) === 'ok' ? 'ok' : 'error'
    if (code !== '' && code !== entry.code && code !== outcome) return false
    if (key !== '' && key !== entry.key) return false
    const all = [...Object.values(entry), wordsOf(entry)].join(' ').toLowerCase()
    return all.includes(text.trim().toLowerCase())
  })

/** The keys in the log, with their labels. */
export const keysIn = (lines: readonly LogEntry[]): ReadonlyMap<string, string> =>
  new Map(lines.flatMap(({ key, label }) => (key === null ? [] : [[key, label]])))
