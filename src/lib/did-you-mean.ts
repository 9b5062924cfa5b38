/** "Did you mean": finds the known name closest to an unknown one. Pure. */
import { closest, distance } from 'fastest-levenshtein'

/** Longer names are no misspellings, and slow to compare. */
const NAME_LENGTH_MAX = 40

/** The first name in `known` (lower case) with the fewest edits, up to a third of the length; else `null`. */
export function nearest(name: string, known: readonly string[]): string | null {
  if (name.length > NAME_LENGTH_MAX || known.length === 0) return null
  const best = closest(name.toLowerCase(), known)
  const editsMax = Math.max(1, Math.floor(name.length / 3))
  return distance(name.toLowerCase(), best) <= editsMax ? best : null
}
