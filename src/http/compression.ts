/** Owns compression of bodies: which encoding a client accepts (RFC 9110, 12.5.3), and doing it. */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Encoding } from '../api/response-cache.ts'

/** Bodies below this many bytes are sent as they are (contract A8). */
export const COMPRESS_MIN_BYTES = 1024

/** In order of preference between equals. */
const ENCODINGS: readonly Encoding[] = ['zstd', 'gzip']

const gzipAsync = promisify(gzip)
const COMPRESS: { [E in Encoding]: (body: Uint8Array) => Promise<Uint8Array> } = {
  zstd: body => Bun.zstdCompress(body),
  gzip: body => gzipAsync(body),
}

/** The best encoding an Accept-Encoding header allows, or `null` for none. */
export function chooseEncoding(accept: string | null): Encoding | null {
  if (accept === null) return null
  const weights = new Map<string, number>()
  for (const item of accept.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map(part => part.trim())
    const weight = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    weights.set(name === 'x-gzip' ? 'gzip' : name, weight === undefined ? 1 : Number(weight) || 0)
  }
  const weightOf = (name: string): number => weights.get(name) ?? weights.get('*') ?? 0
  const best = ENCODINGS.reduce((a, b) => (weightOf(b) > weightOf(a) ? b : a))
  const identity = weights.get('identity') ?? 0
  return weightOf(best) > 0 && weightOf(best) >= identity ? best : null
}

export const compress = (body: Uint8Array, encoding: Encoding): Promise<Uint8Array> =>
  COMPRESS[encoding](body)

/** Compresses a body while it is sent. */
export const compressStream = (body: ReadableStream<Uint8Array>, encoding: Encoding) =>
  body.pipeThrough<Uint8Array>(new CompressionStream(encoding) as TransformPair)
/** The library types know only whole buffers; a stream of byte arrays is one of those. */
type TransformPair = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }
