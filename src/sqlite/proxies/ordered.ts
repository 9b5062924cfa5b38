/**
 * Orders that no index has, because each index costs an import of a million rows a second: the ids of all matches are read once, sorted or drawn in
 * memory (8 bytes each), and their rows looked up page by page. All of it has to happen on one snapshot.
 */
import { draw, type Matches } from '../../proxies/draw.ts'
import type { Filter } from '../../proxies/filter.ts'
import { maskId } from '../../proxies/mask.ts'
import { AT, type EndpointRow } from '../../proxies/row.ts'
import type { FindOptions } from '../../proxies/store.ts'
import type { Search } from './filter-sql.ts'
import { type NextMark, PAGE_ROWS, readPages } from './pages.ts'
import { type Columns, ENDPOINT_COLUMNS, type Reader, type RowOrder } from './reader.ts'

type Bits = FindOptions['addressBits']

/** Where rows are read from, see `readPages`. */
export type Source = { read: Reader; nextMark: NextMark }

/**
 * Reads all matches in the order of contract A4, with a pause after each page; with 16 bits of an
 * address, the first of those that look the same.
 */
function* forEachMatch<R extends EndpointRow>(
  { read, nextMark }: Source,
  search: Search,
  columns: Columns,
  addressBits: Bits,
  use: (row: R) => void,
): Generator<void, void> {
  const seen = new Set<number>()
  for (const page of readPages<R>(read, search, columns, null, { nextMark })) {
    for (const row of page) {
      const masked = addressBits === 16 ? maskId(row[AT.id]) : null
      if (masked !== null && seen.has(masked)) continue
      if (masked !== null) seen.add(masked)
      use(row)
    }
    yield
  }
}

/** Reads all matches, in the form in which they are kept to draw from. Pauses after each page. */
export function* readMatches(
  source: Source,
  search: Search,
  addressBits: Bits,
): Generator<void, Matches> {
  const ids: number[] = []
  const types: number[] = []
  const ages: number[] = []
  let newestSeconds = 0
  yield* forEachMatch<EndpointRow>(source, search, ENDPOINT_COLUMNS, addressBits, row => {
    if (ids.length === 0) newestSeconds = row[AT.checkedAt]
    ids.push(row[AT.id])
    types.push(row[AT.type])
    ages.push(newestSeconds - row[AT.checkedAt])
  })
  return {
    ids: new Float64Array(ids),
    types: new Uint8Array(types),
    agesSeconds: new Uint32Array(ages),
    newestSeconds,
  }
}

/** What an order sorts by, ascending, as a column. */
const KEYS: { [O in RowOrder]: string } = {
  checked: '-checked_at',
  ping: 'ping_ms',
  speed: '-speed',
  works: '-works',
}

/** Keys that are sorted without a pause: it takes some milliseconds. */
const SORT_RUN = 16_384

/** Merges two sorted runs of `from`, which meet at `middle`, into the same place of `to`. */
function merge(
  from: Uint32Array,
  to: Uint32Array,
  [begin, middle, end]: readonly [number, number, number],
  compare: (a: number, b: number) => number,
): void {
  let [left, right] = [begin, middle]
  for (let at = begin; at < end; at += 1) {
    const [a, b] = [from[left] ?? 0, from[right] ?? 0]
    const takesLeft = right >= end || (left < middle && compare(a, b) < 0)
    to[at] = takesLeft ? a : b
    if (takesLeft) left += 1
    else right += 1
  }
}

/** The positions of the keys in ascending order, ties by position. Pauses now and then. */
export function* sortedPositions(
  keys: ArrayLike<number>,
  run = SORT_RUN,
): Generator<void, Uint32Array> {
  const { length } = keys
  const compare = (a: number, b: number): number => (keys[a] ?? 0) - (keys[b] ?? 0) || a - b
  let order = Uint32Array.from({ length }, (_, at) => at)
  for (let at = 0; at < length; at += run) {
    order.subarray(at, at + run).sort(compare)
    yield
  }
  let merged = new Uint32Array(length)
  for (let width = run; width < length; width *= 2) {
    for (let at = 0; at < length; at += 2 * width) {
      const end = Math.min(at + 2 * width, length)
      merge(order, merged, [at, Math.min(at + width, length), end], compare)
      yield
    }
    ;[order, merged] = [merged, order]
  }
  return order
}

/** Matches are put in order when there are so many more of them than are wanted. */
const SURPLUS = 4 * PAGE_ROWS

/**
 * The ids of up to `most` matches, the first ones when sorted; ties stay in the order of contract A4,
 * in which they are read.
 */
function* sortedIds(source: Source, search: Search, most: number): Generator<void, number[]> {
  let ids: number[] = []
  let keys: number[] = []
  function* cut(): Generator<void, void> {
    const order = (yield* sortedPositions(keys)).subarray(0, most)
    ids = Array.from(order, at => ids[at] ?? 0)
    keys = Array.from(order, at => keys[at] ?? 0)
  }
  const columns = [...ENDPOINT_COLUMNS, KEYS[search.order]]
  const reading = forEachMatch<[...EndpointRow]>(source, search, columns, 32, row => {
    ids.push(row[AT.id])
    keys.push(Number(row[ENDPOINT_COLUMNS.length]))
  })
  for (const _ of reading) {
    yield
    if (ids.length > most + SURPLUS) yield* cut()
  }
  yield* cut()
  return ids
}

/** The ids of an answer in an order that no index has, in this order. */
function* orderedIds(
  source: Source,
  search: Search,
  { sort, count }: Filter,
  addressBits: Bits,
): Generator<void, Float64Array> {
  if (sort !== 'random') {
    return new Float64Array(yield* sortedIds(source, search, count ?? Infinity))
  }
  const { ids } = yield* readMatches(source, search, addressBits)
  return Float64Array.from(draw(ids.length, count ?? ids.length), at => ids[at] ?? 0)
}

/** The rows with these ids, in their order. The outer loop of a cross join is its left side. */
export function lookUp<R extends EndpointRow>(
  read: Reader,
  columns: Columns,
  ids: ArrayLike<number>,
): R[] {
  const named = columns.map(column => `proxies.${column}`).join(', ')
  const sql = `select ${named} from json_each(?) as wanted cross join proxies on proxies.id = wanted.value`
  return read.all<R>(sql, [JSON.stringify(Array.from(ids))])
}

/**
 * An answer in an order that no index has: its pages, some of them empty, and the ids of all its rows,
 * which are found with pauses.
 */
export function readOrdered<R extends EndpointRow>(
  source: Source,
  search: Search,
  filter: Filter,
  columns: Columns,
  addressBits: Bits,
): { pages: Generator<R[]>; ids: () => Generator<void, Float64Array> } {
  let known: Float64Array | null = null
  function* ids(): Generator<void, Float64Array> {
    known ??= yield* orderedIds(source, search, filter, addressBits)
    return known
  }

  function* pages(): Generator<R[]> {
    const finding = ids()
    let found = finding.next()
    for (; !found.done; found = finding.next()) yield []
    const all = found.value
    for (let at = 0; at < all.length; at += PAGE_ROWS) {
      yield lookUp<R>(source.read, columns, all.subarray(at, at + PAGE_ROWS))
    }
  }
  return { pages: pages(), ids }
}
