/** A map of the last added entries, and a filter that keeps keys out of a cache that are used only once. */

/** A map of the last `entriesMax` added entries. A lookup takes a third of the time of an `LRUCache`. */
export function createFifoMap<Key, Value>(entriesMax: number) {
  const map = new Map<Key, Value>()
  return {
    get: (key: Key): Value | undefined => map.get(key),
    set(key: Key, value: Value): void {
      map.set(key, value)
      if (map.size > entriesMax) map.delete(map.keys().next().value as Key) // the oldest
    },
    clear: (): void => map.clear(),
  }
}

/** A doorkeeper remembers up to `BUCKETS * WAYS` keys. */
const BUCKETS = 32_768
const WAYS = 4

/**
 * Returns whether a key was used recently (TinyLFU). A cache that stores a key the second time has room for repeated
 * ones. A key with the same hash passes at once, which is harmless. With one place per bucket, two keys could alternate.
 */
export function createDoorkeeper(): (key: string) => boolean {
  const hashes = new Uint32Array(BUCKETS * WAYS)
  return key => {
    const hash = Bun.hash.xxHash32(key)
    const first = (hash % BUCKETS) * WAYS
    const end = first + WAYS
    for (let at = first; at < end; at += 1) if (hashes[at] === hash) return true
    hashes.copyWithin(first + 1, first, end - 1)
    hashes[first] = hash
    return false
  }
}
