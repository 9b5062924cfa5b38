/**
 * Owns reading the binary format of COPY (PostgreSQL documentation, COPY, "Binary Format"): reading a
 * million rows as text takes longer.
 */

/** What a column holds: an integer of 2, 4 or 8 bytes, or text in ASCII. */
export type Kind = 'integer' | 'ascii'
export type Value = number | string

/** The signature, the flags, and the length of an extension that no server sends. */
const HEADER_BYTES = 19

/** A number of at most 53 bits. */
const READERS: { readonly [bytes: number]: (buffer: Buffer, at: number) => number } = {
  2: (buffer, at) => buffer.readInt16BE(at),
  4: (buffer, at) => buffer.readInt32BE(at),
  8: (buffer, at) => buffer.readInt32BE(at) * 2 ** 32 + buffer.readUInt32BE(at + 4),
}

const valueAt = (kind: Kind, buffer: Buffer, at: number, length: number): Value =>
  kind === 'ascii'
    ? buffer.toString('latin1', at, at + length)
    : (READERS[length]?.(buffer, at) ?? Number.NaN)

/** Reads the whole rows of a buffer from `at` on; returns where the rest begins. */
function readRows(buffer: Buffer, kinds: readonly Kind[], start: number, rows: Value[][]): number {
  let at = start
  for (;;) {
    let next = at + 2 // the number of columns
    if (next > buffer.length || buffer.readInt16BE(at) < 0) return at
    const row: Value[] = []
    for (const kind of kinds) {
      if (next + 4 > buffer.length) return at
      const length = buffer.readInt32BE(next)
      if (next + 4 + length > buffer.length) return at
      row.push(valueAt(kind, buffer, next + 4, length))
      next += 4 + length
    }
    rows.push(row)
    at = next
  }
}

/** The rows of a COPY, in the portions in which they come; no column may be NULL. */
export async function* rowsOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  kinds: readonly Kind[],
): AsyncGenerator<Value[][]> {
  let rest: Buffer = Buffer.alloc(0)
  let at = HEADER_BYTES
  for await (const bytes of stream) {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const buffer: Buffer = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const rows: Value[][] = []
    if (buffer.length > at) at = readRows(buffer, kinds, at, rows)
    if (rows.length > 0) yield rows
    rest = buffer.subarray(at)
    at = 0
  }
}
