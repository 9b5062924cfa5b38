/**
 * Owns the statistics document (contract F4): its shape, reading it, and what the page knows of it
 * at a time. Pure: who fetches it is in `service.ts`.
 */
export type Histogram = { edges: number[]; counts: number[] }

/** Columns of one length: positions in the dimensions, a count, and how many have each service. */
export type Cube = {
  type: number[]
  anon: number[]
  country: number[]
  age: number[]
  count: number[]
  /** By the name of the service. */
  services: number[][]
}

export type Dimensions = {
  type: string[]
  anon: string[]
  /** `--`: places too small to be told apart; `''`: unknown. */
  country: string[]
  /** Seconds, rising; a cell has the smallest that holds. */
  age: number[]
  services: string[]
}

export type City = { city: string; city_en: string; country: string; count: number }

export type Stats = {
  /** Unix seconds; `null` when the document does not say. */
  at: number | null
  total: number
  hidden: number
  /** `null` where the service shows totals only. */
  counted: { dimensions: Dimensions; cube: Cube } | null
  histograms: { [N in 'ping' | 'speed' | 'works']: Histogram | null }
  cities: City[]
}

/** The country of cells that were merged, and the one of proxies whose place is unknown. */
export const MERGED = '--'
export const UNKNOWN_PLACE = ''

type Json = { readonly [name: string]: unknown }
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null
const object = (value: unknown): Json => (isObject(value) ? value : {})
const numbers = (value: unknown): number[] =>
  Array.isArray(value) ? value.filter(item => typeof item === 'number') : []
const strings = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter(item => typeof item === 'string') : []
const number = (value: unknown): number => (typeof value === 'number' ? value : 0)

function readHistogram(value: unknown): Histogram | null {
  const edges = numbers(object(value).edges)
  const counts = numbers(object(value).counts)
  return counts.length < 2 || edges.length < counts.length ? null : { edges, counts }
}

function readCounted({ dimensions, cube }: Json): Stats['counted'] {
  const d = object(dimensions)
  const c = object(cube)
  const count = numbers(c.count)
  if (count.length === 0) return null
  const services = strings(d.services)
  const columns = {
    ...{ type: numbers(c.type), anon: numbers(c.anon), country: numbers(c.country) },
    ...{ age: numbers(c.age), count, services: services.map(name => numbers(c[name])) },
  }
  const lengths = [columns.type, columns.anon, columns.country, columns.age, ...columns.services]
  if (lengths.some(({ length }) => length !== count.length)) return null
  const named = { type: strings(d.type), anon: strings(d.anon), country: strings(d.country) }
  return { dimensions: { ...named, age: numbers(d.age), services }, cube: columns }
}

/** When the statistics were made: Unix seconds, or ISO 8601. */
function readInstant(value: unknown): number | null {
  if (typeof value === 'number') return value
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN
  return Number.isNaN(ms) ? null : ms / 1000
}

/** The statistics that a document holds; `null` when it is none. */
export function readStats(document: unknown): Stats | null {
  if (!isObject(document) || typeof document.total !== 'number') return null
  const { at, total, hidden, histograms, cities } = document
  const { ping, speed, works } = object(histograms)
  return {
    ...{ at: readInstant(at), total, hidden: number(hidden), counted: readCounted(document) },
    histograms: {
      ...{ ping: readHistogram(ping), speed: readHistogram(speed), works: readHistogram(works) },
    },
    cities: (Array.isArray(cities) ? cities : []).filter(isObject).map(city => ({
      ...{ city: String(city.city ?? ''), city_en: String(city.city_en ?? '') },
      ...{ country: String(city.country ?? ''), count: number(city.count) },
    })),
  }
}
