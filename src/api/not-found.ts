/** Explains why no proxy matches a query (contract A2). The explanation is cached until the list changes. */
import { createBoundedMap } from '../lib/bounded-map.ts'
import { ageClock } from '../lib/time.ts'
import type { Lacks, ProxyReader } from '../proxies/store.ts'
import { ApiError } from './errors.ts'
import type { Query } from './query.ts'

/** Queries whose explanation is in memory. */
const LACKS_MAX = 1_000

/** `a`, `a or b`, `a, b or c` */
const anyOf = (names: readonly string[]): string =>
  [names.slice(0, -1).join(', '), ...names.slice(-1)].filter(part => part !== '').join(' or ')

/** What is written for a country and is no code of one, and its code. */
const COUNTRY_CODES: { readonly [code: string]: string } = { UK: 'gb', EL: 'gr' }

/** The 404 of a query. */
function notFound(
  { filter, isWorksSet }: Query,
  nowMs: number,
  { newestSeconds, lacking }: Lacks,
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

/** Creates what explains why nothing was found. */
export function createNotFound(reader: ProxyReader) {
  const known = createBoundedMap<string, Lacks>(LACKS_MAX)
  let knownVersion = ''

  /** The error for a query that no proxy matches. */
  return (query: Query, nowMs: number): ApiError => {
    const version = reader.version()
    if (version !== knownVersion) known.clear()
    knownVersion = version
    const lacks = known.get(query.id) ?? reader.lacks(query.filter)
    known.set(query.id, lacks)
    return notFound(query, nowMs, lacks)
  }
}
