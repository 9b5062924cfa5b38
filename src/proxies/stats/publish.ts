/**
 * Owns what is published of a list (contract F4): which cells are too small to be shown, how they are
 * merged, and how many fit. Knows neither where rows are stored nor how a document is sent.
 */
import { DAY_MS, SECOND_MS } from '../../lib/time.ts'
import { ANONS, SERVICES, TYPES } from '../proxy.ts'
import { countryText } from '../row.ts'
import { AGES_SECONDS, type Cell, COUNT_MIN, type ListCounts, OLDER } from './counts.ts'
import type { StatsCube, StatsDocument, StatsTotals } from './document.ts'

/** What `/stats` says: everything, or neither the cube nor the cities. */
export type StatsPart = 'full' | 'totals'

export type StatsOptions = {
  /** The version of the program. */
  version: string
  part: StatsPart
  /** The name of the provider's own service. */
  provider: string
}

/** How many cells may name their country, the largest ones, and how many cities are shown. */
export type StatsSize = { cells: number; cities: number }

const DAY_SECONDS = DAY_MS / SECOND_MS
/** The name and the position of the country of merged cells, and the position of an unknown one. */
const MERGED = '--'
const MERGED_AT = 0
const UNKNOWN_AT = 1

/** A cell whose country is a position in `dimensions.country`. */
type ShownCell = Cell

/** The order of the columns: neighbours are alike, which compresses best. */
const inOrder = (a: Cell, b: Cell): number =>
  a.type - b.type || a.anon - b.anon || a.age - b.age || a.country - b.country

/** One cell for all that agree in everything but the country. */
function merge(cells: readonly Cell[]): ShownCell[] {
  const merged = new Map<string, ShownCell>()
  for (const cell of cells) {
    const key = `${cell.type},${cell.anon},${cell.age}`
    const { count, services } = merged.get(key) ?? { count: 0, services: [] }
    merged.set(key, {
      ...cell,
      country: MERGED_AT,
      count: count + cell.count,
      services: cell.services.map((having, i) => having + (services[i] ?? 0)),
    })
  }
  return [...merged.values()]
}

/**
 * The cells that are shown, each with at least `COUNT_MIN` rows, and the rows that are in none: the
 * largest cells keep their country, all others are merged.
 */
function shownCells(cells: readonly Cell[], cellsMax: number) {
  const bySize = cells.toSorted((a, b) => b.count - a.count || inOrder(a, b))
  const named = bySize.filter(({ count }) => count >= COUNT_MIN).slice(0, cellsMax)
  const merged = merge(bySize.slice(named.length))
  const countries = [...new Set(named.map(({ country }) => country))]
    .filter(country => country !== 0)
    .sort((a, b) => a - b)
  const positions = new Map([0, ...countries].map((country, i) => [country, UNKNOWN_AT + i]))
  const shown = [
    ...merged.filter(({ count }) => count >= COUNT_MIN),
    ...named.map(cell => ({ ...cell, country: positions.get(cell.country) ?? MERGED_AT })),
  ]
  return {
    shown: shown.sort(inOrder),
    hidden: merged.reduce((sum, { count }) => (count < COUNT_MIN ? sum + count : sum), 0),
    countries: [MERGED, '', ...countries.map(countryText)],
  }
}

/** The bounds of age; rows that are older than all get one of their own, in whole days. */
function ageBounds({ at, oldest, cells }: ListCounts): number[] {
  if (oldest === null || cells.every(({ age }) => age < OLDER)) return [...AGES_SECONDS]
  return [...AGES_SECONDS, Math.ceil((at - oldest) / DAY_SECONDS) * DAY_SECONDS]
}

function cubeOf(cells: readonly ShownCell[], services: readonly string[]): StatsCube {
  const column = (value: (cell: ShownCell) => number): number[] => cells.map(value)
  return {
    type: column(({ type }) => type),
    anon: column(({ anon }) => anon),
    country: column(({ country }) => country),
    age: column(({ age }) => age),
    count: column(({ count }) => count),
    ...Object.fromEntries(services.map((name, i) => [name, column(cell => cell.services[i] ?? 0)])),
  }
}

/** The document about a list. */
export function statsDocument(
  counts: ListCounts,
  { version, part, provider }: StatsOptions,
  size: StatsSize = EVERYTHING,
): StatsTotals | StatsDocument {
  const { at, rows, histograms, cities } = counts
  const { shown, hidden, countries } = shownCells(counts.cells, size.cells)
  const services = SERVICES.map(service => (service === 'provider' ? provider : service))
  const dimensions = {
    type: TYPES,
    anon: ['', ...ANONS],
    country: countries,
    age: ageBounds(counts),
    services,
  }
  const totals = { version, at, total: rows, hidden, dimensions, histograms }
  if (part === 'totals') return totals
  const { histograms: _, ...head } = totals
  const cube = cubeOf(shown, services)
  return { ...head, cube, histograms, cities: cities.slice(0, size.cities) }
}

const EVERYTHING: StatsSize = { cells: Number.POSITIVE_INFINITY, cities: Number.POSITIVE_INFINITY }
/** Halvings of the number of cells: the one that is found is within a hundredth of what fits. */
const HALVINGS = 7

/**
 * What `make` makes of as much as fits: all, else fewer cells with a country, found by halving; where
 * not even none of them fits, because names of cities are very long, fewer cities too.
 */
export function largestThatFits<T>(
  { cells, cities }: Pick<ListCounts, 'cells' | 'cities'>,
  make: (size: StatsSize) => T,
  fits: (made: T) => boolean,
): T {
  for (let shown = cities.length; ; shown = Math.floor(shown / 2)) {
    const all = make({ cells: cells.length, cities: shown })
    if (fits(all)) return all
    const least = make({ cells: 0, cities: shown })
    if (!fits(least) && shown > 0) continue
    let best = least
    let [low, high] = [0, cells.length]
    for (let n = 0; n < HALVINGS; n += 1) {
      const middle = Math.floor((low + high) / 2)
      const made = make({ cells: middle, cities: shown })
      if (fits(made)) [best, low] = [made, middle]
      else high = middle
    }
    return best
  }
}
