/**
 * Owns the response cache: answers in memory, and how long each stays exactly right. While the
 * list is unchanged, an answer changes only when a row in it grows older than the filter allows,
 * or when the clock steps back to where a row left out was young enough. So there is no time to
 * live to tune.
 */
import type { Share } from '../access/entitlements.ts'
import { createDoorkeeper } from '../lib/bounded-map.ts'
import { ageClock } from '../lib/time.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import type { ProxyReader } from '../proxies/store.ts'
import {
  type Answer,
  createAnswerFinder,
  createAnswerRenderer,
  nullIfEmpty,
  type Rendered,
} from './answer.ts'
import { createDraws } from './cache/draws.ts'
import { type CacheEntries, createCacheEntries } from './cache/entries.ts'
import { createNotFound } from './cache/not-found.ts'
import { createSelectBudgets } from './cache/select-budget.ts'
import type { Query } from './query.ts'
import type { AnswerStream, AnswerStreamer } from './streaming.ts'

export type CacheParts = {
  reader: ProxyReader
  /** Called when the reader finds an answer too large; `null` if it never does. */
  streamer: AnswerStreamer | null
  /** Name of the provider's own service. */
  provider: string
  /** Most bytes of memory; 0 turns the cache off. */
  bytesMax: number
}

type Finding = Awaitable<Answer | AnswerStream | null>

export type ResponseCache = ReturnType<typeof createResponseCache>

/** Returns what stores answers in the cache. */
function createStore(entries: CacheEntries, isRepeated: (id: string) => boolean) {
  /**
   * Stores an answer of the list's `version` for as long as it is right, unless this is the first
   * time that its query is asked: many queries are never asked again.
   */
  return function store(
    { id, filter }: Query,
    nowMs: number,
    listVersion: string,
    { answer, oldestSeconds }: Rendered,
  ): Answer | null {
    const content = nullIfEmpty(answer)
    if (!entries.has(id) && !isRepeated(id)) return content
    entries.set(id, {
      content,
      listVersion,
      fromSeconds: ageClock(nowMs),
      toSeconds: oldestSeconds + filter.ageMaxSeconds,
    })
    return content
  }
}

/**
 * Creates an empty cache, which finds what it does not hold through `reader` and `streamer`;
 * `isRepeated` says which answers are stored.
 */
export function createResponseCache(
  { reader, streamer, provider, bytesMax }: CacheParts,
  isRepeated = createDoorkeeper(),
) {
  const render = createAnswerRenderer(provider)
  const findNow = createAnswerFinder(reader, provider, render)
  const entries = createCacheEntries(bytesMax)
  const store = createStore(entries, isRepeated)
  const budgets = createSelectBudgets()
  /** Whether a select for `share` may take time of the main thread; else the streamer does it. */
  const hasTime = (share: Share): boolean => streamer === null || budgets.hasTime(share)
  const { spend } = budgets
  const draw = createDraws({
    ...{ reader, streamer, entries, render, isRepeated, stream, hasTime, spend },
  })

  async function stream(query: Query, nowMs: number, needsTotals: boolean, share: Share) {
    if (streamer === null) throw new Error('an answer is too large, and nothing streams it')
    const version = reader.version()
    const found = await streamer.stream(query, nowMs, needsTotals || query.output.wrap, share)
    if (found.kind === 'stream') return found
    // The worker may have seen a newer list than `version`: then the answer is not stored.
    const isKept = query.filter.sort !== 'random' && version === reader.version()
    return isKept ? store(query, nowMs, version, found) : nullIfEmpty(found.answer)
  }

  /** Finds an answer in an order that is the same each time. */
  function findSame(
    query: Query,
    nowMs: number,
    needsSubnets: boolean,
    shareOf: () => Share,
  ): Finding {
    const version = reader.version()
    const entry = entries.lookUp(query.id, version, ageClock(nowMs))
    if (entry !== null) {
      const { content } = entry
      if (content === 'too-large') return stream(query, nowMs, needsSubnets, shareOf())
      if (content === null || content.kind === 'answer') return content
    }
    const share = shareOf()
    if (!hasTime(share)) return stream(query, nowMs, needsSubnets, share)
    const found = spend(share, () => findNow(query, nowMs))
    if (found !== 'too-large') return store(query, nowMs, version, found)
    entries.markTooLarge(query.id, version)
    return stream(query, nowMs, needsSubnets, share)
  }

  return {
    /**
     * The answer to a query at `nowMs`; `null` when no proxy matches. A promise only when it
     * comes from the streamer. A stream has totals only if `needsSubnets`, or for an envelope.
     * `shareOf` says for whom it is found.
     * @throws StoreError when the list cannot be read.
     */
    find: (query: Query, nowMs: number, needsSubnets: boolean, shareOf: () => Share): Finding =>
      (query.filter.sort === 'random' ? draw : findSame)(query, nowMs, needsSubnets, shareOf),

    /** The error for a query of which `find` has found nothing. */
    notFound: createNotFound(reader, streamer),

    counts: entries.counts,

    /** See `CacheEntries.reserve`. */
    reserve: ({ id }: Query, answer: Answer, bytes: number): boolean =>
      entries.reserve(id, answer, bytes),
  }
}
