/**
 * Owns writing a tar archive (POSIX ustar) of a few files of any size in constant memory. Knows
 * nothing of what the files hold.
 *
 * Not Bun's own archives: they are built in memory. Not tar-stream 3.2.2: it writes an owner above
 * 262143 as 262143 and a time after 2038 as another year, without an error, and brings four other
 * packages into the binary.
 */
import { stat } from 'node:fs/promises'

/** A file to put into an archive, under a name of up to 100 bytes. The owner is given by number. */
export type TarEntry = { file: string; name: string; mode: number; uid: number; gid: number }

export const BLOCK_BYTES = 512
/** Where each number is in a header, and how many bytes it has. */
export const NUMBER_FIELDS = {
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
} as const
const MTIME_FIELD = [136, 12] as const
export const CHECKSUM_AT = 148

/** Octal digits and a zero byte. A number too large for that is binary (base-256, as GNU tar's). */
function writeNumber(header: Buffer, value: number, [at, length]: readonly [number, number]): void {
  const octal = value.toString(8)
  if (octal.length < length) {
    header.write(octal.padStart(length - 1, '0'), at)
    return
  }
  header.writeBigUInt64BE(BigInt(value), at + length - 8)
  header[at] = 0x80
}

/** The block before the content of a file. `size` in bytes, `mtimeSeconds` in Unix seconds. */
export function tarHeader(
  { name, ...numbers }: Omit<TarEntry, 'file'> & { size: number },
  mtimeSeconds: number,
): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`${name} is too long a name for an archive`)
  const header = Buffer.alloc(BLOCK_BYTES)
  header.write(name)
  for (const [field, place] of Object.entries(NUMBER_FIELDS)) {
    writeNumber(header, numbers[field as keyof typeof NUMBER_FIELDS], place) // the table's own names
  }
  writeNumber(header, mtimeSeconds, MTIME_FIELD)
  header.write('0', 156) // a regular file
  header.write('ustar\x0000', 257)
  header.write(' '.repeat(8), CHECKSUM_AT) // the sum counts its own field as spaces
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, CHECKSUM_AT)
  return header
}

/** The name of the last file of an archive, which has checksums of the others as sha256sum(1) does. */
export const SUMS = 'SHA256SUMS'

/** Computes the checksum of a file whose bytes pass by. */
export const createSum = (): Bun.CryptoHasher => new Bun.CryptoHasher('sha256')

export const sumLine = (sum: Bun.CryptoHasher, name: string): string =>
  `${sum.digest('hex')}  ${name}\n`

const padding = (size: number): Buffer =>
  Buffer.alloc((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES)

/** Takes the next bytes of an archive. */
export type WriteChunk = (chunk: Uint8Array) => Promise<void>

/**
 * Writes an archive of files and their checksums; returns its size in bytes. `wrote` is called with the number of bytes of content
 * written; an error that it throws ends the writing.
 */
export async function writeTar(
  write: WriteChunk,
  entries: readonly TarEntry[],
  mtimeSeconds: number,
  wrote: (bytes: number) => void,
): Promise<number> {
  let total = 0
  const put = async (chunk: Uint8Array): Promise<void> => {
    await write(chunk)
    total += chunk.length
  }
  let sums = ''
  for (const entry of entries) {
    const { size } = await stat(entry.file)
    const sum = createSum()
    await put(tarHeader({ ...entry, size }, mtimeSeconds))
    for await (const chunk of Bun.file(entry.file).stream()) {
      sum.update(chunk)
      await put(chunk)
      wrote(chunk.length)
    }
    await put(padding(size))
    sums += sumLine(sum, entry.name)
  }
  const text = Buffer.from(sums)
  const owner = { uid: 0, gid: 0, ...entries[0] }
  await put(tarHeader({ ...owner, name: SUMS, mode: 0o600, size: text.length }, mtimeSeconds))
  await put(text)
  await put(padding(text.length))
  await put(Buffer.alloc(2 * BLOCK_BYTES)) // the end of the archive
  return total
}
