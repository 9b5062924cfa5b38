/**
 * Fetches the source of a feed, unless it is unchanged since the last import. A URL is requested conditionally,
 * with limits on bytes and redirects, and its body goes to a temporary file as it comes: the import decompresses
 * it. Files and directories stay where they are.
 */

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

/** The most bytes of a source, both as it is sent and decompressed (contract G1). */
export const BYTES_MAX = 2 ** 30
const FILES_MAX = 10_000
const SLICE_BYTES = 128 * 1024
const REDIRECTS_MAX = 5

/** Why a fetch failed, without secrets. `retryAfterMs` is from the header `Retry-After`. */
export class FetchFailure extends Error {
  readonly retryAfterMs: number | null
  constructor(message: string, retryAfterMs: number | null = null) {
    super(message)
    this.retryAfterMs = retryAfterMs
  }
}

export type FetchContext = {
  /** The directory of temporary files. */
  dir: string
  userAgent: string
  clock: Clock
  bytesMax: number
  resolve: Resolve
}

/** A changed source. */
export type Fetched = {
  /** An open file with the body of a URL, which the caller closes; `null` for a path. */
  fd: number | null
  /** When a URL was sent, and whether its host is on the internet. */
  sent: { atMs: number; isPublic: boolean }
  validators: Validators
}

/** Compressions that an import recognises by content. */
const ENCODINGS = ['gzip', 'zstd']

const FAILURES: { [code: string]: string } = {
  ConnectionRefused: 'refuses connections',
  ECONNREFUSED: 'refuses connections',
  ConnectionClosed: 'broke off the answer',
  ECONNRESET: 'broke off the answer',
  FailedToOpenSocket: 'cannot be reached',
  ENETUNREACH: 'cannot be reached: there is no way to its address',
  EHOSTUNREACH: 'cannot be reached: there is no way to its address',
  ENOTFOUND: 'cannot be reached: its name is not known',
  EAI_AGAIN: 'cannot be reached: no server of names answers (does DNS work?)',
  EPROTO: 'does not speak TLS at this port: is it an http:// URL?',
  ...Object.fromEntries(
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE']
      .concat('UNABLE_TO_GET_ISSUER_CERT', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY')
      .map(code => [code, 'has a certificate of an authority that this system does not know']),
  ),
  CERT_HAS_EXPIRED: 'has a certificate that is expired',
  CERT_NOT_YET_VALID: 'has a certificate that is not valid yet: is the clock right?',
  ERR_TLS_CERT_ALTNAME_INVALID: 'has a certificate of another name',
}

/** A failure of `fetch` as a sentence without the URL. */
function toFailure(error: unknown, signal: AbortSignal): FetchFailure {
  if (error instanceof FetchFailure) return error
  if (error instanceof CommandError) return new FetchFailure(error.message) // of a header file
  if (signal.aborted) return new FetchFailure(reasonOf(signal.reason))
  const code = codeOf(error)
  const reason = systemReasonOf(error) ?? (code || 'the answer is broken')
  return new FetchFailure(FAILURES[code] ?? `cannot be fetched (${reason})`)
}

/** Headers of a request, those of the operator last. */
function headersOf(
  userAgent: string,
  known: Validators | null,
  own: readonly (readonly [name: string, value: string])[],
): Headers {
  const headers = new Headers({ accept: '*/*', 'user-agent': userAgent })
  for (const [name, value] of own) headers.set(name, value)
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
  if (to !== null && /^https?:$/.test(to.protocol)) return to
  throw new FetchFailure('redirects to something that is no web page')
}

/** Resolves a host name to canonical addresses; to none if the name is unknown. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

/** The addresses that the system knows, IPv4 first. */
export async function resolveBySystem(hostname: string): Promise<readonly string[]> {
  const found = await lookup(hostname, { all: true, order: 'ipv4first' }).catch(() => [])
  return found.map(({ address }) => canonicalIp(address) ?? address)
}

/**
 * A URL and the addresses to connect to; with none, `fetch` resolves the name. Resolving a checked name again
 * could give another address.
 */
type Target = { url: URL; addresses: readonly string[] }

async function targetOf(url: URL, resolve: Resolve): Promise<Target> {
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const address = canonicalIp(hostname)
  return { url, addresses: address === null ? await resolve(hostname) : [address] }
}

const isInside = ({ addresses }: Target): boolean =>
  addresses.length > 0 && addresses.every(isInternal)

/** @throws FetchFailure when a redirect gives TLS up, or leads from the internet into this machine or its network. */
export function refuseRedirect(from: Target, to: Target): void {
  if (from.url.protocol === 'https:' && to.url.protocol === 'http:') {
    throw new FetchFailure('redirects from https to http')
  }
  if (to.addresses.length === 0) throw new FetchFailure('redirects to a name that is not known')
  if (!isInside(from) && to.addresses.some(isInternal)) {
    throw new FetchFailure('redirects to a loopback, private or link-local address')
  }
}

/** Sends a request to the first address that can be reached. */
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
  // The operator named it, and HTTP_PROXY needs the name.
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
    // Only the origin that the operator named gets secrets and validators.
    if (to.origin !== target.url.origin) headers = headersOf(userAgent, null, [])
    const next = await orAborted(targetOf(to, resolve), signal)
    refuseRedirect(target, next)
    target = next
  }
}

/** Milliseconds that a `Retry-After` asks for: seconds or an HTTP date; `null` without one. */
export function retryAfterMs(value: string | null, nowMs: number): number | null {
  const text = value?.trim() ?? ''
  if (/^\d{1,15}$/.test(text)) return Number(text) * SECOND_MS
  const atMs = /^[a-z]{3,9},/i.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}

/** @throws FetchFailure unless the status is 200 and the compression is one that was offered. */
function refuseUnusable({ status, headers }: Response, nowMs: number): void {
  if (status !== 200) {
    const wait = retryAfterMs(headers.get('retry-after'), nowMs)
    const pause = wait === null ? '' : `, and asks to wait ${Math.ceil(wait / SECOND_MS)} s`
    throw new FetchFailure(`answers with status ${status}${pause}`, wait)
  }
  const encoding = (headers.get('content-encoding') ?? 'identity').trim().toLowerCase()
  if (['', 'identity', ...ENCODINGS].includes(encoding.replace(/^x-/, ''))) return
  throw new FetchFailure('answers in a compression that was not asked for (gzip and zstd are read)')
}

const tooLarge = (bytesMax: number): string => `is larger than ${bytesMax / 2 ** 20} MiB`

/** Writes the body to an open file; returns its digest. */
async function save(response: Response, fd: number, bytesMax: number): Promise<string> {
  const hasher = new Bun.CryptoHasher('sha256')
  const { headers, body } = response
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new FetchFailure(tooLarge(bytesMax))
    // Between slices, the server answers requests: a chunk may have megabytes.
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      const slice = chunk.subarray(at, at + SLICE_BYTES)
      hasher.update(slice)
      writeFileSync(fd, slice)
      await nextTurn()
    }
  }
  const announced = headers.get('content-length')
  if (announced !== null && !headers.has('transfer-encoding') && Number(announced) !== bytes) {
    throw new FetchFailure(`broke off after ${bytes} of ${announced} bytes`)
  }
  return hasher.digest('hex')
}

/** An entry that is gone: a broken link, or a file that was removed meanwhile. */
function nullIfMissing(error: unknown): null {
  if (['ENOENT', 'ELOOP'].includes(codeOf(error))) return null
  throw error
}

/** Why an entry of a directory is skipped. */
export const notRegular = (file: string): string => `${file} is not a regular file, and is skipped`

/**
 * The files of a path: the file itself, or the files of the directory by name, without hidden ones. `skipped` are
 * other entries, such as named pipes. @throws Error
 */
export async function filesOf(path: string) {
  const itself = await stat(path)
  if (!itself.isDirectory()) {
    requireRegular(itself)
    return { files: [{ file: path, found: itself }], skipped: [] }
  }
  const names = (await readdir(path)).filter(name => !name.startsWith('.')).sort()
  if (names.length > FILES_MAX) {
    throw new FetchFailure(`is a directory of more than ${FILES_MAX} files`)
  }
  const files: { file: string; found: Stats }[] = []
  const skipped: string[] = []
  for (const name of names) {
    const file = join(path, name)
    const found = await stat(file).catch(nullIfMissing)
    if (found?.isFile()) files.push({ file, found })
    else if (!found?.isDirectory()) skipped.push(file)
  }
  return { files, skipped }
}

/** Examines a path. Names, sizes and times of change show whether it is unchanged. */
async function fetchPath(
  { source }: Feed,
  known: Validators | null,
  { bytesMax, clock }: FetchContext,
  signal: AbortSignal,
): Promise<Fetched | null> {
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
    if (digest === known?.digest) return null
    const sent = { atMs: clock(), isPublic: false }
    return { fd: null, sent, validators: { etag: '', lastModified: '', digest } }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof FetchFailure) throw error
    throw new FetchFailure(`cannot be read (${reasonOf(error)})`)
  }
}

/** The headers of a header file. @throws CommandError when it cannot be read, or is none. */
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
    refuseUnusable(response, nowMs)
    fd = openUnnamed(dir)
    const digest = await save(response, fd, bytesMax)
    if (digest === known?.digest) return null
    const etag = headers.get('etag') ?? ''
    const said = headers.get('last-modified') ?? ''
    // A file may change twice within the second of its Last-Modified.
    const atMs = Date.parse(headers.get('date') ?? '') || nowMs
    const isOver = !(atMs - Date.parse(said) < SECOND_MS)
    const validators = { etag, lastModified: isOver ? said : '', digest }
    const fetched = { fd, sent: { atMs, isPublic }, validators }
    fd = null // the caller closes it
    return fetched
  } catch (error) {
    throw toFailure(error, outer)
  } finally {
    if (fd !== null) closeSync(fd)
    controller.abort() // the rest of a body
  }
}

/**
 * Fetches the source of a feed; `null` if it is unchanged. `known` are the validators of the last import, `null` to
 * import in any case. @throws FetchFailure.
 */
export const fetchFeed = (
  feed: Feed,
  known: Validators | null,
  context: FetchContext,
  signal: AbortSignal,
): Promise<Fetched | null> =>
  (feed.kind === 'url' ? fetchUrl : fetchPath)(feed, known, context, signal)
