/**
 * Counts a list in one pass, decides what of the counts is published (contract F4: which cells are too
 * small, how they are merged, how many fit), and what the operator sees of them. Knows neither where
 * rows are stored nor how a document is sent.
 */

import { DAY_MS, SECOND_MS } from '../lib/time.ts'
import { DEFAULT_AGE_MAX_SECONDS } from './filter.ts'
import { ANONS, type ProxyType, SERVICES, TYPES } from './proxy.ts'
import { AT, type CityNames, countryText, UNKNOWN, UNKNOWN_PING } from './row.ts'
import type {
  Histogram,
  StatsCity,
  StatsCube,
  StatsDocument,
  StatsTotals,
} from './stats-document.ts'

/** Bounds of the age of a check, in seconds. */
export const AGES_SECONDS = [60, 300, 600, 3600, 86_400, 604_800] as const
/** The position of ages beyond all bounds. */
const OLDER = AGES_SECONDS.length

/** A cell or a city with fewer rows is not published. */
export const COUNT_MIN = 5
/** Cities that are counted, the largest ones. */
const CITIES_MAX = 50

/** The values of a row that are counted, in its order. */
export type CountedRow = readonly [
  id: number,
  checkedAt: number,
  pingMs: number,
  type: number,
  anon: number,
  works: number,
  speed: number,
  services: number,
  country: number,
  city: number,
  ...unknown[],
]
/** How many values that are. */
export const COUNTED_COLUMNS = AT.city + 1

/** Rows that agree in these four; `services[n]` of them have `SERVICES[n]`. */
export type Cell = {
  /** Position in `TYPES`. */
  type: number
  /** 0 unknown, else 1 + position in `ANONS`. */
  anon: number
  /** As in a row: 0 unknown, else two letters as a number. */
  country: number
  /** Position in `AGES_SECONDS`, or `OLDER`. A check in the future has age 0. */
  age: number
  count: number
  services: readonly number[]
}

export type ListCounts = {
  /** The instant of all ages, in Unix seconds. */
  at: number
  rows: number
  /** The newest and the oldest check, in Unix seconds; `null` for an empty list. */
  newest: number | null
  oldest: number | null
  /** None is empty, no two agree in all four. */
  cells: readonly Cell[]
  histograms: { ping: Histogram; speed: Histogram; works: Histogram }
  /** The largest ones, the largest first; none is below `COUNT_MIN`. */
  cities: readonly StatsCity[]
}

const TYPE_SLOTS = TYPES.length
const ANON_SLOTS = 1 + ANONS.length
const AGE_SLOTS = OLDER + 1
/** Countries are numbers of 10 bits, see `Row`. */
const COUNTRY_SLOTS = 1024
/** The numbers of a cell: its rows, then those with each service. */
const WIDTH = 1 + SERVICES.length

/** The smallest bound of age that holds, as its position. */
function agePosition(seconds: number): number {
  for (let i = 0; i < OLDER; i += 1) if (seconds <= (AGES_SECONDS[i] ?? 0)) return i
  return OLDER
}

/**
 * Edges of histograms; the last one gives way to the largest value. With `upTo`, a value that equals an
 * edge is counted below it, see `Histogram`.
 */
const EDGES = {
  ping: {
    upTo: true,
    edges: [0, 50, 100, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000],
  },
  speed: {
    upTo: false,
    edges: [
      ...[0, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000],
      ...[1_000_000, 2_500_000, 5_000_000, 10_000_000],
    ],
  },
  works: { upTo: false, edges: [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100] },
} as const

/** Counts values between edges. */
function createHistogram({ upTo, edges }: { upTo: boolean; edges: readonly number[] }) {
  const inner = edges.slice(1, -1)
  const counts = new Array<number>(edges.length - 1).fill(0)
  let largest = edges.at(-1) ?? 0
  return {
    add(value: number): void {
      let i = 0
      if (upTo) while (i < inner.length && value > (inner[i] ?? 0)) i += 1
      else while (i < inner.length && value >= (inner[i] ?? 0)) i += 1
      counts[i] = (counts[i] ?? 0) + 1
      if (value > largest) largest = value
    },
    read: (): Histogram => ({ edges: [...edges.slice(0, -1), largest], counts }),
  }
}

/** Counts cells in an array with room for every one there can be: 2 MB, and no object for each row. */
function createCells() {
  const size = TYPE_SLOTS * ANON_SLOTS * COUNTRY_SLOTS * AGE_SLOTS * WIDTH
  const numbers = new Uint32Array(size)
  const increment = (at: number): void => {
    numbers[at] = (numbers[at] ?? 0) + 1
  }
  return {
    add(type: number, anon: number, country: number, age: number, services: number): void {
      const cell = ((country * AGE_SLOTS + age) * TYPE_SLOTS + type) * ANON_SLOTS + anon
      increment(cell * WIDTH)
      for (let bit = 0; bit < SERVICES.length; bit += 1) {
        if (services & (1 << bit)) increment(cell * WIDTH + 1 + bit)
      }
    },
    read(): Cell[] {
      const cells: Cell[] = []
      for (let at = 0; at < size; at += WIDTH) {
        if (numbers[at] === 0) continue
        const [count = 0, ...services] = numbers.subarray(at, at + WIDTH)
        const cell = at / WIDTH
        const ages = Math.floor(cell / ANON_SLOTS / TYPE_SLOTS)
        cells.push({
          type: Math.floor(cell / ANON_SLOTS) % TYPE_SLOTS,
          anon: cell % ANON_SLOTS,
          country: Math.floor(ages / AGE_SLOTS),
          age: ages % AGE_SLOTS,
          ...{ count, services },
        })
      }
      return cells
    },
  }
}

/** Counts cities, each in its country: names repeat. */
function createCityCounts() {
  const counts = new Map<number, number>()
  return {
    add(city: number, country: number): void {
      if (city === 0) return
      const key = city * COUNTRY_SLOTS + country
      counts.set(key, (counts.get(key) ?? 0) + 1)
    },
    read: (cityNames: CityNames): StatsCity[] =>
      [...counts]
        .filter(([, count]) => count >= COUNT_MIN)
        .sort(([keyA, a], [keyB, b]) => b - a || keyA - keyB)
        .slice(0, CITIES_MAX)
        .map(([key, count]) => {
          const { name, nameEn } = cityNames(Math.floor(key / COUNTRY_SLOTS))
          const country = countryText(key % COUNTRY_SLOTS)
          return { city: name, city_en: nameEn, country, count }
        }),
  }
}

/** Counts the rows of a list: `add` each of them once, then `read`. `at` is in Unix seconds. */
export function createCounter(at: number) {
  const cells = createCells()
  const cities = createCityCounts()
  const ping = createHistogram(EDGES.ping)
  const speed = createHistogram(EDGES.speed)
  const works = createHistogram(EDGES.works)
  let rows = 0
  let newest = -Infinity
  let oldest = Infinity

  return {
    add(row: CountedRow): void {
      const checkedAt = row[AT.checkedAt]
      const country = row[AT.country]
      rows += 1
      if (checkedAt > newest) newest = checkedAt
      if (checkedAt < oldest) oldest = checkedAt
      const age = agePosition(at - checkedAt)
      cells.add(row[AT.type], row[AT.anon], country, age, row[AT.services])
      cities.add(row[AT.city], country)
      if (row[AT.pingMs] !== UNKNOWN_PING) ping.add(row[AT.pingMs])
      if (row[AT.speed] !== UNKNOWN) speed.add(row[AT.speed])
      if (row[AT.works] !== UNKNOWN) works.add(row[AT.works])
    },
    read: (cityNames: CityNames): ListCounts => ({
      at,
      rows,
      newest: rows === 0 ? null : newest,
      oldest: rows === 0 ? null : oldest,
      cells: cells.read(),
      histograms: { ping: ping.read(), speed: speed.read(), works: works.read() },
      cities: cities.read(cityNames),
    }),
  }
}

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

export type Breakdown = {
  rows: number
  /** The newest check, in Unix seconds; `null` for an empty list. */
  newest: number | null
  /** The check that half of the rows are newer than, likewise. */
  median: number | null
  types: readonly { type: ProxyType; count: number }[]
  /** The most frequent first; the country is `''` where it is unknown. */
  countries: readonly { country: string; count: number }[]
  /** Rows by the smallest bound that holds; `null`: older than all. */
  ages: readonly { seconds: number | null; count: number }[]
}

/** The rows of the cells by one of their values. */
function countBy(cells: readonly Cell[], value: 'type' | 'country' | 'age'): Map<number, number> {
  const counts = new Map<number, number>()
  for (const cell of cells) {
    counts.set(cell[value], (counts.get(cell[value]) ?? 0) + cell.count)
  }
  return counts
}

/** What rows were counted to be; `median` needs their order. */
export function breakdownOf({ rows, newest, cells }: ListCounts, median: number | null): Breakdown {
  const types = countBy(cells, 'type')
  const ages = countBy(cells, 'age')
  return {
    rows,
    newest,
    median,
    types: TYPES.map((type, i) => ({ type, count: types.get(i) ?? 0 })),
    countries: [...countBy(cells, 'country')]
      .sort(([a, countA], [b, countB]) => countB - countA || a - b)
      .map(([country, count]) => ({ country: countryText(country), count })),
    ages: [
      ...AGES_SECONDS.map((seconds, i) => ({ seconds, count: ages.get(i) ?? 0 })),
      { seconds: null, count: ages.get(OLDER) ?? 0 },
    ],
  }
}

/** The rows that a query without `time` sees. */
export const freshRows = ({ ages }: Breakdown): number =>
  ages
    .filter(({ seconds }) => seconds !== null && seconds <= DEFAULT_AGE_MAX_SECONDS)
    .reduce((sum, { count }) => sum + count, 0)
