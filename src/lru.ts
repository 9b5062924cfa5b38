/** Owns a bounded map that forgets what was used least recently. */

export type Lru<Key, Value> = {
  get(key: Key): Value | undefined
  set(key: Key, value: Value): void
  delete(key: Key): void
  clear(): void
}

/** An entry used again this soon keeps its place: moving it would cost more than it tells. */
const RECENT_USES = 1000

/**
 * A map that holds values of at most `weightMax` together; by default each weighs 1. What does
 * not fit alone is not kept. `dropped` is told of every value that goes.
 */
export function createLru<Key, Value>(
  weightMax: number,
  weightOf: (value: Value) => number = () => 1,
  dropped: (value: Value) => void = () => {},
): Lru<Key, Value> {
  type Entry = { value: Value; usedAt: number }
  const entries = new Map<Key, Entry>() // in order of use, the latest last
  let weight = 0
  let uses = 0

  function remove(key: Key): void {
    const entry = entries.get(key)
    if (entry === undefined) return
    entries.delete(key)
    weight -= weightOf(entry.value)
    dropped(entry.value)
  }

  return {
    get(key) {
      const entry = entries.get(key)
      if (entry === undefined) return undefined
      uses += 1
      if (uses - entry.usedAt > RECENT_USES) {
        entries.delete(key)
        entries.set(key, entry)
        entry.usedAt = uses
      }
      return entry.value
    },
    set(key, value) {
      remove(key)
      if (weightOf(value) > weightMax) return
      entries.set(key, { value, usedAt: uses })
      weight += weightOf(value)
      for (const oldest of entries.keys()) {
        if (weight <= weightMax) break
        remove(oldest)
      }
    },
    delete: remove,
    clear() {
      for (const { value } of entries.values()) dropped(value)
      entries.clear()
      weight = 0
    },
  }
}
