/**
 * Counting: how many proxies pass what is chosen, and how many would with each option of each
 * filter, from the statistics. Those merge and hide what is small, so a count is a range that the true
 * number is in. Pure.
 */
import { type Choice, DEFAULT_AGE_SECONDS, isInvalid, itemsOf, type Name } from './query.ts'
import { type Cube, columnPasses, type Dimensions, MERGED, type Stats } from './stats.ts'

/**
 * The true number is from `least` to `most`. `size` is what is drawn: rows of cells that count them,
 * without what merged and hidden rows may add and filters that the cube does not have may take away.
 */
export type Count = { readonly least: number; readonly most: number; readonly size: number }

/** Counts by option: countries in upper case as in the cube, ages in seconds. */
export type Facet = ReadonlyMap<string, Count>

export type Facets = {
  matches: Count
  type: Facet
  anon: Facet
  country: Facet
  service: Facet
  /** Of each age: all that are at most so old. */
  age: Facet
}

/** What is asked for, of the filters that the cube has. An empty list is all. */
type Wanted = {
  type: readonly string[]
  anon: readonly string[]
  seconds: number
  /** `MERGED` is those rows that merged cells have. */
  countries: readonly string[]
  isExcept: boolean
  /** Positions in the dimensions. */
  services: readonly number[]
}

/** A cell: its rows, then those with each service. */
type Cell = { count: number; services: readonly number[] }

/** Cells that agree in type, anonymity and age. */
type Group = {
  type: string
  anon: string
  /** Its rows are older than `after` and at most `upTo` seconds old. */
  after: number
  upTo: number
  /** By country. What has no cell here is merged or hidden. */
  named: Map<string, Cell>
  /** Rows whose country is not told; `null` where these are hidden. */
  merged: Cell | null
}

/** A group whose rows are hidden has at most so many of them: one more and they would be shown. */
const HIDDEN_MOST = 4

const at = (column: readonly number[] | undefined, i: number): number => column?.[i] ?? 0

function groupsOf({ type, anon, country, age }: Dimensions, cube: Cube): Group[] {
  const groups = type.flatMap(type =>
    anon.flatMap(anon =>
      age.map((upTo, i): Group => {
        const after = age[i - 1] ?? Number.NEGATIVE_INFINITY
        return { type, anon, after, upTo, named: new Map(), merged: null }
      }),
    ),
  )
  for (const [i, count] of cube.count.entries()) {
    const place = at(cube.type, i) * anon.length + at(cube.anon, i)
    const group = groups[place * age.length + at(cube.age, i)]
    if (group === undefined) continue
    const cell = { count, services: cube.services.map(column => at(column, i)) }
    const name = country[at(cube.country, i)] ?? MERGED
    if (name === MERGED) group.merged = cell
    else group.named.set(name, cell)
  }
  return groups
}

/** Of the rows of a cell, those that have all of several services. */
function withServices({ count, services }: Cell, wanted: readonly number[]): Count {
  let most = count
  let least = count
  for (const s of wanted) {
    const having = services[s] ?? 0
    most = Math.min(most, having)
    least -= count - having
  }
  return { least: Math.max(0, least), most, size: most }
}

/**
 * Of the rows of a group without a country, those of countries that are wanted. The largest cells have
 * a country, so one without has at most as many rows of each as `smallest`, the smallest of those.
 */
function inMerged({ named, merged }: Group, wanted: Wanted, smallest: number): Count {
  const { countries, isExcept, services } = wanted
  const range =
    merged === null ? { least: 0, most: HIDDEN_MOST, size: 0 } : withServices(merged, services)
  if (countries.length === 0 || countries.includes(MERGED)) return range
  const untold = countries.filter(country => !named.has(country)).length
  const theirs = untold === 0 ? 0 : untold * smallest
  if (isExcept) return { ...range, least: Math.max(0, range.least - theirs) }
  return { least: 0, most: Math.min(range.most, theirs), size: 0 }
}

function cellsOf({ named }: Group, { countries, isExcept }: Wanted): Cell[] {
  if (countries.length === 0) return [...named.values()]
  if (!isExcept) return countries.flatMap(name => named.get(name) ?? [])
  return [...named].filter(([name]) => !countries.includes(name)).map(([, cell]) => cell)
}

const isIn = (values: readonly string[], value: string): boolean =>
  values.length === 0 || values.includes(value)

const isInGroup = ({ type, anon, after }: Group, wanted: Wanted): boolean =>
  isIn(wanted.type, type) && isIn(wanted.anon, anon) && after < wanted.seconds

/** Counts what is wanted, of which `hidden` rows of the list are in no cell. */
function createCounter({ dimensions, cube }: NonNullable<Stats['counted']>, hidden: number) {
  const groups = groupsOf(dimensions, cube)
  const counts = groups.flatMap(({ named }) => [...named.values()].map(({ count }) => count))
  const smallest = counts.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  return (wanted: Wanted): Count => {
    const sum = { least: 0, most: 0, size: 0 }
    let unseen = 0
    for (const group of groups.filter(group => isInGroup(group, wanted))) {
      const ranges = cellsOf(group, wanted).map(cell => withServices(cell, wanted.services))
      const others = inMerged(group, wanted, smallest)
      if (group.merged === null) unseen += others.most
      else ranges.push(others)
      for (const { least, most, size } of ranges) {
        // An age that is chosen between two bounds cuts the group.
        sum.least += group.upTo <= wanted.seconds ? least : 0
        sum.most += most
        sum.size += size
      }
    }
    return { ...sum, most: sum.most + Math.min(unseen, hidden) }
  }
}

const isGiven = (choice: Choice, name: Name): boolean =>
  choice[name].trim() !== '' && !isInvalid(name, choice[name])

/** Filters that the cube does not have. An address is in the list once at most. */
const OUTSIDE = ['ping', 'speed', 'works', 'city', 'port', 'ip'] as const satisfies Name[]

/** The most that these filters let through; `null` when none is given. */
function mostOutside({ histograms, total }: Stats, choice: Choice): number | null {
  const mostOf = (name: (typeof OUTSIDE)[number]): number => {
    if (name === 'ip') return 1
    if (name === 'city' || name === 'port') return total
    const histogram = histograms[name]
    if (histogram === null) return total
    const limit = Number(choice[name])
    return histogram.counts.reduce(
      (sum, n, i) => sum + (columnPasses(name, histogram, i, limit) ? n : 0),
      0,
    )
  }
  const given = OUTSIDE.filter(name => isGiven(choice, name))
  return given.length === 0 ? null : Math.min(...given.map(mostOf))
}

const wantedOf = (choice: Choice, services: readonly string[]): Wanted => {
  const named = itemsOf(choice.service).map(item => item.replaceAll('_', ' '))
  return {
    type: itemsOf(choice.type),
    anon: itemsOf(choice.anon),
    seconds: isGiven(choice, 'time') ? Number(choice.time) : DEFAULT_AGE_SECONDS,
    countries: itemsOf(choice.country.toUpperCase()),
    isExcept: choice.country_mode === 'except',
    services: services.flatMap((name, i) => (named.includes(name) ? [i] : [])),
  }
}

/** Every count that the page shows for a choice; `null` where the statistics have no cube. */
export function countFacets(stats: Stats, choice: Choice): Facets | null {
  if (stats.counted === null) return null
  const { dimensions: d } = stats.counted
  const count = createCounter(stats.counted, stats.hidden)
  const wanted = wantedOf(choice, d.services)
  const outside = mostOutside(stats, choice)
  const countOf = (change: Partial<Wanted>): Count => {
    const range = count({ ...wanted, ...change })
    return outside === null ? range : { ...range, least: 0, most: Math.min(range.most, outside) }
  }
  const facet = <T>(options: readonly T[], change: (option: T, i: number) => Partial<Wanted>) =>
    new Map(options.map((option, i) => [String(option), countOf(change(option, i))]))
  return {
    matches: countOf({}),
    type: facet(d.type, type => ({ type: [type] })),
    anon: facet(d.anon, anon => ({ anon: [anon] })),
    country: facet(d.country, name => ({ countries: [name], isExcept: false })),
    service: facet(d.services, (_, i) => ({ services: [...new Set([...wanted.services, i])] })),
    age: facet(d.age, seconds => ({ seconds })),
  }
}
