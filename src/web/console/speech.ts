/** Owns how the console writes numbers, instants and amounts in a language. Reads no clock. Pure. */
import { createSpeech, type Lang } from '../parts/speech.ts'
import { RUSSIAN } from './russian.ts'
import { ENGLISH, type Words } from './words.ts'

/** Units of time from the largest, in seconds. */
const UNITS = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
] as const

/** Formatters of a language, made once: each costs more than its use. */
function formatsOf(lang: Lang) {
  // British English writes dates without commas and the clock without am and pm.
  const locale = lang === 'en' ? 'en-GB' : lang
  const minutes = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
  const date = { day: 'numeric', month: 'short', year: 'numeric' } as const
  return {
    integer: new Intl.NumberFormat(lang, { maximumFractionDigits: 0 }),
    tenth: new Intl.NumberFormat(lang, { maximumFractionDigits: 1 }),
    hundredth: new Intl.NumberFormat(lang, { maximumFractionDigits: 2 }),
    share: new Intl.NumberFormat(lang, { style: 'percent', maximumFractionDigits: 1 }),
    relative: new Intl.RelativeTimeFormat(lang, { style: 'short', numeric: 'always' }),
    clock: new Intl.DateTimeFormat(locale, minutes),
    seconds: new Intl.DateTimeFormat(locale, { timeStyle: 'medium', hourCycle: 'h23' }),
    moment: new Intl.DateTimeFormat(locale, { ...date, ...minutes }),
    date: new Intl.DateTimeFormat(locale, date),
    day: new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', timeZone: 'UTC' }),
  }
}

export function createConsoleSpeech(lang: Lang) {
  const words: Words = lang === 'ru' ? RUSSIAN : ENGLISH
  const formats = formatsOf(lang)

  /** `0.41`, `12.5`, `1,204`: as many digits as say something. */
  const amount = (n: number): string => {
    if (n >= 100 || Number.isInteger(n)) return formats.integer.format(n)
    return (n >= 10 ? formats.tenth : formats.hundredth).format(n)
  }

  /** Seconds from now on, or ago when negative: `in 3 hr.`, `12 min. ago`. */
  const distance = (seconds: number): string => {
    const rounded = Math.round(seconds)
    const [name, size] = UNITS.find(([, each]) => Math.abs(rounded) >= each) ?? ['second', 1]
    return formats.relative.format(Math.trunc(rounded / size), name)
  }

  return {
    ...createSpeech(lang),
    words,
    amount,
    /** Without a fraction. */
    whole: (n: number): string => formats.integer.format(n),
    /** A part of 1. */
    share: (part: number): string => formats.share.format(part),
    ms: (ms: number): string => `${amount(ms)} ${words.ms}`,
    distance,
    /** An instant as it is seen from `nowMs`. */
    relative: (iso: string, nowMs: number): string => distance((Date.parse(iso) - nowMs) / 1000),
    /** Of Unix milliseconds, in the time zone of the browser, as the others are. */
    clock: (ms: number): string => formats.clock.format(ms),
    seconds: (iso: string): string => formats.seconds.format(Date.parse(iso)),
    moment: (iso: string): string => formats.moment.format(Date.parse(iso)),
    dateOf: (iso: string): string => formats.date.format(Date.parse(iso)),
    /** A UTC day such as `2026-11-22`. */
    day: (day: string): string => formats.day.format(Date.parse(day)),
  }
}
export type ConsoleSpeech = ReturnType<typeof createConsoleSpeech>
