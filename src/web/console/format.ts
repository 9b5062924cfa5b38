/** Formats numbers, times and durations in English. */
import { unixMs } from '../parts/browser.ts'
import { createFormat, sentencesIn } from '../parts/format.ts'
import { KEY_WORDS } from '../parts/translations.ts'

/** The formats and words of the parts that all pages share. */
export const SAY = { ...createFormat('en'), words: sentencesIn('en', KEY_WORDS) }

export const { number, bytes, unit, countdown, utc } = SAY

export const keysIn = (n: number): string => `${number(n)} ${SAY.plural(n, 'key / keys')}`

/** Shown for an unknown value. */
export const UNKNOWN = '–'

const integer = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const digits = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })

/** Three significant digits: `0.41`, `12.5`, `1,204`. */
export const amount = (n: number): string => (n >= 100 ? integer : digits).format(n)

export const ms = (n: number): string => `${amount(n)} ms`

/** A part of 1. */
export const share = (part: number): string => unit(part * 100, 'percent', 1)

/** Seconds from now, or ago when negative: `in 3 hr`, `12 min ago`. */
export function distance(seconds: number): string {
  const span = SAY.age(Math.abs(Math.round(seconds)))
  return seconds < 0 ? `${span} ago` : `in ${span}`
}

/** The distance of an instant from now. */
export const ago = (iso: string): string => distance((Date.parse(iso) - unixMs()) / 1000)

// British English writes dates without commas, and times without am and pm.
const formatter = (look: Intl.DateTimeFormatOptions) => {
  const format = new Intl.DateTimeFormat('en-GB', { ...look, hourCycle: 'h23' })
  return (time: number | string): string =>
    format.format(typeof time === 'string' ? Date.parse(time) : time)
}
const minutes = { hour: '2-digit', minute: '2-digit' } as const
const day = { day: 'numeric', month: 'short' } as const

/** Unix milliseconds or ISO 8601, in the local time zone. */
export const clock = formatter(minutes)
export const seconds = formatter({ timeStyle: 'medium' })
export const dateOf = formatter({ ...day, year: 'numeric' })
export const moment = formatter({ ...day, ...minutes, year: 'numeric' })
/** A point of a chart. */
export const pointAt = formatter({ ...day, ...minutes })

/** A UTC day such as `2026-11-22`. */
export const dayOf = formatter({ ...day, timeZone: 'UTC' })
