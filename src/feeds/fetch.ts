/** Fetches the source of a feed, unless it is unchanged. Files and directories stay in place. */
import { lookup } from 'node:dns/promises'
import { closeSync, type Stats, writeFileSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import {
  CommandError,
  codeOf,
  nextTurn,
  orAborted,
  reasonOf,
  systemReasonOf,
} from '../lib/errors.ts'
import { openUnnamed, readNamed, requireRegular } from '../lib/files.ts'
import { canonicalIp, isInternal } from '../lib/ip.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type Feed, parseHeaders } from './feed.ts'
import type { Validators } from './store.ts'

/** The most bytes of a source, compressed and decompressed (contract G1). */
export const BYTES_MAX = 2 ** 30
const SLICE_BYTES = 128 * 1024
const REDIRECTS_MAX = 5

/** The fetch failed. The message holds no secrets. `retryAfterMs` is from the header `Retry-After`. */
export class FetchFailure extends CommandError {
  readonly retryAfterMs: number | null
  constructor(message: string, retryAfterMs: number | null = null) {
    super(message)
    this.retryAfterMs = retryAfterMs
  }
}

export type FetchContext = {
  dir: string
  userAgent: string
  clock: Clock
  bytesMax: number
  resolve: Resolve
}

/** A source, perhaps with the content that is known: then `validators` has the known digest. */
export type Fetched = {
  /** An open file with the body of a URL, which the caller closes; `null` for a path. */
  fd: number | null
  /** The time of the response, and whether its server is on the internet. */
  sent: { atMs: number; isPublic: boolean }
  validators: Validators
}

/** Sentences for the usual errors of `fetch`. Other errors are shown by their code, such as `CERT_HAS_EXPIRED`. */
const FAILURES: { readonly [code: string]: string } = {
  ECONNREFUSED: 'refuses connections',
  ECONNRESET: 'closed the connection early',
  EPROTO: 'does not speak TLS at this port: is it an http:// URL?',
  ENOTFOUND: 'cannot be reached: the host name is unknown',
  EAI_AGAIN: 'cannot be reached: no DNS server responds',
}

/** An error of `fetch` as a sentence without the URL: its message could hold the URL, so only its code is used. */
function toFailure(error: unknown, signal: AbortSignal): CommandError {
  if (error instanceof CommandError) return error
  if (signal.aborted) return new FetchFailure(reasonOf(signal.reason))
  const code = codeOf(error)
  const reason = systemReasonOf(error) ?? (code || 'the response is malformed')
  return new FetchFailure(FAILURES[code] ?? `cannot be fetched (${reason})`)
}

function headersOf(
  userAgent: string,
  known: Validators | null,
  own: readonly (readonly [name: string, value: string])[],
): Headers {
  const headers = new Headers({ accept: '*/*', 'user-agent': userAgent })
  for (const [name, value] of own) headers.set(name, value)
  headers.set('accept-encoding', 'gzip, zstd')
  if (known?.etag) headers.set('if-none-match', known.etag)
  if (known?.lastModified) headers.set('if-modified-since', known.lastModified)
  return headers
}

/** The target of a redirect; `null` for other responses. @throws FetchFailure */
function redirectOf(response: Response, from: URL): URL | null {
  const { status, headers } = response
  if (![301, 302, 303, 307, 308].includes(status)) return null
  const location = headers.get('location') ?? ''
  if (location === '') throw new FetchFailure(`redirects with status ${status}, but not to a URL`)
  const to = URL.parse(location, from.href)
  if (to !== null && /^https?:$/.test(to.protocol)) return to
  throw new FetchFailure('redirects to something other than http:// or https://')
}

/** Resolves a host name to canonical addresses, or to `[]` if the name is unknown. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

/** Resolves by the system's resolver, IPv4 addresses first. */
export async function resolveBySystem(hostname: string): Promise<readonly string[]> {
  const found = await lookup(hostname, { all: true, order: 'ipv4first' }).catch(() => [])
  return found.map(({ address }) => canonicalIp(address) ?? address)
}

/** A URL, and checked addresses: resolving a name again could return others. Without, `fetch` resolves it. */
type Target = { url: URL; addresses: readonly string[] }

async function targetOf(url: URL, resolve: Resolve): Promise<Target> {
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const address = canonicalIp(hostname)
  return { url, addresses: address === null ? await resolve(hostname) : [address] }
}

const isInside = ({ addresses }: Target): boolean =>
  addresses.length > 0 && addresses.every(isInternal)

/** @throws FetchFailure for a redirect from https to http, or from the internet into this machine or its network. */
export function refuseRedirect(from: Target, to: Target): void {
  if (from.url.protocol === 'https:' && to.url.protocol === 'http:') {
    throw new FetchFailure('redirects from https to http')
  }
  if (to.addresses.length === 0) throw new FetchFailure('redirects to an unknown host name')
  if (!isInside(from) && to.addresses.some(isInternal)) {
    throw new FetchFailure('redirects to a loopback, private or link-local address')
  }
}

/** Sends a request to the first reachable address. */
async function request(
  { url, addresses }: Target,
  init: BunFetchRequestInit & { headers: Headers },
) {
  if (addresses.length === 0) return fetch(url.href, init)
  const headers = new Headers(init.headers)
  headers.set('host', url.host)
  let failure: unknown
  for (const address of addresses) {
    const there = new URL(url)
    there.hostname = address.includes(':') ? `[${address}]` : address
    try {
      return await fetch(there.href, { ...init, headers, tls: { serverName: url.hostname } })
    } catch (error) {
      init.signal?.throwIfAborted()
      failure = error
    }
  }
  throw failure
}

async function follow(
  feed: Feed,
  known: Validators | null,
  { userAgent, resolve }: FetchContext,
  signal: AbortSignal,
): Promise<{ response: Response; isPublic: boolean }> {
  const url = new URL(feed.source)
  const own =
    feed.headersFile === null ? [] : await orAborted(readHeaders(feed.headersFile), signal)
  const { username, password } = url
  if (username !== '' || password !== '') {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
    own.unshift(['authorization', `Basic ${Buffer.from(pair).toString('base64')}`])
  }
  Object.assign(url, { username: '', password: '', hash: '' })
  let headers = headersOf(userAgent, known, own)
  let target = await orAborted(targetOf(url, resolve), signal)
  // A URL of the operator needs no checked addresses, and an HTTP_PROXY of the environment needs the name.
  const isPublic = !isInside(target)
  if (isPublic) target = { url, addresses: [] }
  for (let redirects = 0; ; redirects += 1) {
    const response = await request(target, {
      headers,
      redirect: 'manual',
      decompress: false,
      keepalive: false,
      signal,
    })
    const to = redirectOf(response, target.url)
    if (to === null) return { response, isPublic }
    await response.body?.cancel()
    if (redirects === REDIRECTS_MAX) {
      throw new FetchFailure(`redirects more than ${REDIRECTS_MAX} times`)
    }
    // Other origins must not get the secrets of the operator.
    if (to.origin !== target.url.origin) headers = headersOf(userAgent, null, [])
    const next = await orAborted(targetOf(to, resolve), signal)
    refuseRedirect(target, next)
    target = next
  }
}

/** The value of `Retry-After` in milliseconds. It is a number of seconds or an HTTP date; `null` if it is neither. */
export function retryAfterMs(value: string | null, nowMs: number): number | null {
  const text = value?.trim() ?? ''
  if (/^\d{1,15}$/.test(text)) return Number(text) * SECOND_MS
  const atMs = /^[a-z]{3,9},/i.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}

function requireOk({ status, headers }: Response, nowMs: number): void {
  if (status === 200) return
  const wait = retryAfterMs(headers.get('retry-after'), nowMs)
  const pause = wait === null ? '' : `, and asks to wait ${Math.ceil(wait / SECOND_MS)} s`
  throw new FetchFailure(`answers with status ${status}${pause}`, wait)
}

const tooLarge = (bytesMax: number): string => `is larger than ${bytesMax / 2 ** 20} MiB`

/** Writes the body to an open file. Returns its digest. */
async function save({ body }: Response, fd: number, bytesMax: number): Promise<string> {
  const hasher = new Bun.CryptoHasher('sha256')
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new FetchFailure(tooLarge(bytesMax))
    // A chunk may have megabytes: the server handles requests between slices.
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      const slice = chunk.subarray(at, at + SLICE_BYTES)
      hasher.update(slice)
      writeFileSync(fd, slice)
      await nextTurn()
    }
  }
  return hasher.digest('hex')
}

/** The file, or the visible files of a directory by name. `skipped` are its other entries, but not folders. */
export async function filesOf(path: string) {
  const itself = await stat(path)
  if (!itself.isDirectory()) {
    requireRegular(itself)
    return { files: [{ file: path, found: itself }], skipped: [] }
  }
  const names = (await readdir(path)).filter(name => !name.startsWith('.')).sort()
  const files: { file: string; found: Stats }[] = []
  const skipped: string[] = []
  for (const name of names) {
    const file = join(path, name)
    const found = await stat(file).catch(() => null) // a broken link
    if (found?.isFile()) files.push({ file, found })
    else if (!found?.isDirectory()) skipped.push(file)
  }
  return { files, skipped }
}

/** The digest of a path is of the names, sizes and modification times of its files. */
async function fetchPath(
  { source }: Feed,
  { bytesMax, clock }: FetchContext,
  signal: AbortSignal,
): Promise<Fetched> {
  try {
    const hasher = new Bun.CryptoHasher('sha256')
    let bytes = 0
    const { files } = await orAborted(filesOf(source), signal)
    for (const { file, found } of files) {
      const { size, mtimeMs, ino } = found
      bytes += size
      hasher.update(`${file}\0${size}\0${mtimeMs}\0${ino}\0`)
    }
    if (bytes > bytesMax) throw new FetchFailure(tooLarge(bytesMax))
    const digest = hasher.digest('hex')
    const sent = { atMs: clock(), isPublic: false }
    return { fd: null, sent, validators: { etag: '', lastModified: '', digest } }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof FetchFailure) throw error
    throw new FetchFailure(`cannot be read (${reasonOf(error)})`)
  }
}

/** The headers in a header file. @throws CommandError */
export const readHeaders = async (file: string): Promise<[name: string, value: string][]> =>
  parseHeaders(String(await readNamed(file, `the header file ${file}`)), file)

async function fetchUrl(
  feed: Feed,
  known: Validators | null,
  context: FetchContext,
  outer: AbortSignal,
): Promise<Fetched | null> {
  const { dir, bytesMax, clock } = context
  const controller = new AbortController()
  const signal = AbortSignal.any([outer, controller.signal])
  let fd: number | null = null
  try {
    const { response, isPublic } = await follow(feed, known, context, signal)
    const { headers, status } = response
    if (status === 304 && (known?.etag || known?.lastModified)) return null
    const nowMs = clock()
    requireOk(response, nowMs)
    fd = openUnnamed(dir)
    const digest = await save(response, fd, bytesMax)
    const etag = headers.get('etag') ?? ''
    const said = headers.get('last-modified') ?? ''
    const atMs = Date.parse(headers.get('date') ?? '') || nowMs
    // A file may change twice within the second of its Last-Modified.
    const lastModified = atMs - Date.parse(said) < SECOND_MS ? '' : said
    const fetched = { fd, sent: { atMs, isPublic }, validators: { etag, lastModified, digest } }
    fd = null // the caller closes it
    return fetched
  } catch (error) {
    throw toFailure(error, outer)
  } finally {
    if (fd !== null) closeSync(fd)
    controller.abort() // ends the download of a body that is not needed
  }
}

/** Fetches the source of a feed; `null` if its server says that it still has `known`. @throws FetchFailure */
export const fetchFeed = (
  feed: Feed,
  known: Validators | null,
  context: FetchContext,
  signal: AbortSignal,
): Promise<Fetched | null> =>
  feed.kind === 'url' ? fetchUrl(feed, known, context, signal) : fetchPath(feed, context, signal)
