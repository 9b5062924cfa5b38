/** Reads regular files, because pipes and devices may never end. Asynchronous, because a network mount may hang. */
import { constants, openSync, readSync, type Stats, unlinkSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { unreadable } from './errors.ts'

const CHUNK_BYTES = 64 * 1024

/** @throws Error unless it is a regular file; the message names its type. */
export function requireRegular(found: Stats): void {
  if (found.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
  if (!found.isFile()) throw new Error('it is not a regular file')
}

/** The bytes of a regular file. @throws Error, also if the file is truncated during the read. */
export async function* bytesOfFile(file: string): AsyncIterable<Uint8Array> {
  await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
  const found = await handle.stat()
  requireRegular(found)
  for (let left = found.size; ; ) {
    const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(CHUNK_BYTES))
    if (bytesRead === 0 && left > 0) throw new Error('it was truncated while it was read')
    if (bytesRead === 0) return
    left -= bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/** All bytes of a regular file. @throws Error */
export const readRegularFile = async (file: string): Promise<Buffer> =>
  Buffer.concat(await Array.fromAsync(bytesOfFile(file)))

/** All bytes of a regular file. @throws CommandError that calls the file `what` and says why it cannot be read. */
export const readNamed = (file: string, what = file): Promise<Buffer> =>
  readRegularFile(file).catch(error => {
    throw unreadable(what, error)
  })

/** Opens an empty file without a name in `dir`, for writing and reading. Closing its descriptor removes it. */
export function openUnnamed(dir: string): number {
  const file = join(dir, `proxylist-${crypto.randomUUID()}.tmp`)
  const fd = openSync(file, 'wx+', 0o600)
  unlinkSync(file)
  return fd
}

/** The bytes of an open file. A stream of `node:fs` could close the descriptor when another file has its number. */
export async function* bytesOf(fd: number): AsyncIterable<Uint8Array> {
  for (let at = 0; ; ) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    const length = readSync(fd, chunk, 0, CHUNK_BYTES, at)
    if (length === 0) return
    yield chunk.subarray(0, length)
    at += length
  }
}
