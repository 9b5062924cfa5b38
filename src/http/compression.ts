/**
 * Compression of answers: while they are sent, or at once. Compressed bodies are kept in memory as long as
 * their answers are in the response cache, and count towards its bound.
 */
import type { Answer, Content } from '../api/answer.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import { compress, type Encoding } from '../lib/encoding.ts'
import { createLines } from '../lib/fair-queue.ts'

/** `body` makes one when its turn comes, `null` for a client that has left meanwhile. */
type Making = { keyId: string; body: () => Content | null }

/** Bodies of a key that are made and compressed at once: others wait for no more, nor does memory hold them. */
const BODIES_EACH = 4
/** Answers of a key that are in memory to be compressed: more come faster than that is done, and are sent as they are. */
const ANSWERS_EACH = 64

/**
 * Compresses bodies of answers, and keeps the result as long as the answer is in `cache`; `null` while so many answers
 * of the key wait that this one is to be sent as it is.
 */
export function createCompressor(cache: Pick<ResponseCache, 'reserve'>) {
  const known = new WeakMap<Answer, Map<Encoding, Uint8Array>>()
  const { inLine, lengthOf } = createLines(BODIES_EACH)
  return (query: Query, answer: Answer, encoding: Encoding, { keyId, body }: Making) => {
    async function make(): Promise<Uint8Array> {
      const found = known.get(answer)?.get(encoding)
      if (found) return found
      const content = body()
      if (content === null) return new Uint8Array()
      const compressed = await compress(content, encoding)
      const bodies = known.get(answer) ?? new Map<Encoding, Uint8Array>() // others may be done by now
      const isRepeated = answer.chunks.length === 1 // two chunks: the time between them differs
      if (isRepeated && !bodies.has(encoding) && cache.reserve(query, answer, compressed.length)) {
        known.set(answer, bodies.set(encoding, compressed))
      }
      return compressed
    }
    const found = known.get(answer)?.get(encoding)
    if (found) return Promise.resolve(found)
    return lengthOf(keyId) < ANSWERS_EACH ? inLine(keyId, make) : null
  }
}

export const compressStream = (body: ReadableStream<Uint8Array>, encoding: Encoding) =>
  body.pipeThrough<Uint8Array>(new CompressionStream(encoding) as TransformPair)
/** `CompressionStream` is typed for any kind of buffer; here only byte arrays are written. */
type TransformPair = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }
