/** Finds conflicts between imported keys and the keys and plans of a store. */
import type { StoredKey } from './key.ts'
import type { LoadProblem } from './ports.ts'

/** The ids, secrets (in hexadecimal) and plans of a store. */
export type Known = { ids: Set<string>; idOf: Map<string, string>; plans: Set<string> }

export const hashesOf = ({ hash, oldSecrets }: StoredKey): Uint8Array[] => [
  hash,
  ...oldSecrets.map(old => old.hash),
]

/** Why keys cannot be stored. Also finds duplicates among `keys`, because each key becomes known before the next. */
export function problemsOf(keys: readonly StoredKey[], { ids, idOf, plans }: Known): LoadProblem[] {
  return keys.flatMap((key, index): LoadProblem[] => {
    const hashes = hashesOf(key).map(hash => hash.toHex())
    const id = hashes.map(hash => idOf.get(hash)).find(found => found !== undefined)
    if (id !== undefined) return [{ kind: 'known-secret', index, id }]
    if (ids.has(key.id)) return [{ kind: 'known-id', index }]
    if (key.plan !== null && !plans.has(key.plan)) return [{ kind: 'unknown-plan', index }]
    ids.add(key.id)
    for (const hash of hashes) idOf.set(hash, key.id)
    return []
  })
}
