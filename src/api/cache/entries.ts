/**
 * Owns the entries of the response cache: each is right for one version of the list, between two
 * instants; the least recently used ones make room. Knows nothing of how answers are found.
 */
import { LRUCache } from 'lru-cache'
import type { Matches } from '../../proxies/draw.ts'
import type { Found } from '../../proxies/row.ts'
import type { Answer } from '../answer.ts'

/** What draws are made from: rows while they are few, otherwise numbers. */
export type MatchSet = { kind: 'few'; found: Found } | { kind: 'many'; matches: Matches }

/** `null`: no proxy matches. `too-large`: to be found by the streamer. */
export type Content = Answer | MatchSet | 'too-large' | null

export type Entry = {
  content: Content
  listVersion: string
  /** Seconds of `ageClock` between which the entry is right, both included. */
  fromSeconds: number
  toSeconds: number
}

/** Memory of an entry besides its content, and of a row with its text. */
const OVERHEAD_BYTES = 1024
const ROW_BYTES = 512

function bytesOf(content: Content): number {
  if (content === null || content === 'too-large') return 0
  if (content.kind === 'few') return content.found.rows.length * ROW_BYTES
  if (content.kind === 'many') {
    const { ids, types, agesSeconds } = content.matches
    return ids.byteLength + types.byteLength + agesSeconds.byteLength
  }
  const subnetBytes = content.subnets.length * 8
  return content.chunks.reduce((sum, { length }) => sum + length, subnetBytes)
}

/** An entry, and the memory that other modules hold for it, such as compressed bodies. */
type Held = { entry: Entry; reservedBytes: number }
const sizeOf = ({ entry, reservedBytes }: Held): number =>
  OVERHEAD_BYTES + bytesOf(entry.content) + reservedBytes

/** What the cache did so far, and its size. */
export type CacheCounts = {
  /** Lookups that found what is right, and those that did not. */
  hits: number
  misses: number
  /** Entries that made room for others. */
  evictions: number
  entries: number
  bytes: number
  bytesMax: number
}

export type CacheEntries = ReturnType<typeof createCacheEntries>

/** Creates entries of at most `bytesMax` bytes together, looked up by id. */
export function createCacheEntries(bytesMax: number) {
  const counts = { hits: 0, misses: 0, evictions: 0 }
  const held = new LRUCache<string, Held>({
    maxSize: Math.max(1, bytesMax), // every entry is larger than 1 byte, so none fits
    sizeCalculation: sizeOf,
    dispose(_, __, reason) {
      if (reason === 'evict') counts.evictions += 1
    },
  })
  const isRight = (entry: Entry, listVersion: string, nowSeconds: number): boolean =>
    entry.listVersion === listVersion &&
    entry.fromSeconds <= nowSeconds &&
    nowSeconds <= entry.toSeconds

  return {
    has: (id: string): boolean => held.has(id),

    /** The entry that is right at `nowSeconds` for this version of the list. */
    lookUp(id: string, listVersion: string, nowSeconds: number): Entry | null {
      const entry = held.get(id)?.entry
      if (entry === undefined || !isRight(entry, listVersion, nowSeconds)) {
        counts.misses += 1
        return null
      }
      if (entry.content === 'too-large') counts.misses += 1
      else counts.hits += 1
      return entry
    },

    counts: (): CacheCounts => ({
      ...counts,
      entries: held.size,
      bytes: held.calculatedSize,
      bytesMax,
    }),

    set: (id: string, entry: Entry): void => void held.set(id, { entry, reservedBytes: 0 }),

    /** Records what has to be found by the streamer while the list stays unchanged. */
    markTooLarge(id: string, listVersion: string): void {
      const always = { fromSeconds: -Infinity, toSeconds: Infinity }
      const entry: Entry = { content: 'too-large', listVersion, ...always }
      held.set(id, { entry, reservedBytes: 0 })
    },

    /**
     * Reserves memory that another module holds as long as `content` is in the cache. Returns false
     * when it is no longer in the cache, or when the entry would exceed the bound of the cache.
     */
    reserve(id: string, content: Answer, bytes: number): boolean {
      const known = held.peek(id)
      if (known?.entry.content !== content) return false
      const larger = { ...known, reservedBytes: known.reservedBytes + bytes }
      if (sizeOf(larger) > bytesMax) return false
      held.set(id, larger)
      return true
    },
  }
}
