/** Compression of bodies: which encoding a client gets, and that streams are compressed. What is kept: `api/response-cache.test.ts`. */
import { describe, expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import { chooseEncoding, compressStream, type Encoding } from '../../src/lib/compression.ts'

const ENCODINGS: readonly Encoding[] = ['gzip', 'zstd']
const DECODERS = {
  gzip: (body: Uint8Array) => gunzipSync(body),
  zstd: (body: Uint8Array) => Bun.zstdDecompressSync(Uint8Array.from(body)),
}

describe('Accept-Encoding', () => {
  const CASES: readonly (readonly [accept: string | null, encoding: Encoding | null])[] = [
    [null, null],
    ['', null],
    ['identity', null],
    ['br', null],
    ['deflate, br', null],
    ['gzip', 'gzip'],
    ['x-gzip', 'gzip'],
    ['GZIP, br', 'gzip'],
    ['gzip, zstd', 'zstd'],
    ['gzip;q=1, zstd;q=1.0', 'zstd'],
    [' zstd ; q=0.5 ,gzip; q=0.4', 'zstd'],
    ['gzip;q=0', null],
    ['gzip;q=0, *;q=0', null],
    ['*', 'gzip'], // a client that sends `*` may be unable to read zstd
    ['zstd, *', 'zstd'],
    ['*, zstd;q=0.1', 'zstd'],
    ['identity;q=0, *', 'gzip'],
    ['*;q=0', null],
    ['zstd;q=0, *', 'gzip'],
    ['gzip;q=0.000, br', null],
    ['gzip;q=0.001', 'gzip'],
    ['not-gzip, gzip2, zstandard', null],
  ]
  test.each(CASES)('with %p selects %p', (accept, encoding) => {
    expect(chooseEncoding(accept)).toBe(encoding)
  })
})

describe.each(ENCODINGS.map(encoding => [encoding] as const))('%s', encoding => {
  test('gives back the same stream', async () => {
    const text = 'a line\n'.repeat(10_000)
    const body = new Blob([text]).stream()
    const compressed = await new Response(compressStream(body, encoding)).bytes()
    expect(compressed.length).toBeLessThan(text.length)
    expect(Buffer.from(DECODERS[encoding](compressed)).toString()).toBe(text)
  })
})
