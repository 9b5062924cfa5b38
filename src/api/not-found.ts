/**
 * Saying why no proxy matches a query (contract A2), where that is one thing. What the list lacks
 * is looked up once for each version of it, and a long scan happens in the streamer.
 */

import type { Awaitable } from '../lib/awaitable.ts'
import { createBoundedMap } from '../lib/bounded-map.ts'
import { ageClock } from '../lib/time.ts'
import type { ProxyType } from '../proxies/proxy.ts'
import type { Lacks, ProxyReader } from '../proxies/store.ts'
import type { AnswerStreamer } from './answer.ts'
import { ApiError } from './errors.ts'
import type { Query } from './query.ts'

/** Queries whose lacks are in memory. */
const LACKS_MAX = 1_000

/** `a`, `a or b`, `a, b or c` */
const anyOf = (names: readonly string[]): string =>
  [names.slice(0, -1).join(', '), ...names.slice(-1)].filter(part => part !== '').join(' or ')

/** What is written for a country and is no code of one, and its code. */
const COUNTRY_CODES: { readonly [code: string]: string } = { UK: 'gb', EL: 'gr' }

/** The 404 of a query. `lacking`: what no proxy of the list has. */
function notFound(
  { filter, isWorksSet }: Query,
  nowMs: number,
  { newestSeconds, lacking }: { newestSeconds: number | null; lacking: readonly string[] },
): ApiError {
  const error = (why: string) =>
    new ApiError('PROXIES_NOT_FOUND', `no proxies match the filters${why}`)
  if (newestSeconds === null) return error(': the list is empty')
  const newestAge = ageClock(nowMs) - newestSeconds
  const { ageMaxSeconds } = filter
  const reasons: string[] = []
  // First, because another `time` would not help then.
  if (lacking.length > 0) reasons.push(`no proxy in the list has the given ${anyOf(lacking)}`)
  for (const code of lacking.includes('country') ? filter.countries : []) {
    const meant = COUNTRY_CODES[code]
    if (meant !== undefined) reasons.push(`the code of ${code.toLowerCase()} is ${meant}`)
  }
  if (newestAge > ageMaxSeconds) {
    reasons.push(`the newest check is ${newestAge} s old, and time allows ${ageMaxSeconds} s`)
  }
  if (reasons.length > 0) return error(`: ${reasons.join('; ')}`)
  if (!isWorksSet) return error('')
  return error(`; without works, the demo key gets works=${filter.worksMin}`)
}

/** Creates what says why there is nothing; for a promise of it the list is scanned. */
export function createNotFound(reader: ProxyReader, streamer: AnswerStreamer | null) {
  const known = createBoundedMap<string, Lacks>(LACKS_MAX)
  const types = new Map<string, Awaitable<boolean>>()
  let knownVersion = ''

  /** Whether any proxy has one of these types; what a newer list has is not kept. */
  function hasType(asked: readonly ProxyType[]): Awaitable<boolean> {
    const name = asked.join()
    const decided = types.get(name) ?? reader.hasType(asked) ?? scanFor(asked)
    types.set(name, decided)
    return decided
  }

  /** True also where it is not known: when the scan fails, or the list changes meanwhile. */
  async function scanFor(asked: readonly ProxyType[]): Promise<boolean> {
    const version = reader.version()
    const isThere = await streamer?.hasType(asked).catch(() => {
      types.delete(asked.join()) // the next one tries again
      return true
    })
    return isThere !== false || version !== reader.version()
  }

  /** The error for a query that no proxy matches. */
  return (query: Query, nowMs: number): Awaitable<ApiError> => {
    const version = reader.version()
    if (version !== knownVersion) {
      known.clear()
      types.clear()
    }
    knownVersion = version
    const { newestSeconds, lacking } = known.get(query.id) ?? reader.lacks(query.filter)
    known.set(query.id, { newestSeconds, lacking })
    const end = (isThere: boolean): ApiError =>
      notFound(query, nowMs, { newestSeconds, lacking: isThere ? lacking : ['type', ...lacking] })
    const isThere = query.filter.types.length === 0 || hasType(query.filter.types)
    return isThere instanceof Promise ? isThere.then(end) : end(isThere)
  }
}
