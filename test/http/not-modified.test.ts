/** Compression, ETag and 304 of kept answers (contract A8). */
import { afterAll, expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import { ASK, dataDirectory, T0, type TestRow } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = Array.from({ length: 100 }, (_, i) => ({
  ...{ ip: `10.1.${i}.1:8080`, type: i < 99 ? 'http' : 'socks5' },
}))

const DECODERS = {
  identity: (bytes: Uint8Array) => bytes,
  gzip: gunzipSync,
  zstd: (bytes: Uint8Array) => Bun.zstdDecompressSync(Uint8Array.from(bytes)),
}

test('a kept answer has a strong tag in each encoding; a client that sends the tag gets a 304, and the request counts', async () => {
  const service = await startInProcess(
    dataDirectory(ROWS, { burst: { requests: 100, seconds: 60 } }),
    {},
  )
  const get = (headers: { [name: string]: string } = {}, path = ASK, method = 'GET') =>
    service.request(path, { method, headers })
  const left = (answer: { headers: Headers }) =>
    Number(/r=(\d+)/.exec(answer.headers.get('ratelimit') ?? '')?.[1])

  const plain = await get({ 'accept-encoding': 'br' })
  expect(plain.headers.get('etag')).toBeNull() // not kept yet
  const short = await get({ 'accept-encoding': 'gzip' }, `${ASK}&count=5`)
  expect(short.headers.get('content-encoding')).toBeNull() // under 1 KiB
  const tags = new Set<string>()
  for (const [encoding, decode] of Object.entries(DECODERS)) {
    const accept = { 'accept-encoding': encoding }
    for (let n = 0; n < 2; n += 1) await get(accept)
    const whole = await get(accept)
    expect(whole.headers.get('content-encoding') ?? 'identity').toBe(encoding)
    expect(Buffer.from(decode(whole.bytes)).toString()).toBe(plain.text)
    const tag = whole.headers.get('etag') ?? ''
    expect(tag).toMatch(/^"[\w-]+"$/)
    tags.add(tag)
    for (const method of ['GET', 'HEAD']) {
      const again = await get({ ...accept, 'if-none-match': `"other", ${tag}` }, ASK, method)
      expect([again.status, again.text, again.headers.get('etag')]).toEqual([304, '', tag])
      expect(again.headers.get('vary')).toBe('Accept-Encoding')
      expect(left(again)).toBeLessThan(left(whole))
    }
    expect((await get({ ...accept, 'if-none-match': '"other"' })).status).toBe(200)
  }
  expect(tags.size).toBe(3)

  for (const seconds of [1, 2, 3]) {
    service.setClock(seconds)
    const { bytes } = await get({ 'accept-encoding': 'gzip' }, `${ASK}&get=json&wrap=1`)
    const { timestamp } = JSON.parse(gunzipSync(bytes).toString())
    expect(timestamp).toBe(new Date(T0 + seconds * 1000).toISOString()) // is in no kept body
  }
  for (const path of [`${ASK}&get=json&wrap=1`, `${ASK}&sort=random`]) {
    for (let n = 0; n < 3; n += 1) expect((await get({}, path)).headers.get('etag')).toBeNull()
  }
  await service.stop()
})
