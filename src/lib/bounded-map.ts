/** Maps with a bound, and a filter that keeps keys out of them that are used only once. */
import { LRUCache } from 'lru-cache'

/** An LRU map of `entriesMax` entries, or of sizes that add up to it. It passes removed values to `dispose`. */
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
 * A map of the `entriesMax` entries that were added last. Every request looks them up: it costs what a `Map` costs, a
 * third of an `LRUCache`. An entry that is dropped while it is in use is found and added again.
 */
export function createFifoMap<Key, Value>(entriesMax: number) {
  const map = new Map<Key, Value>()
  return {
    get: (key: Key): Value | undefined => map.get(key),
    set(key: Key, value: Value): void {
      map.set(key, value)
      if (map.size > entriesMax) map.delete(map.keys().next().value as Key) // there is one
    },
    clear: (): void => map.clear(),
  }
}

/** A doorkeeper knows up to this many times `WAYS` keys. */
const BUCKETS = 32_768
const WAYS = 4

/**
 * A doorkeeper, as the cache policy TinyLFU calls it: returns whether it was recently called with `key`. A map
 * behind it stores a key the second time. A key that is used once would cost memory and time, and evict keys that
 * are used often.
 *
 * It stores the hash of a key in a bucket. Four later keys of the bucket evict it: with one place a bucket, two
 * alternating keys would evict each other forever. A key with the same hash passes at once, which does no harm.
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
