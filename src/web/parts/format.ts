/** Numbers, sizes, durations and places in English and Russian. The sentences of a page are beside it. */
export const LANGS = ['en', 'ru'] as const
export type Lang = (typeof LANGS)[number]

/** Sentences in both languages, by name: `Yes | Да`. */
export type Sentences = { readonly [name: string]: `${string} | ${string}` }

export const sentencesIn = <S extends Sentences>(lang: Lang, sentences: S) =>
  Object.fromEntries(
    Object.entries(sentences).map(([name, both]) => [name, both.split(' | ')[LANGS.indexOf(lang)]]),
  ) as { readonly [name in keyof S]: string } // of all names

export type Format = ReturnType<typeof createFormat>

/** Puts values into the `{names}` of a sentence. */
export const fill = (sentence: string, values: { [name: string]: string | number }): string =>
  sentence.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''))

const SPANS = [
  [86_400, 'day'],
  [3600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
] as const

const SIZES = [
  [1e9, 'gigabyte'],
  [1e6, 'megabyte'],
  [1e3, 'kilobyte'],
] as const

/** The names of countries, by their codes. */
export const placesIn = (lang: Lang, style: 'long' | 'short') =>
  new Intl.DisplayNames([lang], { type: 'region', fallback: 'code', style })

export function createFormat(lang: Lang) {
  const integers = new Intl.NumberFormat(lang)
  const bytes = new Intl.NumberFormat(lang, { style: 'unit', unit: 'byte', unitDisplay: 'long' })
  const rules = new Intl.PluralRules(lang)
  // Long Russian names have no room in a line; short English ones are codes.
  const places = placesIn(lang, lang === 'ru' ? 'short' : 'long')
  /** Creating a formatter is slow: one for each unit and precision. */
  const formats: { [id: string]: Intl.NumberFormat } = {}
  const unit = (value: number, unit: string, maximumFractionDigits = 0): string => {
    formats[unit + maximumFractionDigits] ??= new Intl.NumberFormat(lang, {
      ...{ style: 'unit', unit, unitDisplay: 'short', maximumFractionDigits },
    })
    return formats[unit + maximumFractionDigits]?.format(value) ?? ''
  }
  const sized = (bytes: number, per: string): string => {
    const [size, name] = SIZES.find(([least]) => bytes >= least) ?? SIZES[2]
    return unit(bytes / size, name + per, bytes / size < 10 ? 1 : 0)
  }
  return {
    lang,
    number: (n: number): string => integers.format(n),
    unit,
    percent: (n: number): string => unit(n, 'percent'),
    bytes: (n: number): string => (n < 1000 ? bytes.format(n) : sized(n, '')),
    /** A speed in bytes per second. */
    rate: (n: number): string => sized(n, '-per-second'),
    /** The form of a word after a number, of `one / few / many`; the last form stands for missing ones. */
    plural(n: number, forms: string): string {
      const all = forms.split(' / ')
      return all[['one', 'few', 'many'].indexOf(rules.select(n))] ?? all.at(-1) ?? ''
    },
    /** The name of a country, or the code itself. Never throws. */
    country: (code: string): string =>
      /^[A-Za-z]{2}$/.test(code) ? (places.of(code.toUpperCase()) ?? code) : code,
    /** A duration in its largest unit, rounded down. */
    age(seconds: number): string {
      const [size, name] = SPANS.find(([least]) => seconds >= least) ?? SPANS[3]
      return unit(Math.floor(seconds / size), name)
    },
    /** A wait: seconds up to two minutes, then the two largest units. */
    countdown(seconds: number): string {
      if (seconds < 120) return unit(seconds, 'second')
      const at = SPANS.findIndex(([least]) => seconds >= least)
      const [size, name] = SPANS[at] ?? SPANS[3]
      const first = unit(Math.floor(seconds / size), name)
      const next = SPANS[at + 1]
      const rest = next === undefined ? 0 : Math.floor((seconds % size) / next[0])
      return next === undefined || rest === 0 ? first : `${first} ${unit(rest, next[1])}`
    },
    time: (seconds: number): string =>
      new Date(seconds * 1000).toLocaleTimeString(lang, { hour: '2-digit', minute: '2-digit' }),
    /** `2026-11-20 12:00:00 UTC`, for a `title` beside local time. */
    utc: (time: number | string): string =>
      `${new Date(time).toISOString().slice(0, 19).replace('T', ' ')} UTC`,
    /** An ISO 8601 text as date and time in the time zone of the visitor. */
    date: (iso: string): string =>
      new Date(iso).toLocaleString(lang, { dateStyle: 'medium', timeStyle: 'short' }),
  }
}
