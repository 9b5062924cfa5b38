/**
 * The statistics document (contract F4): its shape, reading it, and what the page knows of it
 * at a time. Pure: who fetches it is in `service.ts`.
 */
import type { Histogram, StatsCity, StatsTotals } from '../../../proxies/stats-document.ts'
import { isObject, type Json, list, number, numbers, object, strings, text } from './json.ts'

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

export type Dimensions = StatsTotals['dimensions']

export type Stats = {
  /** Unix seconds; `null` when the document does not say. */
  at: number | null
  total: number
  hidden: number
  /** `null` where the service shows totals only. */
  counted: { dimensions: Dimensions; cube: Cube } | null
  histograms: { ping: Histogram | null; speed: Histogram | null; works: Histogram | null }
  cities: StatsCity[]
}

/** The filters that histograms are about. */
export type Limited = keyof Stats['histograms']

/**
 * Whether a limit lets values of a column through. A value that equals an edge is counted on the side
 * that a limit there lets through (F4); the last edge may be a value itself.
 */
export function columnPasses(
  name: Limited,
  { edges, counts }: Histogram,
  i: number,
  limit: number,
): boolean {
  const [from, to] = [edges[i] ?? 0, edges[i + 1] ?? Number.POSITIVE_INFINITY]
  if (name === 'ping') return i === 0 || from < limit
  return i === counts.length - 1 ? to >= limit : to > limit
}

/** The country of cells that were merged, and the one of proxies whose place is unknown. */
export const MERGED = '--'
export const UNKNOWN_PLACE = ''

function readHistogram(value: unknown): Histogram | null {
  const edges = numbers(object(value).edges)
  const counts = numbers(object(value).counts)
  return counts.length < 2 || edges.length < counts.length ? null : { edges, counts }
}

function readCounted({ dimensions, cube }: Json): Stats['counted'] {
  const d = object(dimensions)
  const c = object(cube)
  if (!Array.isArray(c.count)) return null
  const count = numbers(c.count)
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

/** The statistics that a document holds; `null` when it is none. */
export function readStats(document: unknown): Stats | null {
  if (!isObject(document) || typeof document.total !== 'number') return null
  const { at, total, hidden, histograms, cities } = document
  const { ping, speed, works } = object(histograms)
  return {
    ...{
      at: typeof at === 'number' ? at : null,
      total,
      hidden: number(hidden),
      counted: readCounted(document),
    },
    histograms: {
      ...{ ping: readHistogram(ping), speed: readHistogram(speed), works: readHistogram(works) },
    },
    cities: list(cities).map(each => {
      const { city, city_en, country, count } = object(each)
      return {
        ...{ city: text(city), city_en: text(city_en) },
        ...{ country: text(country), count: number(count) },
      }
    }),
  }
}
