/** Encodings of bodies: chooses one that the client accepts (RFC 9110, 12.5.3), and compresses. */
import { promisify } from 'node:util'

export type Encoding = 'zstd' | 'gzip'

/** Shorter bodies are sent uncompressed (contract A8). */
export const COMPRESS_MIN_BYTES = 1024

export async function compress(body: string | Uint8Array, encoding: Encoding): Promise<Uint8Array> {
  if (encoding === 'zstd') return Bun.zstdCompress(body)
  const { gzip } = await import('node:zlib') // loading takes milliseconds, which commands don't need
  return promisify(gzip)(body)
}

export type EncodedBodies = {
  readonly identity: Uint8Array
  readonly gzip: Uint8Array
  readonly zstd: Uint8Array
}

/** Compresses a text in every encoding: 0.6 ms for 10 KB of statistics, so not in the request path. */
export const encode = (text: string): EncodedBodies => ({
  identity: Buffer.from(text),
  gzip: Bun.gzipSync(text, { level: 9 }),
  zstd: Bun.zstdCompressSync(text, { level: 12 }),
})

/** Matches a header that names one of the encodings, unless with `q=0`. */
const naming = (names: string): RegExp =>
  new RegExp(`(?:^|[\\s,])(?:${names})\\s*(?=$|,|;(?!\\s*q=0(?:\\.0*)?\\s*(?:$|,)))`, 'i')
const ZSTD = naming('zstd')
const GZIP = naming('(?:x-)?gzip|\\*')

/** The encoding for Accept-Encoding. Not zstd for `*`: many clients that send it cannot read zstd (contract A8). */
export function chooseEncoding(accept: string | null): Encoding | null {
  if (accept === null) return null
  if (ZSTD.test(accept)) return 'zstd'
  return GZIP.test(accept) ? 'gzip' : null
}

export const compressStream = (body: ReadableStream<Uint8Array>, encoding: Encoding) =>
  body.pipeThrough<Uint8Array>(new CompressionStream(encoding as 'gzip') as TransformPair)
/** `CompressionStream` is typed for any kind of buffer, and in browsers without zstd. We write byte arrays only. */
type TransformPair = { readable: ReadableStream<Uint8Array>; writable: WritableStream<Uint8Array> }
