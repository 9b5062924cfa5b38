/** Owns the header fields of answers (contract A8). */
import type { Gauge } from '../limits.ts'
import type { Output } from '../proxy.ts'

export type HeaderFields = { [name: string]: string }

/** On every answer of the service. */
export const COMMON_HEADERS = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const

export const CONTENT_TYPES = {
  txt: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
} as const

/** Content type, and for downloads the file's name, of an answer. */
export const outputHeaders = ({ kind, download }: Output): HeaderFields => ({
  'content-type': CONTENT_TYPES[kind],
  ...(download && { 'content-disposition': `attachment; filename="proxies.${kind}"` }),
})

/** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10). */
export function rateLimitHeaders(gauges: readonly Gauge[]): HeaderFields {
  if (gauges.length === 0) return {}
  let policy = ''
  let limit = ''
  for (const { name, quota, windowSeconds, remaining, resetSeconds } of gauges) {
    const comma = policy === '' ? '' : ', '
    policy += `${comma}"${name}";q=${quota};w=${windowSeconds}`
    limit += `${comma}"${name}";r=${remaining};t=${resetSeconds}`
  }
  return { 'ratelimit-policy': policy, ratelimit: limit }
}
