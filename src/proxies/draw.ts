/** Drawing proxies at random (contract F1). */
import { AT, type EndpointRow } from './row.ts'

/** All proxies that match a filter, in the order of contract A4: young enough ones come first. */
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

/** How many of the first items pass. `passes` must be false for all items after the first one that fails. */
export function countFirst(length: number, passes: (at: number) => boolean): number {
  let [low, high] = [0, length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (passes(middle)) low = middle + 1
    else high = middle
  }
  return low
}

/** Draws up to `count` of the first `size` ids: a Fisher–Yates shuffle that stores only moved positions. */
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
    moved.delete(at) // later draws don't read it
    return ids[drawn] ?? 0
  })
}
