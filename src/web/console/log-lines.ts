/** The lines of the live log that this tab holds: how many, which are shown, gaps, what they say. Pure. */
import type { ErrorCode, LogEntry, LogPage } from '../../admin/api-types.ts'
import { paramsOf } from './address.ts'

/** Lines that are held at most; the oldest are dropped. */
export const LOG_LINES = 2000

/** A request, or a place where so many are missing; `null`: the server was started again. */
export type LogLine =
  | { kind: 'request'; id: string; entry: LogEntry }
  | { kind: 'gap'; id: string; missed: number | null }

/** Adds what was answered to lines, newest first. */
export function append(lines: readonly LogLine[], { lines: more, missed, next }: LogPage) {
  const added = more.map((entry): LogLine => ({ kind: 'request', id: entry.id, entry })).reverse()
  const gap: LogLine[] = missed === 0 ? [] : [{ kind: 'gap', id: `before ${next}`, missed }]
  return [...added, ...gap, ...lines].slice(0, LOG_LINES)
}

/** Which lines are shown; `''`: any. `code` is that of an error, or one of `OUTCOMES`; `key` an id. */
export type LogFilter = { code: string; key: string; text: string }

/** The filter that a fragment such as `#log?code=PROXIES_NOT_FOUND` names, and the fragment of one. */
export function readLogFilter(hash: string): LogFilter {
  const valueOf = (name: string): string => paramsOf(hash).get(name) ?? ''
  return { code: valueOf('code'), key: valueOf('key'), text: valueOf('text') }
}
export function logHref(filter: Partial<LogFilter>): string {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== ''))
  return query.size === 0 ? '#log' : `#log?${query}`
}

export const CODE_WORDS: { readonly [code in ErrorCode]: string } = {
  PROXIES_NOT_FOUND: 'nothing matched',
  INVALID_PARAMETER: 'bad parameter',
  KEY_MISSING: 'no key',
  INVALID_KEY: 'unknown or ended key',
  TEMP_KEY_INVALID: 'ended temporary key',
  RATE_LIMIT_EXCEEDED: 'too many at once',
  DAILY_LIMIT_REACHED: 'requests of the day used up',
  SUBNET_LIMIT_REACHED: 'networks of the day used up',
  DEMO_LIMIT_REACHED: 'limit of demo reached',
  TEMP_LIMIT_REACHED: 'limit of temporary keys reached',
  NOT_FOUND: 'no such path',
  METHOD_NOT_ALLOWED: 'wrong method',
  INTERNAL_ERROR: 'our mistake',
  DB_EXECUTE_FAILED: 'database failed',
}

export function wordsOf({ code, status }: LogEntry): string {
  if (code !== null) return CODE_WORDS[code]
  return status === 304 ? 'not changed' : 'answered'
}

/** The request as a shell sends it, with the key in `$KEY`; `''` where it cannot be known. */
export function curlOf({ method, path, query, key }: LogEntry, origin: string): string {
  if (!path.startsWith('/') || (method !== 'GET' && method !== 'HEAD')) return ''
  const head = method === 'HEAD' ? ' --head' : ''
  const bearer = key === null && path !== '/api' ? '' : ' -H "Authorization: Bearer $KEY"'
  return `curl${head}${bearer} '${origin}${path}${query === '' ? '' : `?${query.replaceAll("'", '%27')}`}'`
}

/** The kind of outcome of a request. */
export function outcomeOf(status: number) {
  if (status >= 500) return 'failed'
  if (status === 404) return 'notFound'
  if (status === 429) return 'refused'
  return status >= 400 ? 'rejected' : 'ok'
}

/** Filters by outcome, besides the codes of errors. */
export const OUTCOMES = { ok: 'Answered', error: 'Any error' }

/** Whether a filter shows a request; its text is looked for in all that is said of it. */
function isShown(entry: LogEntry, { code, key, text }: LogFilter): boolean {
  const isOk = outcomeOf(entry.status) === 'ok'
  if (code !== '' && code !== entry.code && code !== (isOk ? 'ok' : 'error')) return false
  if (key !== '' && key !== entry.key) return false
  if (text === '') return true
  const said = [...Object.values(entry), wordsOf(entry)].join(' ').toLowerCase()
  return said.includes(text.trim().toLowerCase())
}

/** The lines that a filter shows; places where some are missing always. */
export const selectLines = (lines: readonly LogLine[], filter: LogFilter): readonly LogLine[] =>
  lines.filter(line => line.kind === 'gap' || isShown(line.entry, filter))

export const keysIn = (lines: readonly LogLine[]): ReadonlyMap<string, string> =>
  new Map(
    lines.flatMap(line =>
      line.kind === 'request' && line.entry.key !== null
        ? [[line.entry.key, line.entry.label]]
        : [],
    ),
  )
