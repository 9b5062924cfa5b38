/** Units of time, and parsing and formatting of instants and durations. Pure. */

export const SECOND_MS = 1000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

const TIMECHECK_OFFSET_SECONDS = 2 * 3600

/** Whole Unix seconds of an instant in milliseconds. */
export const toSeconds = (ms: number): number => Math.floor(ms / SECOND_MS)

/** The present instant for ages of checks. Rounded down, it would accept checks that are a second too old. */
export const ageClock = (ms: number): number => Math.ceil(ms / SECOND_MS)

/** Number of the UTC day of an instant, counted from 1970-01-01. */
export const utcDay = (ms: number): number => Math.floor(ms / DAY_MS)

/** `YYYY-MM-DD` of a UTC day, see `utcDay`. */
export const formatDay = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)

/** Caches the last result of a formatter: busy servers format the same instant many times. */
function rememberLast(format: (instant: number) => string): (instant: number) => string {
  let known = Number.NaN
  let text = ''
  return instant => {
    if (instant !== known) text = format(instant)
    known = instant
    return text
  }
}

/** ISO 8601 with `Z`, milliseconds included. */
export const formatInstant = rememberLast(ms => new Date(ms).toISOString())

/** As `formatInstant`; `null` stays `null`. */
export const formatInstantOrNull = (ms: number | null): string | null =>
  ms === null ? null : formatInstant(ms)

/** Unix milliseconds as the date of an HTTP header field (RFC 9110, 5.6.7). */
export const formatHttpDate = rememberLast(ms => new Date(ms).toUTCString())

/** `YYYY-MM-DD HH:MM:` at UTC+2, from Unix minutes. */
const formatMinute = rememberLast(minutes =>
  new Date(minutes * MINUTE_MS + TIMECHECK_OFFSET_SECONDS * SECOND_MS)
    .toISOString()
    .slice(0, 17)
    .replace('T', ' '),
)
const TWO_DIGITS = Array.from({ length: 60 }, (_, n) => String(n).padStart(2, '0'))

/** `YYYY-MM-DD HH:MM:SS` at UTC+2, from whole Unix seconds. Neighbours mostly share the minute. */
export function formatTimecheck(seconds: number): string {
  const minutes = Math.floor(seconds / 60)
  return `${formatMinute(minutes)}${TWO_DIGITS[seconds - minutes * 60]}`
}

/** Unix seconds of a `timecheck` string; `null` for any other string, also for 31 June. */
export function parseTimecheck(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/.test(text)) return null
  const ms = Date.parse(`${text.replace(' ', 'T')}Z`)
  if (Number.isNaN(ms)) return null
  const seconds = ms / SECOND_MS - TIMECHECK_OFFSET_SECONDS
  return formatTimecheck(seconds) === text ? seconds : null
}

const ISO_8601 = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?$/i

/** Unix milliseconds of an ISO 8601 date or date-time, in UTC if it has no zone; `null` for any other string. */
export function parseInstant(text: string): number | null {
  if (!ISO_8601.test(text)) return null
  const zoned = /(?:Z|[+-]\d\d:?\d\d)$/i.test(text) || text.length === 10 ? text : `${text}Z`
  const ms = Date.parse(zoned.replace(' ', 'T'))
  if (Number.isNaN(ms)) return null
  // Date.parse accepts 31 June as 1 July, so format the day again and compare.
  const day = text.slice(0, 10)
  return formatDay(utcDay(Date.parse(day))) === day ? ms : null
}

const UNITS_MS = { ms: 1, s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS, w: 7 * DAY_MS }

/** Milliseconds of a duration such as `90s`, `15m`, `24h`, `30d`; `null` for any other string. */
export function parseDuration(text: string): number | null {
  const match = /^(\d{1,9})(ms|s|m|h|d|w)$/.exec(text)
  if (!match) return null
  const unit = UNITS_MS[match[2] as keyof typeof UNITS_MS] // the pattern accepts only these
  return Number(match[1]) * unit
}

/** The shortest form that `parseDuration` reads: `5m`, `90s`. */
export function formatDuration(ms: number): string {
  const [unit, size] = Object.entries(UNITS_MS).findLast(([, size]) => ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}

/** As `parseDuration`, for durations from `least` to `most` milliseconds. */
export function parseDurationWithin(text: string, least: number, most: number): number | null {
  const ms = parseDuration(text)
  return ms !== null && ms >= least && ms <= most ? ms : null
}
