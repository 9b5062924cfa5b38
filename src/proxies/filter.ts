/**
 * The filters of a list of proxies, and matching rows in memory with one. What each filter means is in
 * the contract, A4.
 */

import { maskId } from './mask.ts'
import {
  type Address,
  ANONS,
  type Anon,
  type Lang,
  type ProxyType,
  type Service,
  servicesToBits,
  TYPES,
} from './proxy.ts'
import { AT, countryToNumber, idOf, portOf, type Row } from './row.ts'

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

/** Members of a closed list as bits: bit n for the value n in a row. Without members, all bits. */
const bitsOf = (values: readonly number[]): number =>
  values.length === 0 ? -1 : values.reduce((bits, value) => bits | (1 << value), 0)

const setOf = (values: readonly number[], isThere: boolean): ReadonlySet<number> | null =>
  isThere ? new Set(values) : null

/**
 * Returns whether a row matches a filter, but for its age. One expression on numbers: a select tries
 * a thousand rows, and a function for each condition would take five times as long.
 * `cityIds`: of the cities that the filter names.
 */
export function createMatcher(
  filter: Filter,
  addressBits: 32 | 16,
  cityIds: readonly number[],
): (row: Row) => boolean {
  const types = bitsOf(filter.types.map(type => TYPES.indexOf(type)))
  const anons = bitsOf(filter.anons.map(anon => 1 + ANONS.indexOf(anon)))
  const pingMax = filter.pingMaxMs ?? Infinity
  const speedMin = filter.speedMin ?? -Infinity
  const worksMin = filter.worksMin ?? -Infinity
  const services = servicesToBits(new Set(filter.services))
  const countries = setOf(filter.countries.map(countryToNumber), filter.countries.length > 0)
  const isIncluded = filter.countryMode === 'include'
  const cities = setOf(cityIds, filter.cities.length > 0)
  const { port } = filter
  const address = filter.address && idOf(filter.address)
  const visible = addressBits === 16 ? maskId : (id: number): number => id
  return row =>
    row[AT.pingMs] <= pingMax &&
    row[AT.speed] >= speedMin &&
    row[AT.works] >= worksMin &&
    ((types >> row[AT.type]) & 1) === 1 &&
    ((anons >> row[AT.anon]) & 1) === 1 &&
    (row[AT.services] & services) === services &&
    (countries === null || countries.has(row[AT.country]) === isIncluded) &&
    (cities === null || cities.has(row[AT.city])) &&
    (port === null || portOf(row[AT.id]) === port) &&
    (address === null || visible(row[AT.id]) === address)
}
