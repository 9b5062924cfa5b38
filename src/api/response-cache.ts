/**
 * The response cache: answers in memory, and how long each stays exactly right. While the list is
 * unchanged, an answer changes only when a row in it grows older than the filter allows, or when the
 * clock steps back to where a row left out was young enough. So there is no time to live to tune.
 * Answers in random order (contract F1) are drawn for each request, from matches that stay in the cache
 * for as long as they are right: a draw costs what a cached answer costs.
 *
 * Beside it: how much of the main thread the selects of a key may take (contract B9).
 */
import { LRUCache } from 'lru-cache'
import type { Tenant } from '../access/entitlements.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { createBoundedMap, createDoorkeeper } from '../lib/bounded-map.ts'
import { orAfter, stopwatch } from '../lib/clock.ts'
import { ageClock } from '../lib/time.ts'
import { countFirst, countSince, draw, type Matches, matchAt } from '../proxies/draw.ts'
import { AT, type Found, type Row } from '../proxies/row.ts'
import type { ProxyReader } from '../proxies/store.ts'
import {
  type Answer,
  type AnswerStream,
  type AnswerStreamer,
  createAnswerFinder,
  createAnswerRenderer,
  nullIfEmpty,
  type Rendered,
} from './answer.ts'
import { createNotFound } from './not-found.ts'
import type { Query } from './query.ts'

/** What draws are made from: rows while they are few, otherwise numbers. */
type MatchSet = { kind: 'few'; found: Found } | { kind: 'many'; matches: Matches }

/** `null`: no proxy matches. `too-large`: to be found by the streamer. */
type Content = Answer | MatchSet | 'too-large' | null

/** It is right between two seconds of `ageClock`, both included. */
type Entry = { content: Content; listVersion: string; fromSeconds: number; toSeconds: number }
/** An entry, and the memory that other modules hold for it, such as compressed bodies. */
type Held = Entry & { reservedBytes: number }

/** Memory of an entry besides its id and content, and of a row with its text. */
const OVERHEAD_BYTES = 1024
const ROW_BYTES = 512

const isAnswer = (content: Content | undefined): content is Answer | null =>
  content === null || (typeof content === 'object' && content.kind === 'answer')

function bytesOf(content: Content): number {
  if (content === null || content === 'too-large') return 0
  if (content.kind === 'few') return content.found.rows.length * ROW_BYTES
  if (content.kind === 'many') {
    const { ids, types, agesSeconds } = content.matches
    return ids.byteLength + types.byteLength + agesSeconds.byteLength
  }
  return content.chunks.reduce((sum, { length }) => sum + length, content.subnets.length * 8)
}

const sizeOf = ({ content, reservedBytes }: Held, id: string): number =>
  OVERHEAD_BYTES + id.length + bytesOf(content) + reservedBytes

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

  return {
    has: (id: string): boolean => held.has(id),

    /** The content that is right at `nowSeconds` for this version of the list, else `undefined`. */
    lookUp(id: string, listVersion: string, nowSeconds: number): Content | undefined {
      const entry = held.get(id)
      const isRight =
        entry !== undefined &&
        entry.listVersion === listVersion &&
        entry.fromSeconds <= nowSeconds &&
        nowSeconds <= entry.toSeconds
      if (isRight && entry.content !== 'too-large') counts.hits += 1
      else counts.misses += 1
      return isRight ? entry.content : undefined
    },

    counts: () => ({ ...counts, entries: held.size, bytes: held.calculatedSize, bytesMax }),

    set: (id: string, entry: Entry): void => void held.set(id, { ...entry, reservedBytes: 0 }),

    /**
     * Reserves memory that another module holds as long as `content` is in the cache. Returns false
     * when it is no longer in the cache, or when the entry would exceed the bound of the cache.
     */
    reserve(id: string, content: Answer, bytes: number): boolean {
      const known = held.peek(id)
      if (known?.content !== content) return false
      const larger = { ...known, reservedBytes: known.reservedBytes + bytes }
      if (sizeOf(larger, id) > bytesMax) return false
      held.set(id, larger)
      return true
    },
  }
}

/** Its lookups, the entries that made room for others, and its size. */
export type CacheCounts = ReturnType<ReturnType<typeof createCacheEntries>['counts']>

/** Milliseconds that may be spent at once, and the part of the time that may be spent for long. */
type Bounds = { msMax: number; part: number }
const KEY: Bounds = { msMax: 15, part: 0.6 }
const TRIAL: Bounds = { msMax: 10, part: 0.1 }

/** Keys whose budget is in memory; that of another is full. */
const KEYS_MAX = 10_000

/** What is left at an instant of `elapsedMs`. */
type Budget = { leftMs: number; atMs: number }

/** The budgets of all; `elapsedMs` is a monotonic clock. */
export function createSelectBudgets(elapsedMs: () => number = stopwatch()) {
  const byKey = createBoundedMap<string, Budget>(KEYS_MAX)
  const trial: Budget = { leftMs: TRIAL.msMax, atMs: 0 }

  function budgetOf({ id, isTrial }: Tenant): Budget {
    const known = isTrial ? trial : byKey.get(id)
    const budget = known ?? { leftMs: KEY.msMax, atMs: elapsedMs() }
    if (known === undefined) byKey.set(id, budget)
    return budget
  }

  return {
    /** Whether a select for `tenant` may begin; the last one may exceed the budget. */
    hasTime(tenant: Tenant): boolean {
      const budget = budgetOf(tenant)
      const { msMax, part } = tenant.isTrial ? TRIAL : KEY
      const nowMs = elapsedMs()
      budget.leftMs = Math.min(msMax, budget.leftMs + (nowMs - budget.atMs) * part)
      budget.atMs = nowMs
      return budget.leftMs > 0
    },

    /** Runs a select for `tenant` and subtracts the time that it takes. */
    spend<T>(tenant: Tenant, select: () => T): T {
      const beforeMs = elapsedMs()
      try {
        return select()
      } finally {
        budgetOf(tenant).leftMs -= elapsedMs() - beforeMs
      }
    },
  }
}

type CacheParts = {
  reader: ProxyReader
  /** Called when the reader finds an answer too large; `null` if it never does. */
  streamer: AnswerStreamer | null
  /** Name of the provider's own service. */
  provider: string
  /** Most bytes of memory; 0 turns the cache off. */
  bytesMax: number
}

type Streamed = Promise<Answer | AnswerStream | null>
type Finding = Awaitable<Answer | AnswerStream | null>
type Find = (query: Query, nowMs: number, needsSubnets: boolean, tenantOf: () => Tenant) => Finding
/** When, for whom and how an answer is asked for. */
type Asked = { nowMs: number; needsSubnets: boolean; tenant: Tenant }

/** How long one waits for what another one is finding, in turns with the other work of its key, in milliseconds. */
const SHARED_MS = 1_000
/** Most records of an answer that is drawn here; a longer one is streamed. */
const DRAWN_MAX = 1_000
/** To draw so few costs what a kept answer costs; more take time of the main thread, as selects do. */
const DRAWN_FREELY = 20

export type ResponseCache = ReturnType<typeof createResponseCache>

/**
 * Creates an empty cache, which finds what it does not hold through `reader` and `streamer`;
 * `isRepeated` says what is stored: many queries are never asked again.
 */
export function createResponseCache(
  { reader, streamer, provider, bytesMax }: CacheParts,
  isRepeated = createDoorkeeper(),
) {
  const render = createAnswerRenderer(provider)
  const findNow = createAnswerFinder(reader, provider, render)
  const entries = createCacheEntries(bytesMax)
  const { hasTime: hasBudget, spend } = createSelectBudgets()
  /** Whether a select for `tenant` may take time of the main thread; else the streamer does it. */
  const hasTime = (tenant: Tenant): boolean => streamer === null || hasBudget(tenant)
  const isStored = (id: string): boolean => entries.has(id) || isRepeated(id)

  /** Records what has to be found by the streamer while the list stays unchanged. */
  const markTooLarge = (id: string, listVersion: string): void =>
    entries.set(id, { content: 'too-large', listVersion, ...ALWAYS })

  /** Stores an answer of the list's `version` for as long as it is right. */
  function store(
    { id, filter }: Query,
    nowMs: number,
    listVersion: string,
    { answer, oldestSeconds }: Rendered,
  ): Answer | null {
    const content = nullIfEmpty(answer)
    if (!isStored(id)) return content
    const toSeconds = oldestSeconds + filter.ageMaxSeconds
    entries.set(id, { content, listVersion, fromSeconds: ageClock(nowMs), toSeconds })
    return content
  }

  async function stream(query: Query, asked: Asked, onBegin = (): void => {}): Streamed {
    if (streamer === null) throw new Error('an answer is too large, and nothing streams it')
    const { nowMs, needsSubnets, tenant } = asked
    const needsTotals = needsSubnets || query.output.wrap
    const version = reader.version()
    const found = await streamer.stream(query, nowMs, needsTotals, tenant, onBegin)
    if (found.kind === 'stream') return found
    // The worker may have seen a newer list than `version`: then the answer is not stored.
    const isKept = query.filter.sort !== 'random' && version === reader.version()
    return isKept ? store(query, nowMs, version, found) : nullIfEmpty(found.answer)
  }

  /**
   * What the streamer has begun to find of few records: who asks for that meanwhile waits once, for it may be kept
   * then. Nobody waits for what is in the line of a key.
   */
  const underWay = createBoundedMap<string, Promise<unknown>>(1_000)
  async function streamOnce(query: Query, asked: Asked): Streamed {
    if ((query.filter.count ?? Infinity) > DRAWN_MAX) return stream(query, asked)
    const name = `${reader.version()} ${asked.tenant.isTrial} ${query.id}`
    const other = underWay.get(name)
    if (other !== undefined) {
      isRepeated(query.id) // so it is kept
      await orAfter(other, SHARED_MS)
      const content = entries.lookUp(query.id, reader.version(), ageClock(asked.nowMs))
      if (isAnswer(content)) return content
    }
    // Without the answer, which may be long.
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
    return stream(query, asked, () => underWay.set(name, isOver)).finally(end)
  }

  /** Finds an answer in an order that is the same each time. */
  const findSame: Find = (query, nowMs, needsSubnets, tenantOf) => {
    const version = reader.version()
    const content = entries.lookUp(query.id, version, ageClock(nowMs))
    if (isAnswer(content)) return content
    const tenant = tenantOf()
    const asked = { nowMs, needsSubnets, tenant }
    if (content === 'too-large' || !hasTime(tenant)) return streamOnce(query, asked)
    const found = spend(tenant, () => findNow(query, nowMs))
    if (found !== 'too-large') return store(query, nowMs, version, found)
    markTooLarge(query.id, version)
    return streamOnce(query, asked)
  }

  // In random order: drawn from matches, which are what is stored.

  const storeMatches = (id: string, content: MatchSet, listVersion: string, nowMs: number): void =>
    entries.set(id, { content, listVersion, fromSeconds: ageClock(nowMs), toSeconds: Infinity })

  function drawFew(query: Query, { rows, ...foundIn }: Found, nowMs: number): Answer {
    const since = sinceOf(query, nowMs)
    const size = countFirst(rows.length, at => (rows[at]?.[AT.checkedAt] ?? -Infinity) >= since)
    const count = query.filter.count ?? size
    const drawn = Array.from(draw(size, count), at => rows[at] as Row) // below `size`
    return query.output.kind === 'txt'
      ? render.endpoints(query, drawn).answer
      : render.records(query, { ...foundIn, rows: drawn }).answer
  }

  /**
   * Draws from numbers; records are looked up in the list, which may have changed in this very turn.
   * `null`: the answer has to be streamed.
   */
  function drawMany(query: Query, matches: Matches, nowMs: number): Answer | null {
    const { filter, output, addressBits } = query
    const size = countSince(matches, sinceOf(query, nowMs))
    const count = Math.min(filter.count ?? size, size)
    if (count > DRAWN_MAX) return null
    const drawn = Array.from(draw(size, count))
    if (output.kind === 'txt') {
      const rows = drawn.map(at => matchAt(matches, at))
      return render.endpoints(query, rows).answer
    }
    const ids = drawn.map(at => matches.ids[at] ?? 0)
    const found = reader.findByIds(filter, { nowMs, addressBits }, ids)
    return found && render.records(query, found).answer
  }

  const isFree = ({ filter: { count } }: Query) => count !== null && count <= DRAWN_FREELY
  const mayDraw = (query: Query, tenant: Tenant) => isFree(query) || hasTime(tenant)

  const drawFrom = (query: Query, set: MatchSet, nowMs: number): Answer | null =>
    set.kind === 'few' ? drawFew(query, set.found, nowMs) : drawMany(query, set.matches, nowMs)

  function drawNow(query: Query, set: MatchSet, asked: Asked): Finding {
    const drawn = () => drawFrom(query, set, asked.nowMs)
    const answer = isFree(query) ? drawn() : spend(asked.tenant, drawn)
    return answer === null ? stream(query, asked) : nullIfEmpty(answer)
  }

  const drawInTime = (query: Query, set: MatchSet, asked: Asked): Finding =>
    mayDraw(query, asked.tenant) ? drawNow(query, set, asked) : stream(query, asked)

  /** The matches of a query while they are few, stored if they are drawn from repeatedly. */
  function findFew(query: Query, id: string, version: string, asked: Asked): MatchSet | null {
    const options = { nowMs: asked.nowMs, addressBits: query.addressBits }
    const found = spend(asked.tenant, () => reader.find(undrawn(query), options))
    if (found === 'too-large') {
      markTooLarge(id, version)
      return null
    }
    const isKept = isStored(id)
    const set: MatchSet = { kind: 'few', found: { ...found, areKept: found.areKept || isKept } }
    if (isKept) storeMatches(id, set, version, asked.nowMs)
    return set
  }

  const readings = new Map<string, { fromSeconds: number; reading: Promise<Matches> }>()
  /**
   * Reads all matches of a query; requests at the same time wait for one reading of a `version`, those of other
   * keys only once it has begun: they do not wait in the line of its key.
   */
  function readMany(query: Query, id: string, version: string, asked: Asked): Promise<Matches> {
    if (streamer === null) throw new Error('matches are too many, and nothing reads them')
    const { nowMs, tenant } = asked
    const name = `${version} ${tenant.isTrial} ${id}`
    const names = [name, `${name} ${tenant.id}`]
    const fromSeconds = ageClock(nowMs)
    const known = names.map(each => readings.get(each)).find(Boolean)
    if (known !== undefined && known.fromSeconds <= fromSeconds) return known.reading
    const { promise: reading, resolve } = Promise.withResolvers<Matches>()
    const fresh = { fromSeconds, reading }
    readings.set(`${name} ${tenant.id}`, fresh)
    resolve(streamer.matches(query, nowMs, tenant, () => readings.set(name, fresh)))
    const forget = (): void => {
      for (const each of names) if (readings.get(each) === fresh) readings.delete(each)
    }
    reading.then(forget, forget)
    return reading
  }

  async function drawLong(query: Query, id: string, asked: Asked): Streamed {
    const { count } = query.filter
    const isShort = count !== null && count <= DRAWN_MAX
    if (!isShort || !mayDraw(query, asked.tenant)) return stream(query, asked)
    const version = reader.version()
    const set = { kind: 'many', matches: await readMany(query, id, version, asked) } as const
    // The streamer may have seen a newer list than `version`: then the matches are not stored.
    if (isRepeated(id) && version === reader.version()) {
      storeMatches(id, set, version, asked.nowMs)
    }
    return drawInTime(query, set, asked)
  }

  /** Finds an answer in random order: another one each time. */
  const findDrawn: Find = (query, nowMs, needsSubnets, tenantOf) => {
    const asked = { nowMs, needsSubnets, tenant: tenantOf() }
    // Queries that are drawn from the same matches have the same id.
    const id = `draw ${JSON.stringify([query.addressBits, undrawn(query)])}`
    const version = reader.version()
    const content = entries.lookUp(id, version, ageClock(nowMs))
    if (typeof content === 'object' && !isAnswer(content)) return drawInTime(query, content, asked)
    const isLong = content === 'too-large' || !hasTime(asked.tenant)
    const set = isLong ? null : findFew(query, id, version, asked)
    return set === null ? drawLong(query, id, asked) : drawNow(query, set, asked)
  }

  const find: Find = (query, nowMs, needsSubnets, tenantOf) =>
    (query.filter.sort === 'random' ? findDrawn : findSame)(query, nowMs, needsSubnets, tenantOf)
  return {
    /**
     * The answer to a query at `nowMs`; `null` when no proxy matches. A promise only when it
     * comes from the streamer. A stream has totals only if `needsSubnets`, or for an envelope.
     * `tenantOf` says for whom it is found.
     * @throws StoreError when the list cannot be read.
     */
    find,
    /** The error for a query of which `find` has found nothing. */
    notFound: createNotFound(reader),
    counts: entries.counts,
    /** See `createCacheEntries`. */
    reserve: ({ id }: Query, answer: Answer, bytes: number): boolean =>
      entries.reserve(id, answer, bytes),
  }
}

const ALWAYS = { fromSeconds: -Infinity, toSeconds: Infinity }

const undrawn = ({ filter }: Query) => ({ ...filter, sort: null, count: null })

/** The oldest check that a query allows, Unix seconds. */
const sinceOf = ({ filter }: Query, nowMs: number): number => ageClock(nowMs) - filter.ageMaxSeconds
