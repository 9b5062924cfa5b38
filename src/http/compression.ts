/**
 * Compression of answers: while they are sent, or at once. Compressed bodies are kept in memory as long as
 * their answers are in the response cache, and count towards its bound.
 */
import type { Answer, Content } from '../api/answer.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import { compress, type Encoding } from '../lib/encoding.ts'

/**
 * Compresses bodies of answers, and keeps the result as long as the answer is in `cache`. Requests
 * at the same time may compress the same body more than once.
 */
export function createCompressor(cache: Pick<ResponseCache, 'reserve'>) {
  const known = new WeakMap<Answer, Map<Encoding, Uint8Array>>()
  return async (query: Query, answer: Answer, body: Content, encoding: Encoding) => {
    const found = known.get(answer)?.get(encoding)
    if (found) return found
    const compressed = await compress(body, encoding)
    const bodies = known.get(answer) ?? new Map<Encoding, Uint8Array>() // others may be done by now
    const isRepeated = answer.chunks.length === 1 // two chunks: the time between them differs
    if (isRepeated && !bodies.has(encoding) && cache.reserve(query, answer, compressed.length)) {
      known.set(answer, bodies.set(encoding, compressed))
    }
    return compressed
  }
}

export const compressStream = (body: ReadableStream<Uint8Array>, encoding: Encoding) =>
  body.pipeThrough<Uint8Array>(new CompressionStream(encoding) as TransformPair)
/** `CompressionStream` is typed for any kind of buffer; here only byte arrays are written. */
type TransformPair = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }
