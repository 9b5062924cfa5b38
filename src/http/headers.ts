/** Owns the header fields of answers (contract A8). Constant ones are made once. */
import type { Encoding } from '../answers.ts'
import type { Gauge } from '../limits.ts'
import type { Output } from '../proxy.ts'

export type HeaderFields = { [name: string]: string }

export const CONTENT_TYPES = {
  txt: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
} as const

const fieldsOf = (kind: Output['kind']) => ({
  inline: { 'content-type': CONTENT_TYPES[kind] },
  download: {
    'content-type': CONTENT_TYPES[kind],
    'content-disposition': `attachment; filename="proxies.${kind}"`,
  },
})
const OUTPUT = { txt: fieldsOf('txt'), json: fieldsOf('json') }

/** Content type, and for downloads the file's name, of an answer. */
export const outputHeaders = ({ kind, download }: Output): HeaderFields =>
  OUTPUT[kind][download ? 'download' : 'inline']

/** Of bodies that are compressed for those who accept it. */
export const VARY = { vary: 'Accept-Encoding' }
export const CONTENT_ENCODING: { [E in Encoding]: HeaderFields } = {
  zstd: { 'content-encoding': 'zstd' },
  gzip: { 'content-encoding': 'gzip' },
}

/** All header fields of an answer: those of every answer of the service, then its own. */
export function completeHeaders(
  requestId: string,
  gauges: readonly Gauge[],
  own: readonly HeaderFields[],
): HeaderFields {
  const headers: HeaderFields = {
    'cache-control': 'private, no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-request-id': requestId,
  }
  if (gauges.length > 0) addRateLimit(headers, gauges)
  for (const fields of own) for (const name in fields) headers[name] = fields[name] ?? ''
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
