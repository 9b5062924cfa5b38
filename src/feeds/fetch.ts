/**
 * Opens the source of a feed: files, directories and URLs become sources of an import, unless they hold
 * what was imported last. The only file that sends requests: conditional, bounded in bytes and redirects,
 * ended by a signal. Knows nothing of what the bytes mean, or of schedules.
 */

import { lookup } from 'node:dns/promises'
import { closeSync, type Stats, writeFileSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Source, sourceOfFile } from '../import/import.ts'
import { CommandError, codeOf, orAborted, reasonOf, systemReasonOf } from '../lib/errors.ts'
import { bytesOf, openUnnamed, readNamed, requireRegular } from '../lib/files.ts'
import { canonicalIp, isInternal } from '../lib/ip.ts'
import { SECOND_MS } from '../lib/time.ts'
import { type Feed, parseHeaders } from './feed.ts'
import type { Validators } from './store.ts'

/** Most bytes of a source, as it is sent and decompressed (contract G1). */
export const BYTES_MAX = 2 ** 30
const FILES_MAX = 10_000
const REDIRECTS_MAX = 5

/** Why there is nothing to import. Holds no secret; `retryAfterMs` is what the server asked for. */
export class FetchFailure extends Error {
  readonly retryAfterMs: number | null
  constructor(message: string, retryAfterMs: number | null = null) {
    super(message)
    this.retryAfterMs = retryAfterMs
  }
}

export type OpenContext = {
  dir: string
  userAgent: string
  nowMs: number
  signal: AbortSignal
  bytesMax: number
  resolve: Resolve
}

export type Opened =
  | { kind: 'unchanged' }
  /** `skipped` are entries of a directory that are no files; `close` is to be called after the import. */
  | {
      kind: 'changed'
      sources: Source[]
      skipped: readonly string[]
      validators: Validators
      close(): void
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

/** Finds the addresses of a host name or address, canonical; none of an unknown name. */
export type Resolve = (hostname: string) => Promise<readonly string[]>

/** The addresses that the system knows, IPv4 first. */
export async function resolveBySystem(hostname: string): Promise<readonly string[]> {
  const found = await lookup(hostname, { all: true, order: 'ipv4first' }).catch(() => [])
  return found.map(({ address }) => canonicalIp(address) ?? address)
}

/**
 * A URL to ask, and the addresses at which it is asked, by its name if there are none: a name that is resolved
 * again may have others by then.
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

/** Asks at the first address that can be reached. */
async function ask({ url, addresses }: Target, init: BunFetchRequestInit & { headers: Headers }) {
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
  { userAgent, resolve }: OpenContext,
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
  // The operator named it; a proxy may have to know the name, and to find addresses.
  const isPublic = !isInside(target)
  if (isPublic) target = { url, addresses: [] }
  for (let redirects = 0; ; redirects += 1) {
    const response = await ask(target, {
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
    // Only the origin that the operator named gets secrets, and may compare validators.
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

/** @throws FetchFailure unless the answer has content to import, and in a compression that was offered. */
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
    hasher.update(chunk)
    writeFileSync(fd, chunk)
  }
  const announced = headers.get('content-length')
  if (announced !== null && !headers.has('transfer-encoding') && Number(announced) !== bytes) {
    throw new FetchFailure(`broke off after ${bytes} of ${announced} bytes`)
  }
  return hasher.digest('hex')
}

/** An entry that leads nowhere: a link whose file is gone, or a file that was removed since. */
function nullIfMissing(error: unknown): null {
  if (['ENOENT', 'ELOOP'].includes(codeOf(error))) return null
  throw error
}

/** Why an entry of a directory is skipped. */
export const notRegular = (file: string): string => `${file} is not a regular file, and is skipped`

/**
 * The files of a path: itself, or those in the directory, hidden ones left out, by name; and what else,
 * such as a named pipe, is in the directory. @throws Error
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

/** Opens a path. What it holds is known by names, sizes and times of change. */
async function openPath(
  { source }: Feed,
  known: Validators | null,
  { bytesMax, signal }: OpenContext,
): Promise<Opened> {
  try {
    const hasher = new Bun.CryptoHasher('sha256')
    let bytes = 0
    const { files, skipped } = await orAborted(filesOf(source), signal)
    for (const { file, found } of files) {
      const { size, mtimeMs, ino } = found
      bytes += size
      hasher.update(`${file}\0${size}\0${mtimeMs}\0${ino}\0`)
    }
    if (bytes > bytesMax) throw new FetchFailure(tooLarge(bytesMax))
    const digest = hasher.digest('hex')
    if (digest === known?.digest) return { kind: 'unchanged' }
    const isDirectory = files[0]?.file !== source
    const sources = files.map(({ file, found }) => ({
      ...{ ...sourceOfFile(file, found), isOptional: isDirectory },
    }))
    const validators = { etag: '', lastModified: '', digest }
    return { kind: 'changed', sources, skipped, validators, close() {} }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof FetchFailure) throw error
    throw new FetchFailure(`cannot be read (${reasonOf(error)})`)
  }
}

/** The headers of a header file. @throws CommandError when it cannot be read, or is none. */
export const readHeaders = async (file: string): Promise<[name: string, value: string][]> =>
  parseHeaders(String(await readNamed(file, `the header file ${file}`)), file)

async function openUrl(
  feed: Feed,
  known: Validators | null,
  context: OpenContext,
): Promise<Opened> {
  const { dir, bytesMax, nowMs } = context
  const controller = new AbortController()
  const signal = AbortSignal.any([context.signal, controller.signal])
  let fd: number | null = null
  try {
    const { response, isPublic } = await follow(feed, known, context, signal)
    const { headers, status } = response
    if (status === 304 && (known?.etag || known?.lastModified)) return { kind: 'unchanged' }
    refuseUnusable(response, nowMs)
    fd = openUnnamed(dir)
    const digest = await save(response, fd, bytesMax)
    if (digest === known?.digest) return { kind: 'unchanged' }
    const kept = fd
    fd = null
    const etag = headers.get('etag') ?? ''
    const said = headers.get('last-modified') ?? ''
    // A file may change twice within the second of its Last-Modified.
    const sentAtMs = Date.parse(headers.get('date') ?? '') || nowMs
    const isOver = !(sentAtMs - Date.parse(said) < SECOND_MS)
    return {
      kind: 'changed',
      sources: [{ name: feed.shown, bytes: bytesOf(kept), atMs: sentAtMs, isPublic }],
      skipped: [],
      validators: { etag, lastModified: isOver ? said : '', digest },
      close: () => closeSync(kept),
    }
  } catch (error) {
    throw toFailure(error, context.signal)
  } finally {
    if (fd !== null) closeSync(fd)
    controller.abort()
  }
}

/**
 * Opens the source of a feed. `known` is what was imported last, `null` to import in any case.
 * @throws FetchFailure when it cannot be fetched.
 */
export const openFeed = async (
  feed: Feed,
  known: Validators | null,
  context: OpenContext,
): Promise<Opened> =>
  feed.kind === 'url' ? openUrl(feed, known, context) : openPath(feed, known, context)
