/** Owns the "did you mean" hint. Pure. */

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
