/**
 * Owns answers in random order (contract F1): drawn for each request, from matches that stay in the
 * response cache for as long as they are right. So a draw costs what a cached answer costs.
 */
import type { Share } from '../../access/entitlements.ts'
import { ageClock } from '../../lib/time.ts'
import type { Awaitable } from '../../lib/turn-batch.ts'
import { countFirst, countSince, draw, type Matches, matchAt } from '../../proxies/draw.ts'
import { AT, type Found } from '../../proxies/row.ts'
import type { ProxyReader } from '../../proxies/store.ts'
import { type Answer, type AnswerRenderer, nullIfEmpty } from '../answer.ts'
import type { Query } from '../query.ts'
import type { AnswerStream, AnswerStreamer } from '../streaming.ts'
import type { CacheEntries, Content, MatchSet } from './entries.ts'

/** Most records of an answer that is drawn here; a longer one is streamed. */
const DRAWN_MAX = 1_000

type Streamed = Promise<Answer | AnswerStream | null>
type Finding = Awaitable<Answer | AnswerStream | null>
/** When, for whom and how an answer is asked for. */
type Asked = { nowMs: number; needsSubnets: boolean; share: Share }
export type DrawParts = {
  reader: ProxyReader
  streamer: AnswerStreamer | null
  entries: CacheEntries
  render: AnswerRenderer
  /** Says which matches are stored: many filters are asked for once. */
  isRepeated: (id: string) => boolean
  stream: (query: Query, nowMs: number, needsTotals: boolean, share: Share) => Streamed
  /** Whether a select for a share may take time here, and runs one; see `createSelectBudgets`. */
  hasTime: (share: Share) => boolean
  spend: <T>(share: Share, select: () => T) => T
}

/** Queries that are drawn from the same matches have the same id. */
function createIds(): (query: Query) => string {
  const known = new WeakMap<Query, string>()
  return query => {
    const id = known.get(query) ?? `draw ${JSON.stringify([query.addressBits, undrawn(query)])}`
    known.set(query, id)
    return id
  }
}
const undrawn = ({ filter }: Query) => ({ ...filter, sort: null, count: null })

/** The oldest check that a query allows, Unix seconds. */
const sinceOf = ({ filter }: Query, nowMs: number): number => ageClock(nowMs) - filter.ageMaxSeconds

/** Draws answers from matches; `null` where they have to be streamed. */
function createDrawing({ reader, render }: Pick<DrawParts, 'reader' | 'render'>) {
  /** From rows in memory. */
  function few(query: Query, { rows, ...foundIn }: Found, nowMs: number): Answer {
    const since = sinceOf(query, nowMs)
    const size = countFirst(rows.length, at => (rows[at]?.[AT.checkedAt] ?? -Infinity) >= since)
    const drawn = Array.from(draw(size, query.filter.count ?? size), at => rows[at]).filter(
      row => row !== undefined,
    )
    const isTxt = query.output.kind === 'txt'
    return isTxt
      ? render.endpoints(query, drawn).answer
      : render.records(query, { ...foundIn, rows: drawn }).answer
  }

  /** From numbers; records are looked up in the list, which may have changed in this very turn. */
  function many(query: Query, matches: Matches, nowMs: number): Answer | null {
    const { filter, output, addressBits } = query
    const size = countSince(matches, sinceOf(query, nowMs))
    const count = Math.min(filter.count ?? size, size)
    if (count > DRAWN_MAX) return null
    const drawn = Array.from(draw(size, count))
    if (output.kind === 'txt') {
      return render.endpoints(
        query,
        drawn.map(at => matchAt(matches, at)),
      ).answer
    }
    const ids = drawn.map(at => matches.ids[at] ?? 0)
    const found = reader.findByIds(filter, { nowMs, addressBits }, ids)
    return found && render.records(query, found).answer
  }

  return (query: Query, set: MatchSet, nowMs: number): Answer | null =>
    set.kind === 'few' ? few(query, set.found, nowMs) : many(query, set.matches, nowMs)
}

/** What the streamer is reading: requests at the same time wait for one reading. */
function createReadings(streamer: AnswerStreamer | null) {
  const underWay = new Map<string, { fromSeconds: number; reading: Promise<Matches> }>()

  /** Reads all matches of a query, or joins a reading of the same `version` of the list. */
  return (
    query: Query,
    id: string,
    version: string,
    { nowMs, share }: { nowMs: number; share: Share },
  ): Promise<Matches> => {
    if (streamer === null) throw new Error('matches are too many, and nothing reads them')
    const name = `${version} ${id}`
    const known = underWay.get(name)
    if (known !== undefined && known.fromSeconds <= ageClock(nowMs)) return known.reading
    const fresh = { fromSeconds: ageClock(nowMs), reading: streamer.matches(query, nowMs, share) }
    underWay.set(name, fresh)
    const forget = (): void => {
      if (underWay.get(name) === fresh) underWay.delete(name)
    }
    fresh.reading.then(forget, forget)
    return fresh.reading
  }
}

/** Creates what finds the answers to queries in random order. */
export function createDraws(parts: DrawParts) {
  const { reader, streamer, entries, isRepeated, stream, hasTime, spend } = parts
  const idOf = createIds()
  const drawFrom = createDrawing(parts)
  const readMany = createReadings(streamer)

  const store = (id: string, content: MatchSet, listVersion: string, nowMs: number): void =>
    entries.set(id, { content, listVersion, fromSeconds: ageClock(nowMs), toSeconds: Infinity })

  /** The matches of a query while they are few, stored if they are drawn from repeatedly. */
  function findFew(
    query: Query,
    id: string,
    version: string,
    { nowMs, share }: Asked,
  ): MatchSet | null {
    const options = { nowMs, addressBits: query.addressBits }
    const found = spend(share, () => reader.find(undrawn(query), options))
    if (found === 'too-large') {
      entries.markTooLarge(id, version)
      return null
    }
    const isStored = entries.has(id) || isRepeated(id)
    const set: MatchSet = { kind: 'few', found: { ...found, areKept: found.areKept || isStored } }
    if (isStored) store(id, set, version, nowMs)
    return set
  }

  async function drawLong(query: Query, asked: Asked): Streamed {
    const { nowMs, needsSubnets, share } = asked
    const { count } = query.filter
    if (count === null || count > DRAWN_MAX) return stream(query, nowMs, needsSubnets, share)
    const id = idOf(query)
    const version = reader.version()
    const set = { kind: 'many', matches: await readMany(query, id, version, asked) } as const
    // The streamer may have seen a newer list than `version`: then the matches are not stored.
    if (isRepeated(id) && version === reader.version()) store(id, set, version, nowMs)
    return drawNow(query, set, asked)
  }

  function drawNow(query: Query, set: MatchSet, { nowMs, needsSubnets, share }: Asked): Finding {
    const answer = drawFrom(query, set, nowMs)
    return answer === null ? stream(query, nowMs, needsSubnets, share) : nullIfEmpty(answer)
  }

  /** The answer to a query in random order: as `ResponseCache.find`, but another one each time. */
  return (query: Query, nowMs: number, needsSubnets: boolean, shareOf: () => Share): Finding => {
    const asked = { nowMs, needsSubnets, share: shareOf() }
    const id = idOf(query)
    const version = reader.version()
    const content = entries.lookUp(id, version, ageClock(nowMs))?.content
    if (isSet(content)) return drawNow(query, content, asked)
    const isLong = content === 'too-large' || !hasTime(asked.share)
    const set = isLong ? null : findFew(query, id, version, asked)
    return set === null ? drawLong(query, asked) : drawNow(query, set, asked)
  }
}

const isSet = (content: Content | undefined): content is MatchSet =>
  typeof content === 'object' && content !== null && content.kind !== 'answer'
