/** Owns what a message says of an unknown name: how much of it, and "did you mean". Pure. */

/** Edits (insert, delete, replace) that turn `a` into `b`; Wagner and Fischer, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (const [i, charA] of [...a].entries()) {
    const next = [i + 1]
    for (const [j, charB] of [...b].entries()) {
      const replace = (row[j] ?? 0) + (charA === charB ? 0 : 1)
      next.push(Math.min(replace, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** The known name within a third of `name`'s length (at least one edit), or `null`. */
export function nearest(name: string, known: readonly string[]): string | null {
  if (name.length > 40) return null
  const ranked = known
    .map(candidate => ({ candidate, distance: editDistance(name.toLowerCase(), candidate) }))
    .sort((a, b) => a.distance - b.distance)
  const best = ranked[0]
  return best && best.distance <= Math.max(1, Math.floor(name.length / 3)) ? best.candidate : null
}

/** More characters than this of an unknown name, unless it is nearly a known one, may be a key's. */
const NAME_SHOWN_MAX = 9

/**
 * An unknown name as a message may repeat it. One that holds the key, or looks like one (a slip
 * such as `?key=K&K`, or a key cut by a raw `&`), is told in part or not at all.
 */
export function shownName(name: string, key: string, isNearlyKnown: boolean): string {
  const holdsKey = (key !== '' && name.includes(key)) || /pl_|temp_/.test(name)
  if (!/^[\w.-]{1,40}$/.test(name) || holdsKey) return ''
  const isWhole = isNearlyKnown || name.length <= NAME_SHOWN_MAX
  return ` '${isWhole ? name : `${name.slice(0, NAME_SHOWN_MAX)}…`}'`
}
