/** The only file that sends requests. Knows nothing of what the bytes mean, or of schedules. */
import { closeSync, openSync, unlinkSync, writeFileSync } from 'node:fs'
import { codeOf, messageOf, systemReasonOf } from '../lib/errors.ts'
import { SECOND_MS } from '../lib/time.ts'

export const REDIRECTS_MAX = 5

/** Why there is nothing to import. Holds no secret; `retryAfterMs` is what the server asked for. */
export class FetchFailure extends Error {
  readonly retryAfterMs: number | null
  constructor(message: string, retryAfterMs: number | null = null) {
    super(message)
    this.retryAfterMs = retryAfterMs
  }
}

/** What is known of the content that was imported last; `''` what is not known. */
export type Validators = { etag: string; lastModified: string; digest: string }

export type Request = {
  url: string
  /** Sent to the origin of `url` only. */
  headers: readonly (readonly [name: string, value: string])[]
  userAgent: string
  known: Validators | null
  /** A path for the content; the file is removed at once and lives as long as its descriptor. */
  file: string
  bytesMax: number
  signal: AbortSignal
  nowMs: number
}

/** Compressions that an import recognises by content. */
const ENCODINGS = ['gzip', 'zstd']

export type Downloaded =
  | { kind: 'unchanged' }
  /** `fd` is the open file, which the caller closes. */
  | { kind: 'changed'; fd: number; validators: Validators }

/** Names of Bun's errors, and what happened. */
const FAILURES: { [code: string]: string } = {
  ConnectionRefused: 'refuses connections',
  ECONNREFUSED: 'refuses connections',
  ConnectionClosed: 'broke off the answer',
  ECONNRESET: 'broke off the answer',
  FailedToOpenSocket: 'cannot be reached',
  ENOTFOUND: 'cannot be reached: its name is not known',
  EPROTO: 'does not speak TLS at this port: is it an http:// URL?',
  ...Object.fromEntries(
    [
      ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'],
      ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'UNABLE_TO_GET_ISSUER_CERT'],
      'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
    ].map(code => [code, 'has a certificate of an authority that this system does not know']),
  ),
  CERT_HAS_EXPIRED: 'has a certificate that is expired',
  CERT_NOT_YET_VALID: 'has a certificate that is not valid yet: is the clock right?',
  ERR_TLS_CERT_ALTNAME_INVALID: 'has a certificate of another name',
}

/** A failure of `fetch` as a sentence without the URL. */
function toFailure(error: unknown, { signal }: Request): FetchFailure {
  if (error instanceof FetchFailure) return error
  if (signal.aborted) return new FetchFailure(messageOf(signal.reason))
  const code = codeOf(error)
  const reason = systemReasonOf(error) ?? (code || 'the answer is broken')
  return new FetchFailure(FAILURES[code] ?? `cannot be fetched (${reason})`)
}

/** User and password of a URL as a header, and the URL without them. */
function splitCredentials(text: string): { url: URL; headers: [string, string][] } {
  const url = new URL(text)
  const { username, password } = url
  url.username = ''
  url.password = ''
  url.hash = ''
  if (username === '' && password === '') return { url, headers: [] }
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { url, headers: [['authorization', `Basic ${Buffer.from(pair).toString('base64')}`]] }
}

/** The headers of the first request: ours, those of the URL, then those of the caller. */
function headersOf(request: Request, more: readonly (readonly [string, string])[]): Headers {
  const { known, userAgent } = request
  const headers = new Headers({ accept: '*/*', 'user-agent': userAgent })
  for (const [name, value] of [...more, ...request.headers]) headers.set(name, value)
  headers.set('accept-encoding', ENCODINGS.join(', '))
  if (known?.etag) headers.set('if-none-match', known.etag)
  if (known?.lastModified) headers.set('if-modified-since', known.lastModified)
  return headers
}

/** Where a redirect leads; `null` for any other answer. */
function redirectOf(response: Response, from: URL): URL | null {
  const { status, headers } = response
  if (![301, 302, 303, 307, 308].includes(status)) return null
  const location = headers.get('location') ?? ''
  if (location === '') throw new FetchFailure(`redirects with status ${status}, but not to a URL`)
  const to = URL.parse(location, from.href)
  const isHttp = to?.protocol === 'http:' || to?.protocol === 'https:'
  if (to === null || !isHttp) throw new FetchFailure('redirects to something that is no web page')
  return to
}

/** Sends the request, and again to where it is redirected. */
async function follow(request: Request): Promise<Response> {
  const first = splitCredentials(request.url)
  let { url } = first
  let headers = headersOf(request, first.headers)
  for (let redirects = 0; ; redirects += 1) {
    const response = await fetch(url.href, {
      headers,
      redirect: 'manual',
      decompress: false,
      keepalive: false,
      signal: request.signal,
    })
    const to = redirectOf(response, url)
    if (to === null) return response
    await response.body?.cancel()
    if (redirects === REDIRECTS_MAX) {
      throw new FetchFailure(`redirects more than ${REDIRECTS_MAX} times`)
    }
    // Only the origin that the operator named gets secrets, and may compare validators.
    if (to.origin !== url.origin) headers = headersOf({ ...request, headers: [], known: null }, [])
    url = to
  }
}

/** Milliseconds that a `Retry-After` asks for: seconds or an HTTP date; `null` without one. */
export function retryAfterMs(value: string | null, nowMs: number): number | null {
  const text = value?.trim() ?? ''
  if (/^\d{1,9}$/.test(text)) return Number(text) * SECOND_MS
  const atMs = /^[a-z]{3,9},/i.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}

/** @throws FetchFailure unless the answer has content to import. */
function refuseUnusable({ status, headers }: Response, nowMs: number): void {
  if (status === 200) return
  const wait = retryAfterMs(headers.get('retry-after'), nowMs)
  const until = wait === null ? '' : `, and asks to wait ${Math.ceil(wait / SECOND_MS)} s`
  throw new FetchFailure(`answers with status ${status}${until}`, wait)
}

/** @throws FetchFailure when the content is compressed in a way that we did not offer. */
function refuseEncoding(headers: Headers): void {
  const name = (headers.get('content-encoding') ?? 'identity').trim().toLowerCase()
  if (['', 'identity', ...ENCODINGS].includes(name.replace(/^x-/, ''))) return
  throw new FetchFailure('answers in a compression that was not asked for (gzip and zstd are read)')
}

/** The failure of a source of more than this many bytes. */
export const tooLarge = (bytesMax: number): string => `is larger than ${bytesMax / 2 ** 20} MiB`

/** Writes the body to an open file; returns its digest. */
async function save(response: Response, fd: number, bytesMax: number): Promise<string> {
  const hasher = new Bun.CryptoHasher('sha256')
  const { headers, body } = response
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new FetchFailure(tooLarge(bytesMax))
    hasher.update(chunk)
    writeFileSync(fd, chunk)
  }
  const announced = headers.get('content-length')
  if (announced !== null && !headers.has('transfer-encoding') && Number(announced) !== bytes) {
    throw new FetchFailure(`broke off after ${bytes} of ${announced} bytes`)
  }
  return hasher.digest('hex')
}

/**
 * Fetches the content of a URL, unless it is the one that is known.
 * @throws FetchFailure when that fails, for any reason.
 */
export async function download(request: Request): Promise<Downloaded> {
  const controller = new AbortController()
  const signal = AbortSignal.any([request.signal, controller.signal])
  let fd: number | null = null
  try {
    const response = await follow({ ...request, signal })
    const isConditional = request.known?.etag || request.known?.lastModified
    if (response.status === 304 && isConditional) return { kind: 'unchanged' }
    refuseUnusable(response, request.nowMs)
    refuseEncoding(response.headers)
    fd = openSync(request.file, 'wx+', 0o600)
    unlinkSync(request.file)
    const digest = await save(response, fd, request.bytesMax)
    if (digest === request.known?.digest) return { kind: 'unchanged' }
    const kept = fd
    fd = null
    const etag = response.headers.get('etag') ?? ''
    const lastModified = response.headers.get('last-modified') ?? ''
    return { kind: 'changed', fd: kept, validators: { etag, lastModified, digest } }
  } catch (error) {
    throw toFailure(error, request)
  } finally {
    if (fd !== null) closeSync(fd)
    controller.abort()
  }
}
