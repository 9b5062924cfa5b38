/**
 * Drawing proxies at random (contract F1), and the form in which all matches of a filter are kept
 * for it. Knows nothing of who keeps them.
 */
import type { EndpointRow } from './row.ts'

/**
 * Every proxy that matches a filter, in the order of contract A4, as columns of numbers: 13 bytes for
 * each. While the list is unchanged they only grow older, so those that are young enough are always
 * the first ones.
 */
export type Matches = {
  ids: Float64Array<ArrayBuffer>
  /** Positions in `TYPES`. */
  types: Uint8Array<ArrayBuffer>
  /** How much older each check is than the newest one. */
  agesSeconds: Uint32Array<ArrayBuffer>
  /** The newest check, Unix seconds. */
  newestSeconds: number
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

/** How many of the matches were checked at `sinceSeconds` or later. */
export function countSince({ agesSeconds, newestSeconds }: Matches, sinceSeconds: number): number {
  const ageMax = newestSeconds - sinceSeconds
  return countFirst(agesSeconds.length, at => (agesSeconds[at] ?? Infinity) <= ageMax)
}

/** The endpoint of a match; its ping is not known. */
export const matchAt = ({ ids, types, agesSeconds, newestSeconds }: Matches, at: number) =>
  [ids[at] ?? 0, newestSeconds - (agesSeconds[at] ?? 0), 0, types[at] ?? 0] satisfies EndpointRow

/**
 * Up to `count` different positions below `size`, in random order: every draw is equally likely
 * (Fisher and Yates; only positions that differ from their number are in memory).
 * @param random a number from 0 to less than 1
 */
export function draw(size: number, count: number, random = Math.random): Uint32Array {
  const drawn = new Uint32Array(Math.min(size, count))
  const moved = new Map<number, number>()
  for (let at = 0; at < drawn.length; at += 1) {
    const from = at + Math.floor(random() * (size - at))
    drawn[at] = moved.get(from) ?? from
    moved.set(from, moved.get(at) ?? at)
    moved.delete(at) // no later draw looks at it
  }
  return drawn
}

/** Up to `count` different items, drawn as `draw` does. */
export const drawFrom = <T>(items: readonly T[], count: number | null): T[] =>
  Array.from(draw(items.length, count ?? items.length), at => items[at] as T) // below its length
