/**
 * Compression of bodies: which encoding a client accepts (RFC 9110, 12.5.3), compressing, and
 * the compressed bodies in memory. These are kept as long as their answers are in the response
 * cache, and count towards its bound.
 */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Answer, Content } from '../api/answer.ts'
import type { Query } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'

export type Encoding = 'zstd' | 'gzip'

/** Bodies below this many bytes are sent as they are (contract A8). */
export const COMPRESS_MIN_BYTES = 1024

/** In order of preference, for equal weights. */
const ENCODINGS: readonly Encoding[] = ['zstd', 'gzip']

const gzipAsync = promisify(gzip)
const COMPRESS: { [E in Encoding]: (body: Content) => Promise<Uint8Array> } = {
  zstd: body => Bun.zstdCompress(body),
  gzip: body => gzipAsync(body),
}

/**
 * The best encoding that an Accept-Encoding header allows, or `null` for none. zstd only where it is
 * named: many clients that send `*` cannot read it (contract A8).
 */
export function chooseEncoding(accept: string | null): Encoding | null {
  if (accept === null) return null
  const weights = new Map<string, number>()
  for (const item of accept.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map(part => part.trim())
    const weight = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    weights.set(name === 'x-gzip' ? 'gzip' : name, weight === undefined ? 1 : Number(weight) || 0)
  }
  const weightOf = (name: Encoding): number =>
    weights.get(name) ?? (name === 'gzip' ? weights.get('*') : undefined) ?? 0
  const best = ENCODINGS.reduce((a, b) => (weightOf(b) > weightOf(a) ? b : a))
  const identity = weights.get('identity') ?? 0
  return weightOf(best) > 0 && weightOf(best) >= identity ? best : null
}

/**
 * Compresses bodies of answers, and keeps the result as long as the answer is in `cache`. Requests
 * at the same time may compress the same body more than once.
 */
export function createCompressor(cache: Pick<ResponseCache, 'reserve'>) {
  const known = new WeakMap<Answer, Map<Encoding, Uint8Array>>()
  return async (query: Query, answer: Answer, body: Content, encoding: Encoding) => {
    const found = known.get(answer)?.get(encoding)
    if (found) return found
    const compressed = await COMPRESS[encoding](body)
    const bodies = known.get(answer) ?? new Map<Encoding, Uint8Array>() // others may be done by now
    const isRepeated = answer.chunks.length === 1 // two chunks: the time between them differs
    if (isRepeated && !bodies.has(encoding) && cache.reserve(query, answer, compressed.length)) {
      known.set(answer, bodies.set(encoding, compressed))
    }
    return compressed
  }
}

/** Compresses a body while it is sent. */
export const compressStream = (body: ReadableStream<Uint8Array>, encoding: Encoding) =>
  body.pipeThrough<Uint8Array>(new CompressionStream(encoding) as TransformPair)
/** `CompressionStream` is typed for any kind of buffer; here only byte arrays are written. */
type TransformPair = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }
