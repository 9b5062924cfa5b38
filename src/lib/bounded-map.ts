/** Owns maps with a bound: they drop the entries used least recently. */
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
