/** Reads the access key of a request, from its URL (spec 5) or from `Authorization: Bearer` (RFC 6750). */
import type { Access } from '../access/access.ts'
import type { KeyRecord } from '../access/key.ts'
import { ApiError } from '../api/errors.ts'
import { invalid } from '../api/query.ts'
import { isInRanges } from '../lib/ip.ts'
import { type Pair, queryStringOf, splitQueryString } from '../lib/query-string.ts'
import type { IpOf, RequestContext } from './reply.ts'

/** The query string may still hold the key. */
type Credentials = { key: string; queryString: string }

export type RequestHeaders = Pick<Headers, 'get'>

const PLAIN_KEY = /(?:^|&)key=([\w-]+)(?:&|$)/
/** Whether a query string may hold another key, perhaps with its name percent-encoded. */
const MAY_HOLD_KEY = /key(?:=|&|$)|%6b|%65|%79/i

/** Reads the credentials of a request. Removes a plain key, so that keys share parsed queries. @throws ApiError */
export function readCredentials(url: string, headers: RequestHeaders): Credentials {
  const authorization = headers.get('authorization')
  const text = queryStringOf(url)
  const match = authorization === null ? PLAIN_KEY.exec(text) : null
  if (match !== null) {
    const [whole, key = ''] = match
    const rest = `${text.slice(0, match.index)}&${text.slice(match.index + whole.length)}`
    if (!MAY_HOLD_KEY.test(rest)) return { key, queryString: rest }
  }
  return { key: keyOf(splitQueryString(text), headers), queryString: text }
}

/** The error of a request without a key. */
export const missing = (what: string, where = '?key=KEY or Authorization: Bearer KEY'): ApiError =>
  new ApiError('KEY_MISSING', `${what}: ${where}`)

/** The key in the parameter or the header. An empty parameter is a missing key, even beside a header (contract A3). */
export function keyOf(pairs: readonly Pair[], headers: RequestHeaders): string {
  const given = pairs.filter(({ name }) => name === 'key')
  if (given.some(({ value }) => value === '')) throw missing('key is empty; send it once')
  if (given.length > 1) throw invalid('key may be given only once')
  const inQuery = given[0]?.value
  if (inQuery === null) throw invalid('key must be valid UTF-8 in percent-encoding')
  const inHeader = bearerOf(headers)
  if (inQuery !== undefined && inHeader !== undefined && inQuery !== inHeader) {
    throw invalid('key differs between the query and the Authorization header; send it once')
  }
  const key = inQuery ?? inHeader
  if (key === undefined) throw missing('key is required')
  return key
}

/** The key in an Authorization header, which HTTP delivers as Latin-1. Other schemes are ignored. */
export function bearerOf(headers: RequestHeaders): string | undefined {
  const [, rest = ''] = /^Bearer(?: (.*))?$/i.exec(headers.get('authorization') ?? '') ?? []
  const key = rest.trim()
  // Several headers arrive joined by commas: `Bearer A, Bearer B`.
  if (/\s/.test(key)) throw invalid('the Authorization header must be: Bearer KEY, once')
  return key === '' ? undefined : Buffer.from(key, 'latin1').toString('utf8')
}

/** The record of a valid key; `null` also for a client outside its networks (contract G5), which the log explains. */
export function findKey(
  access: Access,
  key: string,
  r: RequestContext,
  ipOf: IpOf,
): KeyRecord | null {
  const record = access.find(key, r.nowMs)
  if (record === null || record.callers === null) return record
  if (isInRanges(record.callers, ipOf(r))) return record
  r.keyId = record.caller.id
  r.why = 'the key is not for this client address'
  return null
}
