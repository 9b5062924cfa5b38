/**
 * Reading the access key of a request, from its URL (spec 5) or from the header
 * `Authorization: Bearer` (RFC 6750). Whether a key is valid is decided in `access/`.
 */

import { ApiError } from '../api/errors.ts'
import { invalid } from '../api/query.ts'
import { createBoundedMap, createDoorkeeper } from '../lib/bounded-map.ts'
import { type Pair, queryStringOf, splitQueryString } from '../lib/query-string.ts'

/** A key, and the query string, which may still hold it; `isStored`: they are in memory. */
type Credentials = { key: string; queryString: string; isStored: boolean }

/** Most URLs whose credentials are in memory, and their longest; longer ones are read each time. */
const URLS_MAX = 30_000
const URL_LENGTH_MAX = 512

const PLAIN_KEY = /(?:^|&)key=([\w-]+)(?:&|$)/
/** Whether a query string may hold another key, perhaps with its name percent-encoded. */
const MAY_HOLD_KEY = /key(?:=|&|$)|%6b|%65|%79/i

/** Reads credentials. Programs poll with the same URL, so those that proved valid twice are kept. */
export function createCredentialReader() {
  const known = createBoundedMap<string, Credentials>(URLS_MAX)
  const isRepeated = createDoorkeeper()

  return {
    /** @throws ApiError KEY_MISSING; INVALID_PARAMETER when the key is malformed or given twice. */
    read(url: string, authorization: string | null): Credentials {
      if (authorization !== null) return readBoth(queryStringOf(url), authorization)
      return known.get(url) ?? readUrl(queryStringOf(url))
    },
    /** Keeps credentials that proved valid and came without the header, at the second call. */
    remember(url: string, credentials: Credentials): void {
      if (credentials.isStored || url.length > URL_LENGTH_MAX || known.has(url)) return
      if (!isRepeated(url)) return
      credentials.isStored = true
      known.set(url, credentials)
    },
  }
}

/** Reads a query string. A plain key is removed from it, so that keys share cached queries. */
function readUrl(text: string): Credentials {
  const match = PLAIN_KEY.exec(text)
  if (match === null) return readBoth(text, null)
  const [whole, key = ''] = match
  const rest = `${text.slice(0, match.index)}&${text.slice(match.index + whole.length)}`
  return MAY_HOLD_KEY.test(rest)
    ? readBoth(text, null)
    : { key, queryString: rest, isStored: false }
}

const readBoth = (queryString: string, authorization: string | null): Credentials => ({
  key: keyOf(splitQueryString(queryString), authorization),
  queryString,
  isStored: false,
})

const missing = (what: string): ApiError =>
  new ApiError('KEY_MISSING', `${what}: ?key=KEY or Authorization: Bearer KEY`)

/**
 * The access key of a request, from the parameter `key` or the header `Authorization: Bearer`.
 * An empty parameter is a missing key whatever else there is (contract A3): a client that means to
 * send one has lost it.
 * @throws ApiError KEY_MISSING; INVALID_PARAMETER when it is malformed or given twice.
 */
export function keyOf(pairs: readonly Pair[], authorization: string | null): string {
  const given = pairs.filter(({ name }) => name === 'key')
  if (given.some(({ value }) => value === '')) throw missing('key is empty; send it once')
  if (given.length > 1) throw invalid('key may be given only once')
  const inQuery = given[0]?.value
  if (inQuery === null) throw invalid('key must be valid UTF-8 in percent-encoding')
  const inHeader = bearerOf(authorization ?? '')
  if (inQuery !== undefined && inHeader !== undefined && inQuery !== inHeader) {
    throw invalid('key differs between the query and the Authorization header; send it once')
  }
  const key = inQuery ?? inHeader
  if (key === undefined) throw missing('key is required')
  return key
}

/**
 * The key in an Authorization header, which HTTP delivers as Latin-1. Several headers arrive
 * joined by commas; other schemes are ignored.
 */
export function bearerOf(authorization: string): string | undefined {
  if (!/^Bearer(?: |$)/i.test(authorization)) return undefined
  const keys = authorization.split(/, *(?=Bearer )/i).map(part => part.replace(/^Bearer */i, ''))
  const [key = '', ...others] = new Set(keys.map(text => text.trim()))
  if (others.length > 0 || /\s/.test(key)) {
    throw invalid('the Authorization header must be: Bearer KEY, once')
  }
  if (key === '') return undefined
  return Buffer.from(key, 'latin1').toString('utf8')
}
