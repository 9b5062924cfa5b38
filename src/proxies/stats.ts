/** Exact facets (contract F4) over a list in columns of numbers, counted in one pass. */
import { countFirst } from './draw.ts'
import {
  type ConditionOptions,
  DEFAULT_AGE_MAX_SECONDS,
  FILTER_RULES,
  type Filter,
} from './filter.ts'
import { ANONS, type ProxyType, serviceNames, TYPES } from './proxy.ts'
import {
  AT,
  type CityNames,
  countryText,
  portOf,
  type Row,
  type RowNumbers,
  subnetOf,
  UNKNOWN,
  UNKNOWN_PING,
} from './row.ts'
import type { Facet, Histogram, StatsCity, StatsDocument, StatsTotals } from './stats-document.ts'
import { ALL_TYPES, typesOf } from './types.ts'

/** Bounds of the age of a check, in seconds. */
export const AGES_SECONDS = [60, 300, 600, 3600, 86_400, 604_800] as const
const CITIES_MAX = 50
const EXAMPLES_MAX = 20

// ---------------------------------------------------------------------------------------------
// Columns

/** One number for a pair of city and country. */
const placeKey = (city: number, country: number): number => city * COUNTRIES + country
/** A country is a number of 10 bits, see `Row`. */
const COUNTRIES = 1024

/** Columns for a list of `rows` rows, 31 bytes each. Call `add` in the order of answers. */
export function createColumns(rows: number) {
  const columns = {
    checkedAt: new Uint32Array(rows), // in seconds, until 2106
    /** The masked address: two octets, and the port. */
    masked: new Uint32Array(rows),
    /** Types and anonymity. */
    kind: new Uint8Array(rows),
    services: new Uint8Array(rows),
    /** The share plus 1; 0 is unknown. */
    works: new Uint8Array(rows),
    place: new Uint32Array(rows),
    ping: new Float64Array(rows),
    speed: new Float64Array(rows),
  }
  const places = new Map<number, number>()
  let at = 0
  return {
    ...columns,
    rows,
    /** The key of each place, see `placeKey`. */
    placeKeys: (): readonly number[] => [...places.keys()],
    add(row: RowNumbers): void {
      columns.checkedAt[at] = row.checked_at
      columns.masked[at] = subnetOf(row.id) * 65_536 + portOf(row.id)
      columns.kind[at] = (row.types & ALL_TYPES) + TYPE_SETS * row.anon
      columns.services[at] = row.services
      columns.works[at] = row.works + 1
      columns.ping[at] = row.ping_ms
      columns.speed[at] = row.speed
      const key = placeKey(row.city, row.country)
      const place = places.get(key) ?? places.size
      if (place === places.size) places.set(key, place)
      columns.place[at] = place
      at += 1
    },
  }
}
export type Columns = ReturnType<typeof createColumns>

// ---------------------------------------------------------------------------------------------
// The pass

/** One bit for each failed filter. `service` sets two, so such a row counts in no facet. */
const FAILS = {
  ...{ type: 1, anon: 2, country: 4, city: 8, ping: 16, speed: 32, works: 64, time: 128 },
  service: 256 + 512,
}
type FilterName = keyof typeof FAILS

/** Combinations of types. */
const TYPE_SETS = 1 + ALL_TYPES
const KINDS = TYPE_SETS * (1 + ANONS.length)
const SERVICE_SETS = 32
const SHARES = 102

/** For each value of a column, the bits in `FAILS` of rows with that value. The matchers of the filters decide. */
function failuresOf(columns: Columns, filter: Filter, options: ConditionOptions) {
  const row: Row = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '']
  const failing = (name: FilterName & keyof typeof FILTER_RULES, column: keyof typeof AT) => {
    const rule = FILTER_RULES[name]
    const condition = rule?.condition?.(filter[rule.field], options) ?? null
    if (condition === null) return () => 0
    const matches = condition.matcher()
    return (value: number): number => {
      row[AT[column]] = value
      return matches(row) ? 0 : FAILS[name]
    }
  }
  const [type, anon] = [failing('type', 'types'), failing('anon', 'anon')]
  const [country, city] = [failing('country', 'country'), failing('city', 'city')]
  const [service, works] = [failing('service', 'services'), failing('works', 'works')]
  const keys = columns.placeKeys()
  return {
    kind: Uint16Array.from({ length: KINDS }, (_, kind) => {
      return type(kind % TYPE_SETS) | anon(Math.floor(kind / TYPE_SETS))
    }),
    services: Uint16Array.from({ length: SERVICE_SETS }, (_, bits) => service(bits)),
    works: Uint16Array.from({ length: SHARES }, (_, share) => works(share - 1)),
    place: Uint16Array.from(keys, key => {
      return country(key % COUNTRIES) | city(Math.floor(key / COUNTRIES))
    }),
  }
}

/** Bins between `edges`, see `Histogram`. With `upTo`, a value that equals an edge counts below it. */
function createBins(upTo: boolean, edges: readonly number[]) {
  // For whole numbers, `(a, b]` is `[a + 1, b + 1)`.
  const inner = Uint32Array.from(edges.slice(1, -1), edge => (upTo ? edge + 1 : edge))
  const { length } = inner
  const unknown = length + 1
  return {
    size: length + 2,
    unknown,
    of(value: number): number {
      let bin = 0
      while (bin < length && value >= (inner[bin] ?? 0)) bin += 1
      return bin
    },
    histogram: (counts: Uint32Array): Histogram => ({
      edges,
      counts: [...counts.subarray(0, unknown)],
      unknown: counts[unknown] ?? 0,
    }),
  }
}
export const BINS = {
  ping: createBins(true, [
    ...[0, 50, 100, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000],
  ]),
  speed: createBins(false, [
    ...[0, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000],
    ...[1_000_000, 2_500_000, 5_000_000, 10_000_000],
  ]),
  works: createBins(false, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100]),
}
/** The bin of each share, see `Columns`. */
const WORKS_BINS = Uint8Array.from({ length: SHARES }, (_, share) =>
  share === 0 ? BINS.works.unknown : BINS.works.of(share - 1),
)

// Reads of a column. A function that sees one type of array is twice as fast.
const byte = (column: Uint8Array, at: number): number => column[at] ?? 0
const fail = (column: Uint16Array, at: number): number => column[at] ?? 0
const word = (column: Uint32Array, at: number): number => column[at] ?? 0
const double = (column: Float64Array, at: number): number => column[at] ?? 0
/** Counts a value unless `isCounted` is 0. */
function count(counts: Uint32Array, at: number, isCounted = 1): void {
  if (isCounted !== 0) counts[at] = word(counts, at) + 1
}

/** Counts for each facet, and the positions of the first matches whose masked addresses differ. */
function createTally(
  { kind, place, services, works, ping, speed, masked }: Columns,
  places: number,
) {
  const counts = {
    type: new Uint32Array(KINDS),
    anon: new Uint32Array(KINDS),
    country: new Uint32Array(places),
    city: new Uint32Array(places),
    services: new Uint32Array(SERVICE_SETS),
    ping: new Uint32Array(BINS.ping.size),
    speed: new Uint32Array(BINS.speed.size),
    works: new Uint32Array(BINS.works.size),
  }
  const firsts: number[] = []
  const seen = new Set<number>()

  function countPing(i: number): void {
    const ms = double(ping, i)
    count(counts.ping, ms === UNKNOWN_PING ? BINS.ping.unknown : BINS.ping.of(ms))
  }
  function countSpeed(i: number): void {
    const bytes = double(speed, i)
    count(counts.speed, bytes === UNKNOWN ? BINS.speed.unknown : BINS.speed.of(bytes))
  }

  return {
    ...{ counts, firsts },
    /** Counts a row in the facet of the filter that it fails, or in all facets if it passes. */
    add(i: number, failed: number): void {
      const facets = failed === 0 ? -1 : failed
      count(counts.type, byte(kind, i), facets & FAILS.type)
      count(counts.anon, byte(kind, i), facets & FAILS.anon)
      count(counts.country, word(place, i), facets & FAILS.country)
      count(counts.city, word(place, i), facets & FAILS.city)
      count(counts.works, byte(WORKS_BINS, byte(works, i)), facets & FAILS.works)
      if (facets & FAILS.ping) countPing(i)
      if (facets & FAILS.speed) countSpeed(i)
      if (failed !== 0) return
      count(counts.services, byte(services, i))
      const isExample = firsts.length < EXAMPLES_MAX && seen.size < seen.add(word(masked, i)).size
      if (isExample) firsts.push(i)
    },
  }
}

/** Counts the rows of a list at an instant, in Unix seconds. */
export function countFacets(
  columns: Columns,
  filter: Filter,
  at: number,
  options: ConditionOptions,
) {
  const { rows, checkedAt, kind, services, works, place, ping, speed } = columns
  const fails = failuresOf(columns, filter, options)
  const { pingMaxMs, speedMin, ageMaxSeconds } = filter
  const pingMax = pingMaxMs ?? UNKNOWN_PING
  const speedLeast = speedMin ?? UNKNOWN
  const { counts, firsts, add } = createTally(columns, fails.place.length)

  const failedOf = (i: number): number =>
    fail(fails.services, byte(services, i)) |
    fail(fails.kind, byte(kind, i)) |
    fail(fails.place, word(place, i)) |
    fail(fails.works, byte(works, i)) |
    (double(ping, i) > pingMax ? FAILS.ping : 0) |
    (double(speed, i) < speedLeast ? FAILS.speed : 0)

  /** Counts rows that are all young enough (`old` is 0), or all too old. Returns how many pass everything else. */
  function pass(from: number, to: number, old: number): number {
    let passed = 0
    for (let i = from; i < to; i += 1) {
      const failed = old | failedOf(i)
      if (failed === old) passed += 1
      if ((failed & (failed - 1)) === 0) add(i, failed)
    }
    return passed
  }

  // Rows are ordered by age, so each bound of age is a position.
  const since = (seconds: number): number =>
    countFirst(rows, i => (checkedAt[i] ?? 0) >= at - seconds)
  const youngEnough = since(ageMaxSeconds)
  const bounds = AGES_SECONDS.map(since)
  const ends = [...new Set([...bounds, youngEnough, rows])].sort((a, b) => a - b)
  const passedBefore = new Map<number, number>()
  let [from, passed] = [0, 0]
  for (const to of ends) {
    passed += pass(from, to, to <= youngEnough ? 0 : FAILS.time)
    passedBefore.set(to, passed)
    from = to
  }
  const age: { [seconds: string]: number } = { '': passed }
  for (const [i, seconds] of AGES_SECONDS.entries()) {
    age[seconds] = passedBefore.get(bounds[i] ?? 0) ?? 0
  }
  return { matching: passedBefore.get(youngEnough) ?? 0, age, counts, firsts }
}

// ---------------------------------------------------------------------------------------------
// The document

/** `/stats` shows everything, or totals only. */
export type StatsPart = 'full' | 'totals'

/** A request for statistics. */
export type StatsRequest = {
  filter: Filter
  nowMs: number
  /** The version of the list. */
  version: string
  part: StatsPart
  /** The name of the provider's own service. */
  provider: string
}

/** Counts by name instead of by value; names in `all` appear even with a count of 0. */
function facetOf(
  counts: Uint32Array,
  names: (value: number) => readonly string[],
  all: readonly string[] = [],
): Facet {
  const facet: { [name: string]: number } = Object.fromEntries(all.map(name => [name, 0]))
  for (const [value, count] of counts.entries()) {
    if (count === 0) continue
    for (const name of names(value)) facet[name] = (facet[name] ?? 0) + count
  }
  return facet
}

/** The places with a known city that have the most rows; equal ones are ordered by the id of their city. */
const largestOf = (counts: Uint32Array, keys: readonly number[]): number[] =>
  [...counts.keys()]
    .filter(place => word(counts, place) > 0 && (keys[place] ?? 0) >= COUNTRIES)
    .sort((a, b) => word(counts, b) - word(counts, a) || (keys[a] ?? 0) - (keys[b] ?? 0))
    .slice(0, CITIES_MAX)

/** The published document for counted facets. */
export function statsDocument(
  columns: Columns,
  { matching, age, counts }: ReturnType<typeof countFacets>,
  at: number,
  { version, part, provider }: StatsRequest,
  cityNames: CityNames,
  examples: StatsDocument['examples'],
): StatsTotals | StatsDocument {
  const totals = { at, version, total: columns.rows, matching }
  if (part === 'totals') return totals
  const keys = columns.placeKeys()
  const anons = ['', ...ANONS]
  const services = serviceNames(provider)
  const city = (place: number): StatsCity => {
    const key = keys[place] ?? 0
    const { name, nameEn } = cityNames(Math.floor(key / COUNTRIES))
    const country = countryText(key % COUNTRIES)
    return { city: name, city_en: nameEn, country, count: counts.city[place] ?? 0 }
  }
  return {
    ...totals,
    facets: {
      type: facetOf(counts.type, typesOf, TYPES),
      anon: facetOf(counts.anon, kind => [anons[Math.floor(kind / TYPE_SETS)] ?? ''], anons),
      country: facetOf(counts.country, place => [countryText((keys[place] ?? 0) % COUNTRIES)]),
      service: facetOf(
        counts.services,
        bits => services.filter((_, n) => bits & (1 << n)),
        services,
      ),
      age,
    },
    histograms: {
      ping: BINS.ping.histogram(counts.ping),
      speed: BINS.speed.histogram(counts.speed),
      works: BINS.works.histogram(counts.works),
    },
    cities: largestOf(counts.city, keys).map(city),
    examples,
  }
}

export type Breakdown = {
  rows: number
  /** The newest check, in Unix seconds; `null` for an empty list. */
  newest: number | null
  /** The median of the checks, likewise. */
  median: number | null
  /** An address counts for each of its types. */
  types: readonly { type: ProxyType; count: number }[]
  /** The most frequent first; `''` is unknown. */
  countries: readonly { country: string; count: number }[]
  /** Rows by the smallest bound that they are within; `null`: older than all bounds. */
  ages: readonly { seconds: number | null; count: number }[]
}

/** The number of rows that a query without `time` finds. */
export const freshRows = ({ ages }: Breakdown): number =>
  ages
    .filter(({ seconds }) => seconds !== null && seconds <= DEFAULT_AGE_MAX_SECONDS)
    .reduce((sum, { count }) => sum + count, 0)
