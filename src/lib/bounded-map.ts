/** Maps with a bound, and keeping out of them what is asked for only once. */
import { LRUCache } from 'lru-cache'

/** Keeps what was used last: a map of `entriesMax` entries, or of sizes that add up to it; `dispose` gets values that leave it. */
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
 * Keeps what was added last, of sizes that add up to `sizeMax`, by default so many entries: for what every
 * request looks up, because a look-up is that of a `Map` and moves nothing. What is dropped while it is in
 * use is added again, at the price of finding it once. No entry may be larger than `sizeMax`, or change.
 */
export function createFifoMap<Key, Value>(
  sizeMax: number,
  sizeOf: (key: Key, value: Value) => number = () => 1,
) {
  const map = new Map<Key, Value>()
  let oldest = map.keys() // iterators of maps go on behind what is deleted, and see what is added
  let size = 0
  const sizeAt = (key: Key): number => (map.has(key) ? sizeOf(key, map.get(key) as Value) : 0)
  return {
    get: (key: Key): Value | undefined => map.get(key),
    set(key: Key, value: Value): void {
      size += sizeOf(key, value) - sizeAt(key)
      map.set(key, value)
      while (size > sizeMax) {
        const first = oldest.next().value as Key // there is one
        size -= sizeAt(first)
        map.delete(first)
      }
    },
    clear(): void {
      map.clear()
      oldest = map.keys()
      size = 0
    },
  }
}

/** A doorkeeper knows up to this many times `WAYS` keys. */
const BUCKETS = 32_768
const WAYS = 4

/**
 * A doorkeeper, as the cache policy TinyLFU calls it: returns whether it was called with `key`
 * before, not long ago. What is asked for once is not worth storing: it costs memory and time, and
 * displaces what is asked for often. So a map behind a doorkeeper stores a key the second time.
 *
 * A key is known by its hash, in the bucket that the hash leads to. Four later keys of that bucket
 * displace it (with one place for each, two keys that are asked for in turn would displace each
 * other forever); a key with the same hash passes at once. Neither changes what is right to store.
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
