/** Owns the header fields of responses (contract A8). Constant ones are created once. */
import type { LimitStatus } from '../access/rate-limit.ts'
import { OUTPUT_KINDS, type Output } from '../api/render.ts'
import type { Encoding } from './compression.ts'

export type HeaderFields = { [name: string]: string }

export const CONTENT_TYPES = {
  txt: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
  ndjson: 'application/x-ndjson',
} as const

/** The header fields of every reply. */
export const COMMON_HEADERS = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

/** How a body is encoded; `fixed`: too short to be compressed for any client, so without `Vary`. */
export type Coding = Encoding | 'identity' | 'fixed'

const VARY = { vary: 'Accept-Encoding' }
const CODINGS: { [C in Coding]: HeaderFields } = {
  fixed: {},
  identity: VARY,
  zstd: { ...VARY, 'content-encoding': 'zstd' },
  gzip: { ...VARY, 'content-encoding': 'gzip' },
}

type ByCoding = { [C in Coding]: HeaderFields }

/** The fields of a body in each coding: content type, and the file name of a download. */
function fieldsOf({ kind, isDownload }: Pick<Output, 'kind' | 'isDownload'>): ByCoding {
  const own: HeaderFields = { ...COMMON_HEADERS, 'content-type': CONTENT_TYPES[kind] }
  if (isDownload) own['content-disposition'] = `attachment; filename="proxies.${kind}"`
  const coded = (coding: Coding): HeaderFields => ({ ...own, ...CODINGS[coding] })
  return {
    fixed: coded('fixed'),
    identity: coded('identity'),
    zstd: coded('zstd'),
    gzip: coded('gzip'),
  }
}

type ByKind = { [K in Output['kind']]: ByCoding }
const allKinds = (isDownload: boolean): ByKind =>
  Object.fromEntries(OUTPUT_KINDS.map(kind => [kind, fieldsOf({ kind, isDownload })])) as ByKind
const INLINE = allKinds(false)
const DOWNLOAD = allKinds(true)

/** The fields of a body in one coding. The object is shared: do not change it. */
export const bodyHeaders = ({ kind, isDownload }: Output, coding: Coding): HeaderFields =>
  (isDownload ? DOWNLOAD : INLINE)[kind][coding]

/** All header fields of a response: those of its reply, and those of `limits`, if any. */
export function completeHeaders(
  requestId: string,
  limits: readonly LimitStatus[],
  reply: HeaderFields,
): HeaderFields {
  const headers: HeaderFields = { ...reply, 'x-request-id': requestId }
  if (limits.length > 0) addRateLimit(headers, limits)
  return headers
}

/** Adds the fields for the origin of a request; `Vary` may be in both. */
export function addCors(headers: HeaderFields, cors: HeaderFields): void {
  const { vary } = headers
  Object.assign(headers, cors)
  if (vary !== undefined && cors.vary !== undefined) headers.vary = `${vary}, ${cors.vary}`
}

/** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10). */
function addRateLimit(headers: HeaderFields, limits: readonly LimitStatus[]): void {
  let policy = ''
  let limit = ''
  for (const { name, quota, windowSeconds, remaining, resetSeconds } of limits) {
    const comma = policy === '' ? '' : ', '
    policy += `${comma}"${name}";q=${quota};w=${windowSeconds}`
    limit += `${comma}"${name}";r=${remaining};t=${resetSeconds}`
  }
  headers['ratelimit-policy'] = policy
  headers.ratelimit = limit
}
