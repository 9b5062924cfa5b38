/** Explains why no proxy matches a query (contract A2). */
import { ageClock } from '../lib/time.ts'
import type { EmptyReason } from '../proxies/store.ts'
import { ApiError } from './errors.ts'
import type { Query } from './query.ts'

/** `a`, `a or b`, `a, b or c` */
const anyOf = (names: readonly string[]): string =>
  [names.slice(0, -1).join(', '), ...names.slice(-1)].filter(part => part !== '').join(' or ')

/** Codes that people use by mistake, and the ISO code. */
const COUNTRY_CODES: { readonly [code: string]: string } = { UK: 'gb', EL: 'gr' }

/** The 404 of a query. */
export function notFound(
  { filter, isWorksSet }: Query,
  nowMs: number,
  { newestSeconds, lacking }: EmptyReason,
): ApiError {
  const error = (why: string) =>
    new ApiError('PROXIES_NOT_FOUND', `no proxies match the filters${why}`)
  if (newestSeconds === null) return error(': the list is empty')
  const newestAge = ageClock(nowMs) - newestSeconds
  const { ageMaxSeconds } = filter
  const reasons: string[] = []
  // First, because no value of `time` would help.
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
