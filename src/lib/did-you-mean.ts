/** "did you mean": the known name that is closest to an unknown one. Pure. */
import { closest, distance } from 'fastest-levenshtein'

/** A longer name is no misspelling, and slow to compare. */
const NAME_LENGTH_MAX = 40

/**
 * The known name with the fewest edits (insert, delete, replace), the first of several; `null` when
 * that takes more edits than a third of `name`'s length, or one. `known` is in lower case.
 */
export function nearest(name: string, known: readonly string[]): string | null {
  if (name.length > NAME_LENGTH_MAX || known.length === 0) return null
  const best = closest(name.toLowerCase(), known)
  const editsMax = Math.max(1, Math.floor(name.length / 3))
  return distance(name.toLowerCase(), best) <= editsMax ? best : null
}
