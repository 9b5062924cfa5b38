/**
 * Owns the response cache: answers in memory, and how long each stays exactly right. While the
 * list is unchanged, an answer changes only when a row in it grows older than the filter allows,
 * or when the clock steps back to where a row left out was young enough. So there is no time to
 * live to tune.
 */
import { LRUCache } from 'lru-cache'
import type { Share } from '../access/entitlements.ts'
import { createDoorkeeper } from '../lib/bounded-map.ts'
import { toSeconds } from '../lib/time.ts'
import type { ProxyReader } from '../proxies/store.ts'
import { type Answer, createAnswerFinder, type Rendered } from './answer.ts'
import type { Query } from './query.ts'
import { createSelectBudgets } from './select-budget.ts'
import type { AnswerStream, AnswerStreamer } from './streaming.ts'

type Entry = {
  /** `null`: no proxy matches. `too-large`: the answer has to be streamed. */
  content: Answer | 'too-large' | null
  listVersion: string
  /** Unix seconds between which the entry is right, both included. */
  fromSeconds: number
  toSeconds: number
  /** Memory that other modules hold for the answer, such as compressed bodies. */
  reservedBytes: number
}

export type CacheParts = {
  reader: ProxyReader
  /** Called when the reader finds an answer too large; `null` if it never does. */
  streamer: AnswerStreamer | null
  /** Name of the provider's own service. */
  provider: string
  /** Most bytes of memory; 0 turns the cache off. */
  bytesMax: number
}

/** Memory of an entry besides its content. */
const OVERHEAD_BYTES = 1024

function sizeOf({ content, reservedBytes }: Entry): number {
  if (content === null || content === 'too-large') return OVERHEAD_BYTES
  const { chunks, subnets } = content
  const fixedBytes = OVERHEAD_BYTES + subnets.length * 8 + reservedBytes
  return chunks.reduce((sum, { length }) => sum + length, fixedBytes)
}

/** The entries of the cache, looked up by query; `isRepeated` says which answers are stored. */
function createEntries(
  bytesMax: number,
  listVersion: () => string,
  isRepeated: (queryId: string) => boolean,
) {
  const entries = new LRUCache<string, Entry>({
    maxSize: Math.max(1, bytesMax), // every entry is larger than 1 byte, so none fits
    sizeCalculation: sizeOf,
  })
  return {
    /** The entry of a query that is right at `nowMs`. */
    lookUp({ id }: Query, nowMs: number): Entry | null {
      const entry = entries.get(id)
      if (entry?.listVersion !== listVersion()) return null
      const now = toSeconds(nowMs)
      return entry.fromSeconds <= now && now <= entry.toSeconds ? entry : null
    },

    /**
     * Stores an answer of the list's `version` for as long as it is right, unless this is the
     * first time that its query is asked: many queries are never asked again.
     */
    store(query: Query, nowMs: number, version: string, found: Rendered): Answer | null {
      const content = nullIfEmpty(found.answer)
      if (!entries.has(query.id) && !isRepeated(query.id)) return content
      entries.set(query.id, {
        content,
        listVersion: version,
        fromSeconds: toSeconds(nowMs),
        toSeconds: found.oldestSeconds + query.filter.ageMaxSeconds,
        reservedBytes: 0,
      })
      return content
    },

    /** Records that a query has to be streamed while the list stays unchanged. */
    markTooLarge({ id }: Query, version: string): void {
      const always = { fromSeconds: -Infinity, toSeconds: Infinity, reservedBytes: 0 }
      entries.set(id, { content: 'too-large', listVersion: version, ...always })
    },

    /**
     * Reserves memory that another module holds as long as `answer` is in the cache. Returns false
     * when it is no longer in the cache, or when the entry would exceed the bound of the cache.
     */
    reserve({ id }: Query, answer: Answer, bytes: number): boolean {
      const entry = entries.peek(id)
      if (entry?.content !== answer) return false
      const larger = { ...entry, reservedBytes: entry.reservedBytes + bytes }
      if (sizeOf(larger) > bytesMax) return false
      entries.set(id, larger)
      return true
    },
  }
}

const nullIfEmpty = (answer: Answer): Answer | null => (answer.records === 0 ? null : answer)

export type ResponseCache = ReturnType<typeof createResponseCache>

/** Creates an empty cache, which finds what it does not hold through `reader` and `streamer`. */
export function createResponseCache(
  { reader, streamer, provider, bytesMax }: CacheParts,
  isRepeated = createDoorkeeper(),
) {
  const findNow = createAnswerFinder(reader, provider)
  const entries = createEntries(bytesMax, () => reader.version(), isRepeated)
  const budgets = createSelectBudgets()

  async function stream(query: Query, nowMs: number, needsTotals: boolean, share: Share) {
    if (streamer === null) throw new Error('an answer is too large, and nothing streams it')
    const version = reader.version()
    const found = await streamer.stream(query, nowMs, needsTotals || query.output.wrap, share)
    if (found.kind === 'stream') return found
    // The worker may have seen a newer list than `version`: then the answer is not stored.
    if (version !== reader.version()) return nullIfEmpty(found.answer)
    return entries.store(query, nowMs, version, found)
  }

  return {
    /**
     * The answer to a query at `nowMs`; `null` when no proxy matches. A promise only when it
     * comes from the streamer. A stream has totals only if `needsSubnets`, or for an envelope.
     * `shareOf` says for whom it is found.
     * @throws StoreError when the list cannot be read.
     */
    find(
      query: Query,
      nowMs: number,
      needsSubnets: boolean,
      shareOf: () => Share,
    ): Answer | null | Promise<Answer | AnswerStream | null> {
      const entry = entries.lookUp(query, nowMs)
      if (entry !== null) {
        if (entry.content !== 'too-large') return entry.content
        return stream(query, nowMs, needsSubnets, shareOf())
      }
      const share = shareOf()
      if (streamer !== null && !budgets.hasTime(share)) {
        return stream(query, nowMs, needsSubnets, share)
      }
      const version = reader.version()
      const found = budgets.spend(share, () => findNow(query, nowMs))
      if (found !== 'too-large') return entries.store(query, nowMs, version, found)
      entries.markTooLarge(query, version)
      return stream(query, nowMs, needsSubnets, share)
    },
    reserve: entries.reserve,
  }
}
