/** Bounded maps, and a filter that keeps keys out of them that are used only once. */
import { LRUCache } from 'lru-cache'

/** An LRU map of up to `entriesMax` entries, or of that total size. It passes removed values to `dispose`. */
export const createBoundedMap = <Key extends {}, Value extends {}>(
  entriesMax: number,
  dispose?: (value: Value) => void,
  sizeOf: (value: Value) => number = () => 1,
): LRUCache<Key, Value> =>
  new LRUCache<Key, Value>({
    // A size instead of `max`, for which lru-cache allocates room for all entries at once.
    maxSize: entriesMax,
    sizeCalculation: sizeOf,
    ...(dispose && { dispose }),
  })

/**
 * A map of the last `entriesMax` added entries, for lookups in every request: a lookup takes a third of the time of an
 * `LRUCache`. Callers add an evicted entry again when they need it.
 */
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
 * A doorkeeper (TinyLFU) returns whether it was recently called with `key`. The map behind it stores a key the second
 * time: a key that is used once costs no memory, and evicts no key that is used often.
 *
 * It stores the hash of a key in a bucket, until four later keys of the bucket evict it. With one place per bucket, two
 * alternating keys would evict each other forever. A key with the same hash passes at once, which is harmless.
 */
export function createDoorkeeper(buckets = BUCKETS): (key: string) => boolean {
  const hashes = new Uint32Array(buckets * WAYS)
  return key => {
    const hash = Bun.hash.xxHash32(key)
    const first = (hash % buckets) * WAYS
    const end = first + WAYS
    for (let at = first; at < end; at += 1) if (hashes[at] === hash) return true
    hashes.copyWithin(first + 1, first, end - 1)
    hashes[first] = hash
    return false
  }
}
