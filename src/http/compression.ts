/** Compresses answers. The response cache keeps the compressed bodies with the answer. */
import { type Answer, bodyOf } from '../api/answer.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { compress, type Encoding } from '../lib/encoding.ts'

export const createCompressor = (cache: Pick<ResponseCache, 'keepBody'>) => {
  async function make(query: Query, answer: Answer, encoding: Encoding, nowMs: number) {
    const body = await compress(bodyOf(answer, nowMs), encoding)
    const hasTime = answer.chunks.length > 1 // the time between the chunks is new in each response
    if (!hasTime) cache.keepBody(query, answer, encoding, body)
    return body
  }
  return (query: Query, answer: Answer, encoding: Encoding, nowMs: number): Awaitable<Uint8Array> =>
    answer[encoding] ?? make(query, answer, encoding, nowMs)
}

export const compressStream = (body: ReadableStream<Uint8Array>, encoding: Encoding) =>
  body.pipeThrough<Uint8Array>(new CompressionStream(encoding) as TransformPair)
/** `CompressionStream` is typed for any kind of buffer. We write byte arrays only. */
type TransformPair = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }
