/** Keys that come from elsewhere, as `keys import` stores them: what could collide with what a store has. */
import type { StoredKey } from './key.ts'
import type { LoadProblem } from './ports.ts'

/** What a store has that keys to be stored could collide with; secrets are in hexadecimal. */
export type Known = { ids: Set<string>; idOf: Map<string, string>; plans: Set<string> }

export const hashesOf = ({ hash, oldSecrets }: StoredKey): Uint8Array[] => [
  hash,
  ...oldSecrets.map(old => old.hash),
]

/**
 * Why keys cannot be stored beside the known keys and plans. It finds duplicates within a call, too, because each
 * key becomes known before the next.
 */
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
