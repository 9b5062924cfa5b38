/** Owns the filters of a list of proxies. What each of them means is in the contract, A4. */
import type { Address, Anon, Lang, ProxyType, Service } from './proxy.ts'

export const COUNTRY_MODES = ['include', 'except'] as const
export type CountryMode = (typeof COUNTRY_MODES)[number]

/** Orders of an answer (contract F1); `checked` is that of A4, and the default. */
export const SORTS = ['checked', 'ping', 'speed', 'works', 'random'] as const
export type Sort = (typeof SORTS)[number]

export const DEFAULT_AGE_MAX_SECONDS = 600

/** The conditions of a query. Empty lists and `null` are no condition. */
export type Filter = {
  types: readonly ProxyType[]
  anons: readonly Anon[]
  pingMaxMs: number | null
  /** Bytes per second. */
  speedMin: number | null
  ageMaxSeconds: number
  worksMin: number | null
  /** Upper case. */
  countries: readonly string[]
  countryMode: CountryMode
  /** Lower case, as the envelope shows them; compared folded (see `fold`). */
  cities: readonly string[]
  lang: Lang
  port: number | null
  address: Address | null
  /** All of these are required. */
  services: readonly Service[]
  /** The order of the answer; `null`: not given, which is `checked`. */
  sort: Sort | null
  /** Most records in the answer. */
  count: number | null
}

/** A filter that every proxy passes, however old. */
export const EVERYTHING: Filter = {
  types: [],
  anons: [],
  pingMaxMs: null,
  speedMin: null,
  ageMaxSeconds: Number.MAX_SAFE_INTEGER,
  worksMin: null,
  countries: [],
  countryMode: 'include',
  cities: [],
  lang: 'ru',
  port: null,
  address: null,
  services: [],
  sort: null,
  count: null,
}

/** Letters that have a stroke where others have an accent: Unicode does not take them apart. */
const STROKES: { [letter: string]: string } = { ł: 'l', ø: 'o', đ: 'd', ħ: 'h', ŧ: 't' }

/**
 * The form in which names are compared (contract A4): case of any alphabet, Unicode composition and
 * accents folded, so that Ё is Е. Й stays a letter of its own, and so do the marks of alphabets in
 * which they are no accents, such as the vowels of Hindi.
 */
export const fold = (name: string): string =>
  name
    .trim()
    .normalize('NFKC')
    .toUpperCase()
    .toLowerCase()
    .normalize('NFD')
    .replace(/(?<!и)\u0306|[\u0300-\u0305\u0307-\u036f]/g, '')
    .replace(/[łøđħŧ]/g, letter => STROKES[letter] ?? letter)
    .normalize('NFKC')
