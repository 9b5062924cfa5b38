/** Owns the filters of a list of proxies. What each of them means is in the contract, A4. */
import type { Address, Anon, Lang, ProxyType, Service } from './proxy.ts'

export const COUNTRY_MODES = ['include', 'except'] as const
export type CountryMode = (typeof COUNTRY_MODES)[number]

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
  /** Most records in the answer. */
  count: number | null
}

/** The form in which names are compared: case of any alphabet, and Unicode composition, folded. */
export const fold = (name: string): string =>
  name.trim().normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')
