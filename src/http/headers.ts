/** Owns the header fields of answers (contract A8). Constant ones are made once. */

import type { Gauge } from '../access/rate-limit.ts'
import type { Encoding } from '../api/response-cache.ts'
import { memoized } from '../lib/memo.ts'
import type { Output } from '../proxies/proxy.ts'

export type HeaderFields = { [name: string]: string }

export const CONTENT_TYPES = {
  txt: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
} as const

/** What every answer of the service carries. */
const COMMON: HeaderFields = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

/** How a body is sent; one that is too short to be compressed for anybody is `fixed`. */
export type Coding = Encoding | 'identity' | 'fixed'

const VARY = { vary: 'Accept-Encoding' }
const CODINGS: { [C in Coding]: HeaderFields } = {
  fixed: {},
  identity: VARY,
  zstd: { ...VARY, 'content-encoding': 'zstd' },
  gzip: { ...VARY, 'content-encoding': 'gzip' },
}

/** Content type, for downloads the file's name, and the coding of an answer's body. */
const fieldsOf = memoized(({ kind, download }: Output): { [C in Coding]: HeaderFields } => {
  const own: HeaderFields = { 'content-type': CONTENT_TYPES[kind] }
  if (download) own['content-disposition'] = `attachment; filename="proxies.${kind}"`
  const coded = (coding: Coding): HeaderFields => ({ ...own, ...CODINGS[coding] })
  return {
    fixed: coded('fixed'),
    identity: coded('identity'),
    zstd: coded('zstd'),
    gzip: coded('gzip'),
  }
})

export const bodyHeaders = (output: Output, coding: Coding): HeaderFields =>
  fieldsOf(output)[coding]

/** All header fields of an answer: those of every answer of the service, then its own. */
export function completeHeaders(
  requestId: string,
  gauges: readonly Gauge[],
  own: HeaderFields,
): HeaderFields {
  const headers: HeaderFields = { ...COMMON, ...own, 'x-request-id': requestId }
  if (gauges.length > 0) addRateLimit(headers, gauges)
  return headers
}

/** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10). */
function addRateLimit(headers: HeaderFields, gauges: readonly Gauge[]): void {
  let policy = ''
  let limit = ''
  for (const { name, quota, windowSeconds, remaining, resetSeconds } of gauges) {
    const comma = policy === '' ? '' : ', '
    policy += `${comma}"${name}";q=${quota};w=${windowSeconds}`
    limit += `${comma}"${name}";r=${remaining};t=${resetSeconds}`
  }
  headers['ratelimit-policy'] = policy
  headers.ratelimit = limit
}
