/**
 * Owns opening the source of a feed: files, directories and URLs become sources of an import,
 * unless they hold what was imported last.
 */
import { closeSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Source, sourceOfFile } from '../import/import.ts'
import { CommandError, reasonOf, unreadable } from '../lib/errors.ts'
import { download, FetchFailure, tooLarge, type Validators } from './download.ts'
import { type Feed, parseHeaders } from './feed.ts'

/** Most bytes of a source, as it is sent and decompressed (contract G1). */
export const BYTES_MAX = 2 ** 30
/** Most files of a directory. */
const FILES_MAX = 10_000

export type Opened =
  | { kind: 'unchanged' }
  /** `close` is to be called after the import. */
  | { kind: 'changed'; sources: Source[]; validators: Validators; close(): void }

export type OpenContext = {
  /** The directory of temporary files. */
  dir: string
  userAgent: string
  nowMs: number
  signal: AbortSignal
  /** Most bytes of a source, as it is sent and decompressed. */
  bytesMax: number
}

/** The files of a path: itself, or those in the directory, hidden ones left out, by name. */
function filesOf(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path]
  const entries = readdirSync(path, { withFileTypes: true })
    .filter(entry => !entry.name.startsWith('.') && !entry.isDirectory())
    .map(({ name }) => join(path, name))
  if (entries.length <= FILES_MAX) return entries.sort()
  throw new FetchFailure(`is a directory of more than ${FILES_MAX} files`)
}

/** Opens a path. What it holds is known by names, sizes and times of change. */
function openPath({ source }: Feed, known: Validators | null, bytesMax: number): Opened {
  try {
    const hasher = new Bun.CryptoHasher('sha256')
    let bytes = 0
    const files = filesOf(source).map(file => ({ file, found: statSync(file) }))
    for (const { file, found } of files) {
      const { size, mtimeMs, ino } = found
      bytes += size
      hasher.update(`${file}\0${size}\0${mtimeMs}\0${ino}\0`)
    }
    if (bytes > bytesMax) throw new FetchFailure(tooLarge(bytesMax))
    const digest = hasher.digest('hex')
    if (digest === known?.digest) return { kind: 'unchanged' }
    const sources = files.map(({ file, found }) => sourceOfFile(file, found))
    const validators = { etag: '', lastModified: '', digest }
    return { kind: 'changed', sources, validators, close() {} }
  } catch (error) {
    if (error instanceof FetchFailure) throw error
    throw new FetchFailure(`cannot be read (${reasonOf(error)})`)
  }
}

/** The headers of a header file. @throws CommandError when it cannot be read, or is none. */
export function readHeaders(file: string): [name: string, value: string][] {
  try {
    return parseHeaders(readFileSync(file, 'utf8'), file)
  } catch (error) {
    throw error instanceof CommandError ? error : unreadable(`the header file ${file}`, error)
  }
}

/** The headers of a feed. @throws FetchFailure when its header file is not right. */
function headersOf({ headersFile }: Feed): [name: string, value: string][] {
  try {
    return headersFile === null ? [] : readHeaders(headersFile)
  } catch (error) {
    throw new FetchFailure(reasonOf(error))
  }
}

const CHUNK_BYTES = 64 * 1024

/**
 * The bytes of an open file. A stream of `node:fs` that is ended early would close the descriptor, too,
 * later: by then its number may be that of another file or a connection.
 */
async function* bytesOf(fd: number): AsyncIterable<Uint8Array> {
  for (let at = 0; ; ) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    const length = readSync(fd, chunk, 0, CHUNK_BYTES, at)
    if (length === 0) return
    yield chunk.subarray(0, length)
    at += length
  }
}

async function openUrl(
  feed: Feed,
  known: Validators | null,
  context: OpenContext,
): Promise<Opened> {
  const { dir, userAgent, ...rest } = context
  const file = join(dir, `feed-${process.pid}-${feed.id}.tmp`)
  const request = { url: feed.source, headers: headersOf(feed), userAgent, known, file }
  const found = await download({ ...request, ...rest })
  if (found.kind === 'unchanged') return found
  return {
    kind: 'changed',
    sources: [{ name: feed.shown, bytes: bytesOf(found.fd) }],
    validators: found.validators,
    close: () => closeSync(found.fd),
  }
}

/**
 * Opens the source of a feed. `known` is what was imported last, `null` to import in any case.
 * @throws FetchFailure when it cannot be fetched.
 */
export async function openFeed(
  feed: Feed,
  known: Validators | null,
  context: OpenContext,
): Promise<Opened> {
  return feed.kind === 'url'
    ? openUrl(feed, known, context)
    : openPath(feed, known, context.bytesMax)
}
