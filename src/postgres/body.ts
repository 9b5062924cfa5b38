/**
 * Bodies of log entries and imports: frames of compressed JSON, each after its length. A list of a million rows is
 * written and read in little memory.
 */
const LENGTH_BYTES = 4

export const toFrame = (value: object): Uint8Array => Bun.zstdCompressSync(JSON.stringify(value))

export function joinFrames(frames: readonly Uint8Array[]): Uint8Array {
  const size = frames.reduce((sum, { length }) => sum + LENGTH_BYTES + length, 0)
  const body = Buffer.allocUnsafe(size)
  let at = 0
  for (const frame of frames) {
    at = body.writeUInt32BE(frame.length, at)
    body.set(frame, at)
    at += frame.length
  }
  return body
}

/** Reads the values of a body from pieces of any size. */
export async function* readFrames<T>(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<T> {
  let rest = Buffer.alloc(0)
  for await (const piece of pieces) {
    rest = Buffer.concat([rest, piece])
    while (rest.length >= LENGTH_BYTES) {
      const end = LENGTH_BYTES + rest.readUInt32BE(0)
      if (rest.length < end) break
      const text = Bun.zstdDecompressSync(rest.subarray(LENGTH_BYTES, end)).toString()
      rest = rest.subarray(end)
      yield JSON.parse(text) as T // as `toFrame` wrote it
    }
  }
}

/** Bytes of a piece. */
const PIECE_BYTES = 2 ** 22

/** Reads a body in pieces. `select` takes the position of the first byte, from 1, and the number of bytes. */
export async function* inPieces(
  select: (from: number, size: number) => Promise<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for (let from = 1; ; from += PIECE_BYTES) {
    const piece = await select(from, PIECE_BYTES)
    yield piece
    if (piece.length < PIECE_BYTES) return
  }
}
