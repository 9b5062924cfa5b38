/**
 * Compression of bodies: which encoding a client gets, and that compressed bodies live with their
 * answer in the response cache, within its memory bound.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import type { Answer } from '../../src/api/answer.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import { compressStream, createCompressor } from '../../src/http/compression.ts'
import { chooseEncoding, type Encoding } from '../../src/lib/encoding.ts'
import { openMemoryList } from '../../src/sqlite/server-list.ts'
import { fillList, T0 } from '../support/fixtures.ts'
import { TENANT } from '../support/limits.ts'
import { PROVIDER, queryOf } from '../support/streamer.ts'

const ENCODINGS: readonly Encoding[] = ['gzip', 'zstd']
const DECODERS = {
  gzip: (body: Uint8Array) => gunzipSync(body),
  zstd: (body: Uint8Array) => Bun.zstdDecompressSync(Uint8Array.from(body)),
}

describe('the encoding that Accept-Encoding allows', () => {
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
    ['zstd;q=0.5, gzip;q=0.9', 'gzip'],
    [' zstd ; q=0.5 ,gzip; q=0.4', 'zstd'],
    ['gzip;q=0', null],
    ['gzip;q=0, *;q=0', null],
    ['gzip;q=nonsense', null],
    ['*', 'gzip'], // zstd only to who names it: `*` of a client without zstd would be unreadable
    ['zstd, *', 'zstd'],
    ['*, zstd;q=0.1', 'gzip'],
    ['gzip;q=0, *', null],
    ['identity;q=0, *', 'gzip'],
    ['*;q=0', null],
    ['zstd;q=0, *', 'gzip'],
    ['gzip;q=0.5, identity', null],
    ['gzip;q=0.5, identity;q=0.5', 'gzip'],
    ['gzip;q=0.5, identity;q=0.6', null],
    [`${'br, '.repeat(60)}gzip`, 'gzip'],
    [`${'br, '.repeat(64)}gzip`, null], // what many long headers say would take long
    [`${'x'.repeat(249)}, gzip;q=0`, null], // it is not cut off before what it says
  ]
  test.each(CASES)('of %p is %p', (accept, encoding) => {
    expect(chooseEncoding(accept)).toBe(encoding)
  })
})

const list = openMemoryList()
fillList(
  list.list,
  Array.from({ length: 200 }, (_, i) => ({ ip: `10.9.0.${i}:3128`, type: 'http' })),
)
afterAll(list.close)

/** Answers and their compressed bodies within `bytesMax`. */
function createWorld(bytesMax = 2 ** 20) {
  const parts = { reader: list, streamer: null, provider: PROVIDER, bytesMax }
  const cache = createResponseCache(parts, () => true) // stores an answer at its first request
  const compress = createCompressor(cache)
  const find = async (text: string, nowMs = T0): Promise<Answer> => {
    const found = await cache.find(queryOf(text), nowMs, false, () => TENANT)
    if (found?.kind !== 'answer') throw new Error('there is no answer')
    return found
  }
  return {
    bytes: () => cache.counts().bytes,
    find,
    compress: async (text: string, encoding: Encoding, nowMs = T0): Promise<Uint8Array> =>
      compress(queryOf(text), await find(text, nowMs), encoding, nowMs),
  }
}

describe.each(ENCODINGS.map(encoding => [encoding] as const))('%s', encoding => {
  test('gives a stream back', async () => {
    const text = 'a line\n'.repeat(10_000)
    const body = new Blob([text]).stream()
    const compressed = await new Response(compressStream(body, encoding)).bytes()
    expect(compressed.length).toBeLessThan(text.length)
    expect(Buffer.from(DECODERS[encoding](compressed)).toString()).toBe(text)
  })

  test('compresses the envelope each time, because it has the time in it', async () => {
    const { compress } = createWorld()
    const first = await compress('get=json&wrap=1', encoding)
    expect(await compress('get=json&wrap=1', encoding)).not.toBe(first)
    const later = await compress('get=json&wrap=1', encoding, T0 + 1000)
    expect(Buffer.from(DECODERS[encoding](later)).toString()).toContain('T12:00:01.000Z')
  })
})
