/** Bodies of log entries and imports: frames of compressed JSON, so that a long list takes little memory. */
import { onlyRow, type Query, type Value } from './connection.ts'

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

/** The frame of a body from byte `$1` on, counted from 1; empty after the last one. */
const FRAME = `substring(body from $1::int + ${LENGTH_BYTES} for
  ('x' || encode(substring(body from $1::int for ${LENGTH_BYTES}), 'hex'))::bit(32)::int) as frame`

/** Reads the values of a body, which a table and a condition name; its values are `$2` and so on. */
export async function* readFrames<T>(
  query: Query,
  from: string,
  values: readonly Value[],
): AsyncGenerator<T> {
  const select = `select ${FRAME} from proxylist.${from}`
  for (let at = 1; ; ) {
    const { frame } = await onlyRow<{ frame: Uint8Array }>(query, select, [at, ...values])
    if (frame.length === 0) return
    yield JSON.parse(Bun.zstdDecompressSync(frame).toString()) as T // as `toFrame` wrote it
    at += LENGTH_BYTES + frame.length
  }
}
