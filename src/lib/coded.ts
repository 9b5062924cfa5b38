/** Owns texts that are compressed once, before anybody asks, in every coding that is sent. */
import { gzipSync } from 'node:zlib'

/** The same bytes in each coding. */
export type Coded = {
  readonly identity: Uint8Array
  readonly gzip: Uint8Array
  readonly zstd: Uint8Array
}

/** Compresses a text in every coding, which takes milliseconds: not for the request path. */
export function encode(text: string): Coded {
  const identity = Buffer.from(text)
  return { identity, gzip: gzipSync(identity, { level: 9 }), zstd: Bun.zstdCompressSync(identity) }
}
