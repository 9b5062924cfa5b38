/**
 * Reading the access key of a request, from its URL (spec 5) or from the header
 * `Authorization: Bearer` (RFC 6750). Whether a key is valid is decided in `access/`.
 */

import { ApiError } from '../api/errors.ts'
import { invalid } from '../api/query.ts'
import { type Pair, queryStringOf, splitQueryString } from '../lib/query-string.ts'

/** A key, and the query string, which may still hold it. */
type Credentials = { key: string; queryString: string }

export type RequestHeaders = Pick<Headers, 'get'>

const PLAIN_KEY = /(?:^|&)key=([\w-]+)(?:&|$)/
/** Whether a query string may hold another key, perhaps with its name percent-encoded. */
const MAY_HOLD_KEY = /key(?:=|&|$)|%6b|%65|%79/i

/**
 * Reads the credentials of a request. A plain key is removed from its query string, so that keys share parsed
 * queries. Nothing is kept by URL: with thousands of keys, to find one in memory takes longer than to read it.
 * @throws ApiError KEY_MISSING; INVALID_PARAMETER when the key is malformed or given twice.
 */
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

const IN_HEADER = 'Authorization: Bearer KEY'

/** The error of a request without a key; it says so when one may be in a header that is not read. */
export function missing(what: string, headers: RequestHeaders, where = `?key=KEY or ${IN_HEADER}`) {
  const authorization = headers.get('authorization') ?? ''
  const unread = [
    ...(authorization === '' || BEARER.test(authorization) ? [] : ['Authorization without Bearer']),
    ...(headers.get('x-api-key') !== null ? ['X-Api-Key'] : []),
  ]
  const notes = unread.map(name => `; ${name} is not read`).join('')
  return new ApiError('KEY_MISSING', `${what}: ${where}${notes}`)
}

/**
 * The access key of a request, from the parameter `key` or the header `Authorization: Bearer`.
 * An empty parameter is a missing key whatever else there is (contract A3): a client that means to
 * send one has lost it.
 * @throws ApiError KEY_MISSING; INVALID_PARAMETER when it is malformed or given twice.
 */
export function keyOf(pairs: readonly Pair[], headers: RequestHeaders): string {
  const given = pairs.filter(({ name }) => name === 'key')
  if (given.some(({ value }) => value === '')) throw missing('key is empty; send it once', headers)
  if (given.length > 1) throw invalid('key may be given only once')
  const inQuery = given[0]?.value
  if (inQuery === null) throw invalid('key must be valid UTF-8 in percent-encoding')
  const inHeader = bearerOf(headers)
  if (inQuery !== undefined && inHeader !== undefined && inQuery !== inHeader) {
    throw invalid('key differs between the query and the Authorization header; send it once')
  }
  const key = inQuery ?? inHeader
  if (key === undefined) throw missing('key is required', headers)
  return key
}

const BEARER = /^Bearer(?: |$)/i

/**
 * The key in an Authorization header, which HTTP delivers as Latin-1. Several headers arrive
 * joined by commas; other schemes are ignored.
 */
export function bearerOf(headers: RequestHeaders): string | undefined {
  const authorization = headers.get('authorization') ?? ''
  if (!BEARER.test(authorization)) return undefined
  const keys = authorization.split(/, *(?=Bearer )/i).map(part => part.replace(/^Bearer */i, ''))
  const [key = '', ...others] = new Set(keys.map(text => text.trim()))
  if (others.length > 0 || /\s/.test(key)) {
    throw invalid('the Authorization header must be: Bearer KEY, once')
  }
  if (key === '') return undefined
  return Buffer.from(key, 'latin1').toString('utf8')
}
