/**
 * Owns reading a tar archive (POSIX ustar, as `tar.ts` and GNU tar write it) of a few files of any
 * size in constant memory. Knows nothing of what the files hold.
 */
import { open } from 'node:fs/promises'
import { BLOCK_BYTES, CHECKSUM_AT, createSum, NUMBER_FIELDS, SUMS, sumLine } from './tar.ts'

/** The archive is not what it should be; the message continues a sentence: `is truncated`. */
export class ArchiveError extends Error {}

const NO_ARCHIVE = 'is not a tar archive, which is what proxylist backup writes'

type Header = { name: string; kind: string; size: number }

/** How compressed files begin. */
const COMPRESSED: readonly (readonly [name: string, start: readonly number[]])[] = [
  ['gzip', [0x1f, 0x8b]],
  ['zstd', [0x28, 0xb5, 0x2f, 0xfd]],
  ['xz', [0xfd, 0x37, 0x7a, 0x58]],
  ['bzip2', [0x42, 0x5a, 0x68]],
]

const textAt = (header: Buffer, at: number, length: number): string =>
  header.toString('utf8', at, at + length).replace(/\0.*$/s, '')

/** A number in octal digits, or binary where its first bit is set (base-256, as GNU tar's). */
function numberAt(header: Buffer, [at, length]: readonly [number, number]): number {
  if ((header[at] ?? 0) < 0x80) return Number.parseInt(textAt(header, at, length).trim() || '0', 8)
  return Number(header.readBigUInt64BE(at + length - 8))
}

function isChecksumRight(header: Buffer): boolean {
  const sum = header.reduce(
    (total, byte, at) => total + (at >= CHECKSUM_AT && at < CHECKSUM_AT + 8 ? 0x20 : byte),
    0,
  )
  return numberAt(header, [CHECKSUM_AT, 8]) === sum
}

/** @throws ArchiveError for a block that is not a header. */
function readHeader(block: Buffer, isFirst: boolean): Header {
  if (!isChecksumRight(block)) {
    const [form] = COMPRESSED.find(([, start]) => start.every((byte, i) => block[i] === byte)) ?? []
    if (isFirst && form) throw new ArchiveError(`is compressed with ${form}; decompress it first`)
    throw new ArchiveError(isFirst ? NO_ARCHIVE : 'is damaged')
  }
  const prefix = textAt(block, 345, 155)
  const name = [...(prefix === '' ? [] : [prefix]), textAt(block, 0, 100)].join('/')
  const size = numberAt(block, NUMBER_FIELDS.size)
  if (!Number.isSafeInteger(size) || size < 0) throw new ArchiveError('is damaged')
  return { name: name.replace(/^\.\//, ''), kind: textAt(block, 156, 1) || '0', size }
}

/** Reads from chunks of any size. */
function createReader(source: AsyncIterable<Uint8Array>) {
  const chunks = source[Symbol.asyncIterator]()
  let rest: Uint8Array = new Uint8Array()
  /** The next bytes, 1 to `most`; none at the end. */
  async function some(most: number): Promise<Uint8Array> {
    while (rest.length === 0) {
      const next = await chunks.next()
      if (next.done) return rest
      rest = next.value
    }
    const taken = rest.subarray(0, most)
    rest = rest.subarray(taken.length)
    return taken
  }
  return {
    some,
    /** The next block; shorter at the end. */
    async block(): Promise<Buffer> {
      const parts: Uint8Array[] = []
      let missing = BLOCK_BYTES
      while (missing > 0) {
        const part = await some(missing)
        if (part.length === 0) break
        parts.push(part)
        missing -= part.length
      }
      return Buffer.concat(parts)
    },
  }
}
type Reader = ReturnType<typeof createReader>

/** Passes the content of an entry to `write`, and reads the padding after it. */
async function readContent(
  reader: Reader,
  { name, size }: Header,
  write: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  const paddedBytes = Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES
  for (let at = 0; at < paddedBytes; ) {
    const chunk = await reader.some(paddedBytes - at)
    if (chunk.length === 0) throw new ArchiveError(`is truncated in the middle of ${name}`)
    if (at < size) await write(chunk.subarray(0, size - at))
    at += chunk.length
  }
}

/** Entries that only describe others, or folders. */
const SKIPPED = new Set(['5', 'x', 'g'])

/** The checksums of a few files are shorter, in bytes. */
const SUMS_BYTES_MAX = 4096

/**
 * Extracts the files of an archive, each to the path that `placeOf` returns for its name; the files
 * must not exist, and become readable by their owner only. `read` is called with the number of bytes
 * of content read; an error that it throws ends the reading. Returns the names of the files, which
 * match their checksums if the archive has them.
 * @throws ArchiveError when it is truncated, damaged, no archive, or holds anything else: what
 *   `placeOf` returns no path for, or the same name twice.
 */
export async function extractTar(
  source: AsyncIterable<Uint8Array>,
  placeOf: (name: string) => string | null,
  read: (bytes: number) => void,
): Promise<string[]> {
  const reader = createReader(source)
  const names: string[] = []
  let found = ''
  let expected: string | null = null
  for await (const header of entriesOf(reader)) {
    const { name, kind } = header
    if (name === SUMS) {
      expected = await readText(reader, header)
      continue
    }
    const to = kind === '0' && !names.includes(name) ? placeOf(name) : null
    if (to === null) throw new ArchiveError(`is not a backup of proxylist: it holds '${name}'`)
    found += await extractFile(reader, header, to, read)
    names.push(name)
  }
  // An archive of an earlier version, or one that tar has made, has none.
  if (expected !== null && expected !== found) throw new ArchiveError('is damaged')
  while ((await reader.some(BLOCK_BYTES)).length > 0); // what writes a pipe is to end well
  return names
}

/** The headers of entries; the content of each is to be read before the next one. */
async function* entriesOf(reader: Reader): AsyncGenerator<Header> {
  for (let isFirst = true; ; isFirst = false) {
    const header = await nextHeader(reader, isFirst)
    if (header === null) return
    if (SKIPPED.has(header.kind)) await readContent(reader, header, async () => {})
    else yield header
  }
}

/** The next header; `null` at the end of the archive, which is a block of zeros. */
async function nextHeader(reader: Reader, isFirst: boolean): Promise<Header | null> {
  const block = await reader.block()
  if (block.length < BLOCK_BYTES) {
    if (!isFirst) throw new ArchiveError('is truncated')
    throw new ArchiveError(block.length === 0 ? 'is empty' : NO_ARCHIVE)
  }
  if (block.some(byte => byte !== 0)) return readHeader(block, isFirst)
  if (isFirst) throw new ArchiveError('is empty')
  return null
}

/** The text of a short entry. */
async function readText(reader: Reader, header: Header): Promise<string> {
  if (header.size > SUMS_BYTES_MAX) throw new ArchiveError('is damaged')
  let text = ''
  await readContent(reader, header, async chunk => {
    text += Buffer.from(chunk).toString()
  })
  return text
}

/** Extracts an entry; returns the line of its checksum. */
async function extractFile(
  reader: Reader,
  header: Header,
  to: string,
  read: (bytes: number) => void,
): Promise<string> {
  const sum = createSum()
  const out = await open(to, 'wx', 0o600)
  try {
    await readContent(reader, header, async chunk => {
      sum.update(chunk)
      await out.writeFile(chunk)
      read(chunk.length)
    })
    await out.sync()
  } finally {
    await out.close()
  }
  return sumLine(sum, header.name)
}
