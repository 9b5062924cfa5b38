/** How the console writes numbers, instants and spans of time, in English. */
import { unixMs } from '../parts/browser.ts'
import { createFormat, localOffset, SPANS, sentencesIn } from '../parts/format.ts'
import { KEY_WORDS } from '../parts/key-report.ts'

/** How all pages speak of keys. */
export const SAY = { ...createFormat('en'), words: sentencesIn('en', KEY_WORDS) }

export const { number, bytes, unit, countdown } = SAY

export const keysIn = (n: number): string => `${number(n)} ${SAY.plural(n, 'key / keys')}`

/** Stands for what is not known. */
export const UNKNOWN = '–'

const integer = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const digits = new Intl.NumberFormat('en', {
  ...{ maximumFractionDigits: 2, maximumSignificantDigits: 3, roundingPriority: 'lessPrecision' },
})
const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 })
const relative = new Intl.RelativeTimeFormat('en', { style: 'short', numeric: 'always' })

/** Without a fraction. */
export const whole = (n: number): string => integer.format(n)

/** `0.41`, `12.5`, `1,204`: as many digits as say something. */
export const amount = (n: number): string => (n >= 100 ? integer : digits).format(n)

export const ms = (n: number): string => `${amount(n)} ms`

/** A part of 1. */
export const share = (part: number): string => percent.format(part)

/** Seconds from now on, or ago when negative: `in 3 hr.`, `12 min. ago`. */
export function distance(seconds: number): string {
  const rounded = Math.round(seconds)
  const [size, name] = SPANS.find(([least]) => Math.abs(rounded) >= least) ?? SPANS[3]
  return relative.format(Math.trunc(rounded / size), name)
}

/** An instant as it is seen from now. */
export const ago = (iso: string): string => distance((Date.parse(iso) - unixMs()) / 1000)

/** The zone that instants are written in. */
export const ZONES = ['local', 'utc'] as const
export type Zone = (typeof ZONES)[number]

// British English writes dates without commas and the clock without am and pm.
const writerOf = (timeZone: string | undefined, look: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { ...look, timeZone, hourCycle: 'h23' })

/** The formats of a zone, made once: each costs more than its use. */
function formatsIn(timeZone?: string) {
  const minutes = { hour: '2-digit', minute: '2-digit' } as const
  const day = { day: 'numeric', month: 'short' } as const
  const date = { ...day, year: 'numeric' } as const
  return {
    clock: writerOf(timeZone, minutes),
    seconds: writerOf(timeZone, { timeStyle: 'medium' }),
    moment: writerOf(timeZone, { ...date, ...minutes, ...(timeZone && { timeZoneName: 'short' }) }),
    point: writerOf(timeZone, { ...day, ...minutes }),
    date: writerOf(timeZone, date),
    day: writerOf(timeZone, day),
  }
}
const FORMATS = { local: formatsIn(), utc: formatsIn('UTC') }
let current: Zone = 'local'

/** Instants are written in this zone from now on. */
export function writeIn(zone: Zone): void {
  current = zone
}
/** Its name: `UTC`, `Europe/Berlin`. */
export const zoneName = (zone = current): string => FORMATS[zone].clock.resolvedOptions().timeZone

/** Seconds by which it is ahead of UTC at an instant. */
export const zoneOffset = (unixMs: number): number => (current === 'utc' ? 0 : localOffset(unixMs))

type Format = keyof ReturnType<typeof formatsIn>
const writer =
  (format: Format) =>
  (time: number | string): string =>
    FORMATS[current][format].format(typeof time === 'string' ? Date.parse(time) : time)

/** Of Unix milliseconds or ISO 8601. */
export const clock = writer('clock')
export const seconds = writer('seconds')
export const moment = writer('moment')
export const dateOf = writer('date')
/** Of a point of a chart: with its day, and the day alone. */
export const pointAt = writer('point')
export const dayAt = writer('day')

/** A UTC day such as `2026-11-22`. */
export const dayOf = (day: string): string => FORMATS.utc.day.format(Date.parse(day))
