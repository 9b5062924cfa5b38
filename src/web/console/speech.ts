/** How the console writes numbers, instants and spans of time, in English. */
import { unixMs } from '../parts/browser.ts'
import { KEY_WORDS } from '../parts/key-report.ts'
import { createSpeech, SPANS, sentencesIn } from '../parts/speech.ts'

/** How all pages speak of keys. */
export const SAY = { ...createSpeech('en'), words: sentencesIn('en', KEY_WORDS) }

export const { number, bytes, unit, countdown } = SAY

/** Stands for what is not known. */
export const UNKNOWN = '–'

// British English writes dates without commas and the clock without am and pm.
const TIME_LOCALE = 'en-GB'
const MINUTES = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
const DATE = { day: 'numeric', month: 'short', year: 'numeric' } as const
/** Made once: each costs more than its use. */
const FORMATS = {
  integer: new Intl.NumberFormat('en', { maximumFractionDigits: 0 }),
  tenth: new Intl.NumberFormat('en', { maximumFractionDigits: 1 }),
  hundredth: new Intl.NumberFormat('en', { maximumFractionDigits: 2 }),
  share: new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 }),
  relative: new Intl.RelativeTimeFormat('en', { style: 'short', numeric: 'always' }),
  clock: new Intl.DateTimeFormat(TIME_LOCALE, MINUTES),
  seconds: new Intl.DateTimeFormat(TIME_LOCALE, { timeStyle: 'medium', hourCycle: 'h23' }),
  moment: new Intl.DateTimeFormat(TIME_LOCALE, { ...DATE, ...MINUTES }),
  date: new Intl.DateTimeFormat(TIME_LOCALE, DATE),
  day: new Intl.DateTimeFormat(TIME_LOCALE, { day: 'numeric', month: 'short', timeZone: 'UTC' }),
}

/** Without a fraction. */
export const whole = (n: number): string => FORMATS.integer.format(n)

/** `0.41`, `12.5`, `1,204`: as many digits as say something. */
export function amount(n: number): string {
  if (n >= 100 || Number.isInteger(n)) return whole(n)
  return (n >= 10 ? FORMATS.tenth : FORMATS.hundredth).format(n)
}

export const ms = (n: number): string => `${amount(n)} ms`

/** A part of 1. */
export const share = (part: number): string => FORMATS.share.format(part)

/** Seconds from now on, or ago when negative: `in 3 hr.`, `12 min. ago`. */
export function distance(seconds: number): string {
  const rounded = Math.round(seconds)
  const [size, name] = SPANS.find(([least]) => Math.abs(rounded) >= least) ?? SPANS[3]
  return FORMATS.relative.format(Math.trunc(rounded / size), name)
}

/** An instant as it is seen from now. */
export const ago = (iso: string): string => distance((Date.parse(iso) - unixMs()) / 1000)

/** Of Unix milliseconds, in the time zone of the browser, as the others are. */
export const clock = (unixMs: number): string => FORMATS.clock.format(unixMs)
export const seconds = (iso: string): string => FORMATS.seconds.format(Date.parse(iso))
export const moment = (iso: string): string => FORMATS.moment.format(Date.parse(iso))
export const dateOf = (iso: string): string => FORMATS.date.format(Date.parse(iso))

/** A UTC day such as `2026-11-22`. */
export const dayOf = (day: string): string => FORMATS.day.format(Date.parse(day))
