/** Owns remembering what was worked out for an object, for as long as that object lives. */

/** A function that works out its result once for each object it is given. */
export function memoized<Of extends object, Result>(
  workOut: (of: Of) => Result,
): (of: Of) => Result {
  const known = new WeakMap<Of, Result>()
  return of => {
    const found = known.get(of)
    if (found !== undefined) return found
    const result = workOut(of)
    known.set(of, result)
    return result
  }
}
