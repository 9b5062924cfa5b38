/**
 * What everybody may have, without a key: statistics, the OpenAPI document and the reference page. How they are
 * kept, compressed and asked for again; what they hold is in `stats.test.ts`, `reference.test.ts` and
 * `web/docs.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { dataDirectory, KEY } from '../support/fixtures.ts'
import { type Service, startService } from '../support/service.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const APP = 'https://app.example.com'

describe.each([
  ['/stats', 'application/json; charset=utf-8', 'max-age=15', 'Accept-Encoding, Origin'],
  [
    '/openapi.json',
    'application/json; charset=utf-8',
    'public, max-age=300',
    'Accept-Encoding, Origin',
  ],
  ['/docs', 'text/html; charset=utf-8', 'no-cache', 'Accept-Encoding, Accept-Language, Origin'],
])('%s', (path, type, kept, vary) => {
  let service: Service
  beforeAll(async () => {
    const rows = Array.from({ length: 9 }, (_, i) => ({ ip: `192.0.2.${i}:80`, type: 'http' }))
    service = await startService(dataDirectory(rows), { cors: APP })
  })
  const get = (headers: { [name: string]: string } = {}, method = 'GET') =>
    service.request(path, { method, headers: { 'accept-encoding': 'identity', ...headers } })

  test('may be cached, and read by the pages of --cors', async () => {
    const { status, headers } = await get({ origin: APP })
    expect([status, Object.fromEntries(headers)]).toMatchObject([
      200,
      {
        ...{ 'content-type': type, 'cache-control': kept, 'x-content-type-options': 'nosniff' },
        ...{ 'access-control-allow-origin': APP, vary },
      },
    ])
    const other = await get({ origin: 'https://other.example.com' })
    expect(other.headers.get('access-control-allow-origin')).toBeNull()
  })

  test('is the same compressed and with any key, and allows only GET and HEAD', async () => {
    const plain = await get()
    expect(plain.headers.get('content-encoding')).toBeNull()
    const decoders = { gzip: Bun.gunzipSync, zstd: Bun.zstdDecompressSync }
    for (const [coding, decode] of Object.entries(decoders)) {
      const { headers, bytes } = await get({ 'accept-encoding': coding })
      expect(headers.get('content-encoding')).toBe(coding)
      expect(new TextDecoder().decode(decode(new Uint8Array(bytes)))).toBe(plain.text)
    }
    const head = await get({}, 'HEAD')
    expect([head.status, head.text]).toEqual([200, ''])
    for (const name of ['etag', 'cache-control', 'content-type', 'vary']) {
      expect([name, head.headers.get(name)]).toEqual([name, plain.headers.get(name)])
    }
    expect(head.headers.get('content-length')).toBe(String(plain.bytes.length))
    for (const key of [KEY, 'wrong']) {
      const answer = await get({ authorization: `Bearer ${key}` })
      expect([answer.text, answer.headers.get('ratelimit')]).toEqual([plain.text, null])
    }
    const post = await get({}, 'POST')
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    expect(JSON.parse(post.text).code).toBe('METHOD_NOT_ALLOWED')
    expect(service.output()).not.toContain('wrong')
  })

  test('is not sent again to a client that has a copy', async () => {
    const etag = (await get()).headers.get('etag') ?? ''
    expect(etag).toMatch(/^W\/"\w+"$/)
    for (const [tags, status] of [
      [etag, 304],
      ['*', 304],
      [`"other", ${etag}`, 304],
      [etag.replace('W/', ''), 304],
      ['"other"', 200],
    ] as const) {
      for (const method of ['GET', 'HEAD']) {
        const answer = await get({ 'if-none-match': tags }, method)
        expect([tags, answer.status, answer.headers.get('etag')]).toEqual([tags, status, etag])
        expect(answer.headers.get('cache-control')).toBe(kept)
        if (status === 304) expect(answer.text).toBe('')
      }
    }
  })
})
