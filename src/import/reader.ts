/** The base of all readers: decompresses and decodes a file, splits it into lines, and defines rows. */
import { Readable } from 'node:stream'
import { CommandError, reasonOf } from '../lib/errors.ts'
import type { Anon } from '../proxies/proxy.ts'
import type { Names } from './names.ts'

/** A row's members: strings from text and tables, any JSON value from JSON. */
export type RawRow = { readonly [member: string]: unknown }

export const isRecord = (value: unknown): value is RawRow =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Values for all rows of a list, from its envelope or its key. */
export type Context = {
  types?: number | undefined
  country?: string | undefined
  anon?: Anon | '' | undefined
  /** Unix seconds. */
  checked_at?: number | undefined
}

/** Receives rows in file order. Lines are counted from 1. */
export type RowSink = {
  row(line: number, row: RawRow, context?: Context): void
  bad(line: number, field: string, reason: string): void
}

/** The text of a file, in chunks that end anywhere. */
export type Chunks = AsyncIterable<string>

/** Finds the rows of one format. @throws UnusableFile when the text is not of that format. */
export type Reader = (chunks: Chunks, sink: RowSink, names: Names) => Promise<void>

/** The whole file cannot be used. The message says why, without the name of the file. */
export class UnusableFile extends Error {}
/** The file is not a list. A directory of lists may hold such files. */
export class NoList extends UnusableFile {}

/** The decoder writes this for bytes that are not UTF-8. */
export const BROKEN = '\ufffd'

/** Why the text of a row cannot be used; `null` if it can. */
export const brokenText = (text: string): string | null =>
  text.includes(BROKEN)
    ? 'has a byte that is not UTF-8; save the file as UTF-8'
    : text.includes('\0')
      ? 'has a NUL character'
      : null

/** The longest line, and the longest JSON record, in characters. */
export const RECORD_LENGTH_MAX = 1024 * 1024
export const TOO_LONG = `is longer than ${RECORD_LENGTH_MAX / 2 ** 20} MiB`

/** The value of a JSON document; `undefined` if it is not valid JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The format of a file is recognised by this many characters. */
export const HEAD_LENGTH = 64 * 1024

/** Reads the first items, until they have `length` characters or bytes. `all` are all items, including the first. */
async function peek<T extends { length: number }>(source: AsyncIterable<T>, length: number) {
  const iterator = source[Symbol.asyncIterator]()
  const first: T[] = []
  let isComplete = false
  for (let read = 0; read < length && !isComplete; ) {
    const { value, done } = await iterator.next()
    if (done) isComplete = true
    else {
      first.push(value)
      read += value.length
    }
  }
  async function* all(): AsyncIterable<T> {
    yield* first
    if (!isComplete) yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return { first, isComplete, all: all() }
}

/** The beginning of a text, whether that is all of it, and the whole text. */
export async function headOf(chunks: Chunks) {
  const { first, isComplete, all } = await peek(chunks, HEAD_LENGTH)
  return { head: first.join(''), isComplete, all }
}

/** Calls `take` with every line, its number from 1, and why it cannot be used. A line that is too long is cut. */
export async function eachLine(
  chunks: Chunks,
  take: (line: string, number: number, broken: string | null) => void,
): Promise<void> {
  let rest = ''
  let number = 0
  /** Whether the text is inside a line that was cut. */
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

/** The bytes of one chunk of text, which fits the cache of a processor: 512 KB take 1.7 times as long. */
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
  ...COMPRESSED.map(({ magic }) => [magic, 'is compressed twice; decompress it once'] as const),
]

const UTF_16 = [
  { label: 'utf-16le', mark: [0xff, 0xfe] },
  { label: 'utf-16be', mark: [0xfe, 0xff] },
] as const

const MARK_BYTES = 6

async function peekBytes(bytes: Bytes) {
  const { first, all } = await peek(bytes, MARK_BYTES)
  const start = Buffer.concat(first.map(chunk => chunk.subarray(0, MARK_BYTES)))
  const startsWith = (mark: readonly number[]): boolean =>
    mark.every((byte, at) => start[at] === byte)
  return { startsWith, all }
}

/** Passes items on. @throws UnusableFile with this sentence when the source fails. */
async function* orUnusable<T>(
  items: AsyncIterable<T>,
  sentenceOf: (error: unknown) => string,
): AsyncIterable<T> {
  try {
    yield* items
  } catch (error) {
    if (error instanceof UnusableFile || error instanceof CommandError) throw error
    throw new UnusableFile(sentenceOf(error))
  }
}

async function* decompress(bytes: Bytes, name: 'gzip' | 'zstd', bytesMax: number): Bytes {
  let left = bytesMax
  // Unlike the streams of node:zlib, this one fails for truncated zstd data.
  const decompression = new DecompressionStream(name)
  for await (const chunk of Readable.toWeb(Readable.from(bytes)).pipeThrough(decompression)) {
    left -= chunk.length
    if (left < 0) throw new UnusableFile(`is larger than ${bytesMax / 2 ** 20} MiB decompressed`)
    yield chunk
  }
}

async function* decode(bytes: Bytes, decoder: TextDecoder): Chunks {
  for await (const chunk of bytes) {
    for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
      yield decoder.decode(chunk.subarray(at, at + CHUNK_BYTES), { stream: true })
    }
  }
  yield decoder.decode()
}

/** The text of a file. @throws UnusableFile if it cannot be read or has more than `bytesMax` bytes decompressed. */
export async function* textOf(source: Bytes, bytesMax = Infinity): Chunks {
  const sent = await peekBytes(orUnusable(source, error => `cannot be read (${reasonOf(error)})`))
  const { name } = COMPRESSED.find(({ magic }) => sent.startsWith(magic)) ?? {}
  const { startsWith, all } = name
    ? await peekBytes(
        orUnusable(
          decompress(sent.all, name, bytesMax),
          () => `is damaged or truncated ${name} data`,
        ),
      )
    : sent
  const [, sentence] = UNSUPPORTED.find(([magic]) => startsWith(magic)) ?? []
  if (sentence !== undefined) throw new NoList(sentence)
  const utf16 = UTF_16.find(({ mark }) => startsWith(mark))
  // A lost byte shifts all following characters of UTF-16.
  const decoder = new TextDecoder(utf16?.label ?? 'utf-8', { fatal: utf16 !== undefined })
  yield* orUnusable(decode(all, decoder), () => 'is not UTF-16 text; save it as UTF-8')
}
