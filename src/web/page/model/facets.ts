/**
 * Owns counting: how many proxies pass what is chosen, and how many would with each option of each
 * filter, from the cube of the statistics. Pure.
 */
import { type Choice, DEFAULT_AGE_SECONDS, isInvalid, itemsOf, type Name } from './query.ts'
import { type Cube, type Dimensions, MERGED, type Stats } from './stats.ts'

/** Counts by option: countries in upper case as in the cube, ages in seconds. */
export type Facet = ReadonlyMap<string, number>

export type Facets = {
  matches: number
  /** Whether `matches` is exact, the most it can be, or the least. */
  bound: 'exact' | 'most' | 'least'
  type: Facet
  anon: Facet
  country: Facet
  service: Facet
  /** Of each age: all that are at most so old. */
  age: Facet
}

/** Filters that the cube does not have: with one of them, counts are upper bounds. */
const OUTSIDE = ['ping', 'speed', 'works', 'city', 'port', 'ip'] as const satisfies Name[]

const isGiven = (choice: Choice, name: Name): boolean =>
  choice[name].trim() !== '' && !isInvalid(name, choice[name])

const ageOf = (choice: Choice): number =>
  isGiven(choice, 'time') ? Number(choice.time) : DEFAULT_AGE_SECONDS

/** For each value of a dimension, whether the choice lets it pass. */
type Passes = { type: boolean[]; anon: boolean[]; country: boolean[]; age: boolean[] }

function passesOf({ type, anon, country, age }: Dimensions, choice: Choice): Passes {
  const within = (values: readonly string[], chosen: readonly string[]): boolean[] =>
    values.map(value => chosen.length === 0 || chosen.includes(value))
  const countries = itemsOf(choice.country.toUpperCase())
  const isExcept = choice.country_mode === 'except'
  const seconds = ageOf(choice)
  // An age between two bounds takes in the bucket that it cuts: an upper bound.
  const last = age.findIndex(bound => bound >= seconds)
  return {
    type: within(type, itemsOf(choice.type)),
    anon: within(anon, itemsOf(choice.anon)),
    country: country.map(c => countries.length === 0 || countries.includes(c) !== isExcept),
    age: age.map((_, i) => last === -1 || i <= last),
  }
}

const at = (column: readonly number[] | undefined, i: number): number => column?.[i] ?? 0

/** Counts kept while cells are walked. */
const blank = (d: Dimensions) => ({
  ...{ matches: 0, merged: 0, type: d.type.map(() => 0), anon: d.anon.map(() => 0) },
  ...{ country: d.country.map(() => 0), age: d.age.map(() => 0) },
  service: d.services.map(() => 0),
})
type Counts = ReturnType<typeof blank>

const bump = (counts: number[], i: number, by: number): void => {
  counts[i] = at(counts, i) + by
}

/** Adds a cell to the option of every filter that alone decides about it. */
function addCell(cube: Cube, i: number, passes: Passes, chosen: readonly number[], sum: Counts) {
  const place = {
    ...{ type: at(cube.type, i), anon: at(cube.anon, i) },
    ...{ country: at(cube.country, i), age: at(cube.age, i) },
  }
  const names = ['type', 'anon', 'country', 'age'] as const
  const failed = names.filter(name => passes[name][place[name]] !== true)
  if (failed.length > 1) return
  // Of those with all of several services there are at most as many as with the rarest.
  const n = Math.min(at(cube.count, i), ...chosen.map(s => at(cube.services[s], i)))
  const [only] = failed
  if (only !== undefined) {
    bump(sum[only], place[only], n)
    return
  }
  sum.matches += n
  for (const name of names) bump(sum[name], place[name], n)
  for (const [s, column] of cube.services.entries())
    bump(sum.service, s, Math.min(n, at(column, i)))
}

const named = (names: readonly string[], counts: readonly number[]): Facet =>
  new Map(names.map((name, i) => [name, at(counts, i)]))

/** How far `matches` can be trusted; `merged` of the merged countries may be chosen ones. */
function boundOf(choice: Choice, ages: readonly number[], merged: number): Facets['bound'] {
  const isCut = !ages.includes(ageOf(choice))
  const isOutside = OUTSIDE.some(name => isGiven(choice, name))
  if (isCut || isOutside || itemsOf(choice.service).length > 1) return 'most'
  if (merged === 0 || !isGiven(choice, 'country')) return 'exact'
  return choice.country_mode === 'except' ? 'most' : 'least'
}

/** Every count that the page shows for a choice; `null` where the statistics have no cube. */
export function countFacets({ counted }: Stats, choice: Choice): Facets | null {
  if (counted === null) return null
  const { dimensions: d, cube } = counted
  const passes = passesOf(d, choice)
  const wanted = itemsOf(choice.service).map(item => item.replaceAll('_', ' '))
  const chosen = d.services.flatMap((name, i) => (wanted.includes(name) ? [i] : []))
  const sum = blank(d)
  for (let i = 0; i < cube.count.length; i++) addCell(cube, i, passes, chosen, sum)
  const country = named(d.country, sum.country)
  const merged = country.get(MERGED) ?? 0
  const bound = boundOf(choice, d.age, merged)
  const isIncluded = isGiven(choice, 'country') && choice.country_mode !== 'except'
  let older = 0
  return {
    matches: sum.matches + (bound === 'most' && isIncluded ? merged : 0),
    ...{ bound, type: named(d.type, sum.type), anon: named(d.anon, sum.anon), country },
    service: named(d.services, sum.service),
    age: new Map(
      d.age.map((seconds, i) => {
        older += at(sum.age, i)
        return [String(seconds), older]
      }),
    ),
  }
}
