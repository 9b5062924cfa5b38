/**
 * The tar archive of a backup: a few files of any size in constant memory. Uses modern-tar, because Bun builds
 * archives in memory, and tar-stream 3.2.2 writes wrong times after 2038.
 */
import { open, stat } from 'node:fs/promises'
import { createTarDecoder, createTarPacker } from 'modern-tar'
import { messageOf } from '../lib/errors.ts'

/** The archive is not usable; the message continues a sentence: `is truncated`. */
export class ArchiveError extends Error {}

/** In archives of proxylist 0.1.0: checksums of the other files. */
const SUMS = 'SHA256SUMS'

export type WriteChunk = (chunk: Uint8Array) => Promise<void>

/**
 * Writes an archive of files, with owner 0 and mode 0600; returns its size in bytes. `wrote` is called with the number
 * of bytes written; an error that it throws ends the writing.
 */
export async function writeArchive(
  write: WriteChunk,
  files: readonly { file: string; name: string }[],
  nowMs: number,
  wrote: (bytes: number) => void,
): Promise<number> {
  const { readable, controller } = createTarPacker()
  async function pack(): Promise<void> {
    for (const { file, name } of files) {
      const { size } = await stat(file)
      const header = { name, size, mode: 0o600, uid: 0, gid: 0, mtime: new Date(nowMs) }
      await Bun.file(file).stream().pipeTo(controller.add(header))
    }
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
  let hasEntry = false
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
      if (!hasEntry) throw new ArchiveError('is not a backup of proxylist')
      const isTruncated = /truncated/.test(messageOf(error))
      throw new ArchiveError(isTruncated ? 'is truncated' : 'is damaged')
    }
  }
  const entries = bytes.pipeThrough(createTarDecoder({ strict: true }))
  for await (const { header, body } of explained(entries)) {
    hasEntry = true
    yield { ...header, body: explained(body) }
  }
}

/**
 * Extracts the files of an archive, each to a new file (mode 0600) at the path that `pathOf` returns for its name.
 * `read` is called with the number of bytes read; an error that it throws ends the reading. Returns the names.
 * @throws ArchiveError when it is truncated, damaged or no archive, or holds a file twice or without a path.
 */
export async function extractArchive(
  source: AsyncIterable<Uint8Array>,
  pathOf: (name: string) => string | null,
  read: (bytes: number) => void,
): Promise<string[]> {
  const names: string[] = []
  for await (const { name, type, body } of entriesOf(source)) {
    if (name === SUMS) {
      for await (const _ of body);
      continue
    }
    const path = type === 'file' && !names.includes(name) ? pathOf(name) : null
    if (path === null) throw new ArchiveError(`is not a backup of proxylist: it holds '${name}'`)
    const out = await open(path, 'wx', 0o600)
    try {
      for await (const chunk of body) {
        await out.writeFile(chunk)
        read(chunk.length)
      }
      await out.sync()
    } finally {
      await out.close()
    }
    names.push(name)
  }
  return names
}
