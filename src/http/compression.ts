/**
 * Compression of answers: while they are sent, or at once. Compressed bodies are kept in memory as long as
 * their answers are in the response cache, and count towards its bound.
 */
import { type Answer, bodyOf } from '../api/answer.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { compress, type Encoding } from '../lib/encoding.ts'

/** Compresses bodies of answers, and keeps the result as long as the answer is in `cache`. */
export function createCompressor(cache: Pick<ResponseCache, 'reserve'>) {
  const known = new WeakMap<Answer, Map<Encoding, Uint8Array>>()

  async function make(query: Query, answer: Answer, encoding: Encoding, nowMs: number) {
    const compressed = await compress(bodyOf(answer, nowMs), encoding)
    const bodies = known.get(answer) ?? new Map<Encoding, Uint8Array>() // others may be done by now
    const isRepeated = answer.chunks.length === 1 // two chunks: the time between them differs
    if (isRepeated && !bodies.has(encoding) && cache.reserve(query, answer, compressed.length)) {
      known.set(answer, bodies.set(encoding, compressed))
    }
    return compressed
  }

  return (query: Query, answer: Answer, encoding: Encoding, nowMs: number): Awaitable<Uint8Array> =>
    known.get(answer)?.get(encoding) ?? make(query, answer, encoding, nowMs)
}

export const compressStream = (body: ReadableStream<Uint8Array>, encoding: Encoding) =>
  body.pipeThrough<Uint8Array>(new CompressionStream(encoding) as TransformPair)
/** `CompressionStream` is typed for any kind of buffer; here only byte arrays are written. */
type TransformPair = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }
