/**
 * Owns maps with a bound, which drop the entries used least recently, and keeping out of them what
 * is asked for only once.
 */
import { LRUCache } from 'lru-cache'

/** A map of at most `entriesMax` entries; `dispose` is called with each value that leaves it. */
export const createBoundedMap = <Key extends {}, Value extends {}>(
  entriesMax: number,
  dispose?: (value: Value) => void,
): LRUCache<Key, Value> =>
  new LRUCache<Key, Value>({
    // A size instead of `max`, for which lru-cache allocates room for all entries at once.
    maxSize: entriesMax,
    sizeCalculation: () => 1,
    ...(dispose && { dispose }),
  })

/** Keys that a doorkeeper can know. */
const SLOTS = 65_536

/**
 * A doorkeeper, as the cache policy TinyLFU calls it: returns whether it was called with `key`
 * before, not long ago. What is asked for once is not worth storing: it costs memory and time, and
 * displaces what is asked for often. So a map behind a doorkeeper stores a key the second time.
 *
 * A key is known by its hash, in the one slot that the hash leads to. The next key of that slot
 * displaces it, so it may have to be asked for a third time; a key with the same hash passes at
 * once. Neither changes what is right to store.
 */
export function createDoorkeeper(slots = SLOTS): (key: string) => boolean {
  const hashes = new Uint32Array(slots)
  return key => {
    const hash = Bun.hash.xxHash32(key)
    const slot = hash % slots
    const isKnown = hashes[slot] === hash
    hashes[slot] = hash
    return isKnown
  }
}
