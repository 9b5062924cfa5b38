/** The response cache. An entry is valid until the list changes, or until its oldest row is older than `time`. */
import { LRUCache } from 'lru-cache'
import type { Tenant } from '../access/entitlements.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { createDoorkeeper } from '../lib/bounded-map.ts'
import { compress, type Encoding } from '../lib/compression.ts'
import { ageClock } from '../lib/time.ts'
import { countFirst, draw, type Matches, matchesOf } from '../proxies/draw.ts'
import type { ProxyReader } from '../proxies/store.ts'
import {
  type Answer,
  type AnswerStream,
  type AnswerStreamer,
  bodyOf,
  createAnswerRenderer,
  nullIfEmpty,
  type Rendered,
} from './answer.ts'
import { notFound } from './not-found.ts'
import type { Query } from './query.ts'

/** `null`: no proxy matches. `must-stream`: the streamer must find it. `Matches`: each request draws from them. */
type Content = Answer | Matches | 'must-stream' | null

/** Valid in these seconds of `ageClock`, both included. If the clock goes back, older rows may match again. */
type Entry = { content: Content; listVersion: string; fromSeconds: number; toSeconds: number }

const ALWAYS = { fromSeconds: -Infinity, toSeconds: Infinity }

/** Memory of an entry, without its id and content. */
const OVERHEAD_BYTES = 1024

const isMatches = (content: Content | undefined): content is Matches =>
  typeof content === 'object' && content !== null && 'ids' in content
const isFinal = (content: Content | undefined): content is Answer | null =>
  typeof content === 'object' && !isMatches(content)

function bytesOf(content: Content): number {
  if (content === null || content === 'must-stream') return 0
  if (isMatches(content)) return content.ids.byteLength + content.checkedAt.byteLength
  const bodies = [...content.chunks, content.zstd ?? '', content.gzip ?? '']
  return bodies.reduce((sum, { length }) => sum + length, content.subnets.length * 8)
}

const sizeOf = ({ content }: Entry, id: string): number =>
  OVERHEAD_BYTES + id.length + bytesOf(content)

/** Creates the entries of a cache, of at most `bytesMax` bytes together. */
export function createCacheEntries(bytesMax: number) {
  const counts = { hits: 0, misses: 0, evictions: 0 }
  const lru = new LRUCache<string, Entry>({
    maxSize: Math.max(1, bytesMax), // with 1, no entry fits
    sizeCalculation: sizeOf,
    dispose(_, __, reason) {
      if (reason === 'evict') counts.evictions += 1
    },
  })

  return {
    /** The content that is valid at `nowSeconds` for this version of the list, else `undefined`. */
    lookUp(id: string, listVersion: string, nowSeconds: number): Content | undefined {
      const entry = lru.get(id)
      const isValid =
        entry !== undefined &&
        entry.listVersion === listVersion &&
        entry.fromSeconds <= nowSeconds &&
        nowSeconds <= entry.toSeconds
      if (isValid && entry.content !== 'must-stream') counts.hits += 1
      else counts.misses += 1
      return isValid ? entry.content : undefined
    },

    has: (id: string): boolean => lru.has(id),
    counts: () => ({ ...counts, entries: lru.size, bytes: lru.calculatedSize, bytesMax }),

    set: (id: string, entry: Entry): void => void lru.set(id, entry),

    /** Keeps a compressed body with its answer. An entry larger than the cache would be dropped whole. */
    keepBody(id: string, content: Answer, encoding: Encoding, body: Uint8Array): void {
      const entry = lru.peek(id)
      if (entry?.content !== content || sizeOf(entry, id) + body.length > bytesMax) return
      content[encoding] = body
      lru.set(id, { ...entry }) // updates the size
    },
  }
}

export type CacheCounts = ReturnType<ReturnType<typeof createCacheEntries>['counts']>

type CacheParts = {
  reader: ProxyReader
  /** Finds the answers that must be streamed; `null`: this list never streams. */
  streamer: AnswerStreamer | null
  provider: string
  /** The size limit in bytes; 0 turns the cache off. */
  bytesMax: number
}

type Finding = Awaitable<Answer | AnswerStream | null>
type FindOptions = { nowMs: number; needsSubnets: boolean; tenantOf: () => Tenant }

/** The longest random answer that is drawn here. Longer ones are streamed. */
const DRAWN_MAX = 1_000

export type ResponseCache = ReturnType<typeof createResponseCache>

/** Creates an empty cache. It stores answers at their second request, because storing costs 5 % of a request. */
export function createResponseCache(
  { reader, streamer, provider, bytesMax }: CacheParts,
  isRepeated = createDoorkeeper(),
) {
  const render = createAnswerRenderer(provider)
  const entries = createCacheEntries(bytesMax)

  function requireStreamer(): AnswerStreamer {
    if (streamer === null) throw new Error('an answer must be streamed, and nothing streams it')
    return streamer
  }

  /** Stores an answer of a version of the list. */
  function store(
    { id, filter }: Query,
    nowMs: number,
    listVersion: string,
    { answer, oldestSeconds }: Rendered,
  ): Answer | null {
    const content = nullIfEmpty(answer)
    if (!entries.has(id) && !isRepeated(id)) return content
    const toSeconds = oldestSeconds + filter.ageMaxSeconds
    const [body = '', ...more] = answer.chunks
    if (more.length === 0) answer.hash = Bun.hash(body).toString(36)
    entries.set(id, { content, listVersion, fromSeconds: ageClock(nowMs), toSeconds })
    return content
  }

  async function stream(query: Query, { nowMs, needsSubnets, tenantOf }: FindOptions) {
    const needsTotals = needsSubnets || query.output.wrap
    const version = reader.version()
    const found = await requireStreamer().stream(query, nowMs, needsTotals, tenantOf())
    if (found.kind === 'stream') return found
    // If the list has changed, the worker may have read either version, so the answer is not stored.
    const isKept = query.filter.sort !== 'random' && version === reader.version()
    return isKept ? store(query, nowMs, version, found) : nullIfEmpty(found.answer)
  }

  /** Finds an answer in a fixed order. */
  function findOrdered(query: Query, options: FindOptions): Finding {
    const { id, filter, addressBits } = query
    const { nowMs } = options
    const version = reader.version()
    const content = entries.lookUp(id, version, ageClock(nowMs))
    if (isFinal(content)) return content
    if (content === 'must-stream') return stream(query, options)
    const found = reader.find(filter, { nowMs, addressBits })
    if (found !== 'must-stream') return store(query, nowMs, version, render(query, found))
    entries.set(id, { content: found, listVersion: version, ...ALWAYS })
    return stream(query, options)
  }

  /** Compresses a body, and keeps it with its answer. */
  async function compressBody({ id }: Query, answer: Answer, encoding: Encoding, nowMs: number) {
    const body = await compress(bodyOf(answer, nowMs), encoding)
    const hasTime = answer.chunks.length > 1 // each response has its own time between the chunks
    if (!hasTime) entries.keepBody(id, answer, encoding, body)
    return body
  }

  /** Draws ids from all matches, and reads their records. */
  function drawFrom(query: Query, { ids, checkedAt }: Matches, options: FindOptions): Finding {
    const { filter, addressBits } = query
    const { nowMs } = options
    const oldest = ageClock(nowMs) - filter.ageMaxSeconds
    const size = countFirst(ids.length, at => (checkedAt[at] ?? 0) >= oldest)
    const count = Math.min(filter.count ?? size, size)
    if (count > DRAWN_MAX) return stream(query, options)
    const found = reader.findByIds(filter, { nowMs, addressBits }, draw(ids, size, count))
    // Here another process has changed the list since this turn read the version.
    if (found === null) return stream(query, options)
    return nullIfEmpty(render(query, found).answer)
  }

  /** Finds an answer in random order. The ids of all matches have a cache entry of their own. */
  function findRandom(query: Query, options: FindOptions): Finding {
    const { addressBits } = query
    const { nowMs } = options
    const filter = { ...query.filter, sort: null, count: null }
    const id = `matches ${JSON.stringify([addressBits, filter])}`
    const version = reader.version()
    const known = entries.lookUp(id, version, ageClock(nowMs))
    if (isMatches(known)) return drawFrom(query, known, options)

    const storeMatches = (content: Matches): void =>
      entries.set(id, { ...ALWAYS, content, listVersion: version, fromSeconds: ageClock(nowMs) })
    const found = reader.find(filter, { nowMs, addressBits })
    if (found !== 'must-stream') {
      const matches = matchesOf(found.rows)
      storeMatches(matches)
      return drawFrom(query, matches, options)
    }
    if ((query.filter.count ?? Infinity) > DRAWN_MAX) return stream(query, options)
    return requireStreamer()
      .matches({ ...query, filter }, nowMs)
      .then(matches => {
        // Not stored if the list has changed, as in `stream`.
        if (version === reader.version()) storeMatches(matches)
        return drawFrom(query, matches, options)
      })
  }

  return {
    /** The answer to a query; `null`: no proxy matches. Returns a promise only when the streamer finds it. */
    find(query: Query, nowMs: number, needsSubnets: boolean, tenantOf: () => Tenant): Finding {
      const find = query.filter.sort === 'random' ? findRandom : findOrdered
      return find(query, { nowMs, needsSubnets, tenantOf })
    },
    notFound: (query: Query, nowMs: number) =>
      notFound(query, nowMs, reader.explainEmpty(query.filter)),
    counts: entries.counts,
    /** The compressed body of an answer. `nowMs` is the time in an envelope. */
    compressed: (query: Query, answer: Answer, encoding: Encoding, nowMs: number) =>
      answer[encoding] ?? compressBody(query, answer, encoding, nowMs),
  }
}
