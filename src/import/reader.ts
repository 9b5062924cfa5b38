/**
 * What the readers of all formats stand on: the text of a file, out of its compression and encoding, which
 * are recognised by content; its lines; where rows go; and the error for a file that cannot be used.
 */
import { Readable } from 'node:stream'
import { CommandError, reasonOf } from '../lib/errors.ts'
import type { Names } from './names.ts'
import type { Context, RawRow } from './row.ts'

/** Receives rows in file order. Lines are counted from 1. */
export type RowSink = {
  /** A row, and what its list says of all rows in it. */
  row(line: number, row: RawRow, context?: Context): void
  /** A record that cannot be used, and why. */
  bad(line: number, field: string, reason: string): void
}

/** A file as decoded chunks, which may end anywhere. */
export type Chunks = AsyncIterable<string>

/** Finds the rows of one format. @throws UnusableFile when the text is not of that format. */
export type Reader = (chunks: Chunks, sink: RowSink, names: Names) => Promise<void>

/** The file as a whole cannot be used. The message says why, without the file's name. */
export class UnusableFile extends Error {}
/** It is no list: a directory of lists may hold such files. */
export class NoList extends UnusableFile {}

/** The decoder writes this for bytes that are not UTF-8. */
export const BROKEN = '\ufffd'

/** Why the text of a row cannot be used; `null` when it can. */
export const brokenText = (text: string): string | null =>
  text.includes(BROKEN)
    ? 'has a byte that is not UTF-8; save the file as UTF-8'
    : text.includes('\0')
      ? 'has a NUL character'
      : null

/** Longest line, and longest JSON record, in characters. */
export const RECORD_LENGTH_MAX = 1024 * 1024
export const TOO_LONG = `is longer than ${RECORD_LENGTH_MAX / 2 ** 20} MiB`

/** The value of a JSON document, or `undefined` when it is not valid JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** How many characters of a file are needed to recognise its format. */
export const HEAD_LENGTH = 64 * 1024

/** The first items of a source, until they are enough or all of it, and all items, these included. */
async function startOf<T>(source: AsyncIterable<T>, isEnough: (first: readonly T[]) => boolean) {
  const iterator = source[Symbol.asyncIterator]()
  const first: T[] = []
  let isComplete = false
  while (!isComplete && !isEnough(first)) {
    const { value, done } = await iterator.next()
    if (done) isComplete = true
    else first.push(value)
  }
  async function* all(): AsyncIterable<T> {
    yield* first
    if (!isComplete) yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return { first, isComplete, all: all() }
}

const lengthOf = (parts: readonly { length: number }[]): number =>
  parts.reduce((sum, { length }) => sum + length, 0)

/** The beginning of a text, whether that is all of it, and the complete text, head included. */
export async function peek(chunks: Chunks) {
  const { first, isComplete, all } = await startOf(chunks, each => lengthOf(each) >= HEAD_LENGTH)
  return { head: first.join(''), isComplete, all }
}

/**
 * Calls `take` with every line, its number, counted from 1, and why it cannot be used, `null` when it can.
 * The last line needs no newline. Of one that is longer than `RECORD_LENGTH_MAX` only the beginning is given.
 */
export async function eachLine(
  chunks: Chunks,
  take: (line: string, number: number, broken: string | null) => void,
): Promise<void> {
  let rest = ''
  let number = 0
  /** Whether the text is within a line that is too long, and was given. */
  let isTooLong = false
  for await (const chunk of chunks) {
    const text = rest + chunk
    const isBroken = brokenText(text) !== null
    const lines = text.split('\n')
    rest = lines.pop() ?? ''
    if (isTooLong) isTooLong = lines.shift() === undefined
    for (const line of lines) take(line, ++number, isBroken ? brokenText(line) : null)
    if (!isTooLong && rest.length > RECORD_LENGTH_MAX) {
      take(rest, ++number, TOO_LONG)
      isTooLong = true
    }
    if (isTooLong) rest = ''
  }
  if (rest !== '') take(rest, ++number, brokenText(rest))
}

type Bytes = AsyncIterable<Uint8Array>

/**
 * Text is read in chunks of this many bytes. What a chunk becomes (lines, cells, objects) then
 * stays in the cache of the processor: CSV in chunks of 512 KB takes 1.7 times as long.
 */
const CHUNK_BYTES = 16 * 1024

const COMPRESSED = [
  { name: 'gzip', magic: [0x1f, 0x8b] },
  { name: 'zstd', magic: [0x28, 0xb5, 0x2f, 0xfd] },
] as const

const UNSUPPORTED: readonly (readonly [magic: readonly number[], sentence: string])[] = [
  [[0x50, 0x4b, 0x03, 0x04], 'is a spreadsheet (xlsx, ods) or a zip archive; save it as CSV'],
  [[0xd0, 0xcf, 0x11, 0xe0], 'is a spreadsheet (xls); save it as CSV'],
  [[0x25, 0x50, 0x44, 0x46], 'is a PDF; get the list itself, as TXT, CSV or JSON'],
  [[0x42, 0x5a, 0x68], 'is compressed with bzip2; gzip and zstd can be read'],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a], 'is compressed with xz; gzip and zstd can be read'],
  [[0x37, 0x7a, 0xbc, 0xaf], 'is a 7z archive; unpack it'],
  // What is compressed once does not come here.
  ...COMPRESSED.map(({ magic }) => [magic, 'is compressed twice; decompress it once'] as const),
]

const UTF_16 = [
  { label: 'utf-16le', mark: [0xff, 0xfe] },
  { label: 'utf-16be', mark: [0xfe, 0xff] },
] as const

const begins = (bytes: Uint8Array, magic: readonly number[]): boolean =>
  magic.every((byte, at) => bytes[at] === byte)

/** How many bytes the tables above need. */
const MAGIC_BYTES = 6

/** The first bytes, and all bytes, these included. */
async function peekBytes(bytes: Bytes) {
  const { first, all } = await startOf(bytes, each => lengthOf(each) >= MAGIC_BYTES)
  return { start: Buffer.concat(first.map(chunk => chunk.subarray(0, MAGIC_BYTES))), all }
}

/** The bytes of a source. @throws UnusableFile when they cannot be read. */
async function* readable(bytes: Bytes): Bytes {
  try {
    yield* bytes
  } catch (error) {
    if (error instanceof UnusableFile || error instanceof CommandError) throw error
    throw new UnusableFile(`cannot be read (${reasonOf(error)})`)
  }
}

async function* decompressed(bytes: Bytes, name: 'gzip' | 'zstd', bytesMax: number): Bytes {
  let left = bytesMax
  // Unlike those of node:zlib, this one notices zstd data that is truncated.
  const decompression = new DecompressionStream(name)
  try {
    for await (const chunk of Readable.toWeb(Readable.from(bytes)).pipeThrough(decompression)) {
      left -= chunk.length
      if (left < 0) throw new UnusableFile(`is larger than ${bytesMax / 2 ** 20} MiB decompressed`)
      yield chunk
    }
  } catch (error) {
    if (error instanceof UnusableFile || error instanceof CommandError) throw error
    throw new UnusableFile(`is damaged or truncated ${name} data`)
  }
}

/**
 * The text of a file in chunks.
 * @throws UnusableFile when it is no text, cannot be read, or has more than `bytesMax` bytes
 *   decompressed.
 */
export async function* textOf(source: Bytes, bytesMax = Infinity): Chunks {
  const { start, all } = await peekBytes(readable(source))
  const compression = COMPRESSED.find(({ magic }) => begins(start, magic))
  if (compression === undefined) return yield* decoded(start, all)
  const inner = await peekBytes(decompressed(all, compression.name, bytesMax))
  yield* decoded(inner.start, inner.all)
}

async function* decoded(start: Uint8Array, bytes: Bytes): Chunks {
  const [, sentence] = UNSUPPORTED.find(([magic]) => begins(start, magic)) ?? []
  if (sentence !== undefined) throw new NoList(sentence)
  const utf16 = UTF_16.find(({ mark }) => begins(start, mark))
  const decoder = new TextDecoder(utf16?.label ?? 'utf-8', { fatal: utf16 !== undefined })
  try {
    for await (const chunk of bytes) {
      for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
        yield decoder.decode(chunk.subarray(at, at + CHUNK_BYTES), { stream: true })
      }
    }
    yield decoder.decode()
  } catch (error) {
    // A lost byte shifts all that follow.
    if (!(error instanceof TypeError)) throw error
    throw new UnusableFile('is not UTF-16 text; save it as UTF-8')
  }
}

/** A text whose lines end in carriage returns only, with line feeds instead. */
export async function* withLineFeeds(chunks: Chunks): Chunks {
  const { head, all } = await peek(chunks)
  const isConverted = head.includes('\r') && !head.includes('\n')
  for await (const chunk of all) yield isConverted ? chunk.replaceAll('\r', '\n') : chunk
}
