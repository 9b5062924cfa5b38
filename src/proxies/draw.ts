/** Drawing proxies at random (contract F1). */
import { AT, type EndpointRow } from './row.ts'

/**
 * Every proxy that matches a filter, in the order of contract A4: 12 bytes each. While the list is unchanged
 * they only grow older, so the young ones are always the first.
 */
export type Matches = {
  ids: Float64Array
  /** Unix seconds. */
  checkedAt: Uint32Array
}

export function matchesOf(rows: Iterable<EndpointRow>): Matches {
  const ids: number[] = []
  const checkedAt: number[] = []
  for (const row of rows) {
    ids.push(row[AT.id])
    checkedAt.push(row[AT.checkedAt])
  }
  return { ids: new Float64Array(ids), checkedAt: new Uint32Array(checkedAt) }
}

/** How many of the first items pass; `passes` must not be true again behind one that fails. */
export function countFirst(length: number, passes: (at: number) => boolean): number {
  let [low, high] = [0, length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (passes(middle)) low = middle + 1
    else high = middle
  }
  return low
}

/**
 * Up to `count` of the first `size` ids, in random order: every draw is equally likely (Fisher and Yates; only
 * positions that differ from their number are in memory).
 * @param random a number from 0 to less than 1
 */
export function draw(
  ids: ArrayLike<number>,
  size: number,
  count: number,
  random = Math.random,
): number[] {
  const moved = new Map<number, number>()
  return Array.from({ length: Math.min(size, count) }, (_, at) => {
    const from = at + Math.floor(random() * (size - at))
    const drawn = moved.get(from) ?? from
    moved.set(from, moved.get(at) ?? at)
    moved.delete(at) // no later draw looks at it
    return ids[drawn] ?? 0
  })
}
