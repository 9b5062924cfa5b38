/** Owns a bounded map that forgets what was used least recently. */

export type Lru<Key, Value> = {
  get(key: Key): Value | undefined
  set(key: Key, value: Value): void
  delete(key: Key): void
  clear(): void
}

/** An entry used again this soon keeps its place: moving it would cost more than it tells. */
const RECENT_USES = 1000

type LruOptions<Value> = {
  /** By default each value weighs 1. */
  weightOf?: (value: Value) => number
  /** Told of every value that goes. */
  dropped?: (value: Value) => void
  /** An entry keeps its place when it was used at most this many uses ago. */
  recentUses?: number
}

/** A map that holds values of at most `weightMax` together. What does not fit alone is not kept. */
export function createLru<Key, Value>(
  weightMax: number,
  { weightOf = () => 1, dropped = () => {}, recentUses = RECENT_USES }: LruOptions<Value> = {},
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
      if (uses - entry.usedAt > recentUses) {
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
