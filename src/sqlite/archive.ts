/**
 * The tar archive of a backup: a few files of any size in constant memory, and their checksums. Uses modern-tar,
 * because Bun builds archives in memory, and tar-stream 3.2.2 writes wrong times after 2038.
 */
import { open, stat } from 'node:fs/promises'
import { createTarDecoder, createTarPacker } from 'modern-tar'
import { messageOf } from '../lib/errors.ts'

/** The archive is not usable; the message continues a sentence: `is truncated`. */
export class ArchiveError extends Error {}

const NO_ARCHIVE = 'is damaged, or no tar archive of proxylist backup'

/** The last file of an archive: checksums of the others, in the format of sha256sum(1). */
const SUMS = 'SHA256SUMS'
/** More than the checksums of a few files take. */
const SUMS_BYTES_MAX = 4096

const createSum = (): Bun.CryptoHasher => new Bun.CryptoHasher('sha256')
const sumLine = (sum: Bun.CryptoHasher, name: string): string => `${sum.digest('hex')}  ${name}\n`

/** Takes the next bytes of an archive. */
export type WriteChunk = (chunk: Uint8Array) => Promise<void>

/**
 * Writes an archive of files and their checksums, with owner 0 and mode 0600; returns its size in bytes. `wrote` is
 * called with the number of bytes written; an error that it throws ends the writing.
 */
export async function writeArchive(
  write: WriteChunk,
  files: readonly { file: string; name: string }[],
  nowMs: number,
  wrote: (bytes: number) => void,
): Promise<number> {
  const { readable, controller } = createTarPacker()
  const add = (name: string, size: number): WritableStream<Uint8Array> =>
    controller.add({ name, size, mode: 0o600, uid: 0, gid: 0, mtime: new Date(nowMs) })

  async function pack(): Promise<void> {
    let sums = ''
    for (const { file, name } of files) {
      const sum = createSum()
      const entry = add(name, (await stat(file)).size).getWriter()
      for await (const chunk of Bun.file(file).stream()) {
        sum.update(chunk)
        await entry.write(chunk)
      }
      await entry.close()
      sums += sumLine(sum, name)
    }
    await new Response(sums).body?.pipeTo(add(SUMS, Buffer.byteLength(sums)))
    controller.finalize()
  }

  const packing = pack().catch(controller.error)
  let bytes = 0
  for await (const chunk of readable) {
    await write(chunk)
    bytes += chunk.length
    wrote(chunk.length)
  }
  await packing
  return bytes
}

/** The entries of an archive. @throws ArchiveError, and errors of the source unchanged. */
async function* entriesOf(source: AsyncIterable<Uint8Array>) {
  let sourceFailure: unknown = null
  const chunks = source[Symbol.asyncIterator]()
  const bytes = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await chunks.next().catch(error => {
        sourceFailure = error
        throw error
      })
      if (next.done) controller.close()
      else controller.enqueue(next.value)
    },
  })
  /** Turns errors of the decoder into sentences; errors of the reader are not changed. */
  async function* explained<T>(stream: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* stream
    } catch (error) {
      if (sourceFailure !== null) throw sourceFailure
      const isTruncated = /truncated/.test(messageOf(error))
      throw new ArchiveError(isTruncated ? 'is truncated' : NO_ARCHIVE)
    }
  }
  for await (const entry of explained(bytes.pipeThrough(createTarDecoder({ strict: true })))) {
    yield { ...entry.header, body: explained(entry.body) }
  }
}

/** Writes a body into a new file; returns its checksum. */
async function extractFile(
  body: AsyncIterable<Uint8Array>,
  to: string,
  read: (bytes: number) => void,
): Promise<Bun.CryptoHasher> {
  const sum = createSum()
  const out = await open(to, 'wx', 0o600)
  try {
    for await (const chunk of body) {
      sum.update(chunk)
      await out.writeFile(chunk)
      read(chunk.length)
    }
    await out.sync()
  } finally {
    await out.close()
  }
  return sum
}

/**
 * Extracts the files of an archive, each to a new file (mode 0600) at the path that `pathOf` returns for its name.
 * `read` is called with the number of bytes read; an error that it throws ends the reading. Returns the
 * names of the files. Checks them against the checksums, except in an archive without any.
 * @throws ArchiveError when it is truncated, damaged or no archive, holds a file without a path, or a name twice.
 */
export async function extractArchive(
  source: AsyncIterable<Uint8Array>,
  pathOf: (name: string) => string | null,
  read: (bytes: number) => void,
): Promise<string[]> {
  const names: string[] = []
  let found = ''
  let expected: string | null = null
  for await (const { name, type, size, body } of entriesOf(source)) {
    if (name === SUMS) {
      if (size > SUMS_BYTES_MAX) throw new ArchiveError('is damaged')
      expected = (await Array.fromAsync(body, chunk => Buffer.from(chunk))).join('')
      continue
    }
    const to = type === 'file' && !names.includes(name) ? pathOf(name) : null
    if (to === null) throw new ArchiveError(`is not a backup of proxylist: it holds '${name}'`)
    found += sumLine(await extractFile(body, to, read), name)
    names.push(name)
  }
  // An archive made by tar has no checksums.
  if (expected !== null && expected !== found) throw new ArchiveError('is damaged')
  return names
}
