/** GET /key (contract F3): the report for the owner of a key is free, and refusals. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Answer } from '../support/answer.ts'
import { addKeys, addList, T0 } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { ENGINES, type Service } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const HOUR_MS = 3_600_000
const KEY = {
  standard: 'pl_canarystandardcanarystandardcana',
  subnets: 'pl_canarysubnetscanarysubnetscanary',
  unlimited: 'pl_canaryunlimitedcanaryunlimitedca',
  temp: 'temp_canarytempcanarytempcanarytempc',
}

/** A data directory with these keys, and a list of two networks. */
function seeded(): string {
  const dir = temporaryDirectory()
  addList(dir, [
    { ip: '192.0.2.1:80', type: 'http' },
    { ip: '198.51.100.1:80', type: 'http', works: 95 },
  ])
  addKeys(
    dir,
    { free: {}, networks: { subnets: 10, clients: 3, daily: 100 } },
    [
      {
        key: KEY.standard,
        plan: 'standard',
        label: 'first customer',
        note: 'pays late',
        expiresAt: T0 + 48 * HOUR_MS,
      },
      { key: KEY.subnets, plan: 'networks' },
      { key: KEY.unlimited, plan: 'free', label: 'unlimited' },
      { key: KEY.temp, plan: null, expiresAt: T0 + 24 * HOUR_MS },
    ],
    T0,
  )
  return dir
}

const bearer = (key: string, client = '198.51.100.7'): RequestInit => ({
  headers: { authorization: `Bearer ${key}`, 'x-forwarded-for': client },
})
const hoursWith = (counts: { [hour: number]: number }): number[] =>
  Array.from({ length: 24 }, (_, hour) => counts[hour] ?? 0)

for (const engine of ENGINES) {
  let service: Service
  const ask = (path: string, key: string, client?: string): Promise<Answer> =>
    service.request(path, bearer(key, client))
  /** The report of a key. */
  const report = async (key: string, client?: string) => {
    const { status, text } = await ask('/key', key, client)
    expect([status, status === 200 ? '' : text]).toEqual([200, ''])
    return JSON.parse(text)
  }

  beforeAll(async () => {
    service = await startInProcess(seeded(), { engine })
  })

  describe(`the report of a key, on ${engine}`, () => {
    test('has id, label, plan, state, expiry, limits and the use of today, in this order, without the note', async () => {
      const { id, ...rest } = await report(KEY.standard)
      expect(id).toMatch(/^[a-z\d]{8}$/)
      expect(JSON.stringify(rest)).toBe(
        JSON.stringify({
          label: 'first customer',
          plan: 'standard',
          state: 'active',
          expires: '2026-11-22T12:00:00.000Z',
          limits: [
            { name: 'burst', quota: 5, window: 5, left: 5, reset: 0 },
            { name: 'daily', quota: 34_560, window: 86_400, left: 34_560, reset: 43_200 },
          ],
          today: { requests: 0, records: 0, refused: 0, hours: hoursWith({}) },
        }),
      )
    })

    test('has each request at once, and does not count itself', async () => {
      for (let n = 1; n <= 5; n += 1) {
        expect((await ask('/api', KEY.standard)).status).toBe(200)
        for (let times = 0; times < 4; times += 1) {
          const { limits, today } = await report(KEY.standard)
          expect(limits[0]).toMatchObject({ name: 'burst', left: 5 - n, reset: 5 })
          expect(limits[1]).toMatchObject({ name: 'daily', left: 34_560 - n })
          expect(today).toEqual({
            requests: n,
            records: 2 * n,
            refused: 0,
            hours: hoursWith({ 12: n }),
          })
        }
      }
      expect((await ask('/api', KEY.standard)).status).toBe(429)
      expect((await report(KEY.standard)).today).toMatchObject({ requests: 5, refused: 1 })
    })

    test('has the use of this day only, by hour of UTC', async () => {
      service.setClock(3600)
      await ask('/api', KEY.standard)
      expect((await report(KEY.standard)).today.hours).toEqual(hoursWith({ 12: 5, 13: 1 }))
      service.setClock(12 * 3600)
      const { limits, today } = await report(KEY.standard)
      expect(limits[1]).toMatchObject({ left: 34_560, reset: 86_400 })
      expect(today).toEqual({ requests: 0, records: 0, refused: 0, hours: hoursWith({}) })
      service.setClock(0)
    })
  })

  describe(`the report of keys of other plans, on ${engine}`, () => {
    test('has networks where the plan limits them', async () => {
      await ask('/api', KEY.subnets)
      expect((await report(KEY.subnets)).limits).toEqual([
        { name: 'daily', quota: 100, window: 86_400, left: 99, reset: 43_200 },
        { name: 'subnets', quota: 10, window: 86_400, left: 8, reset: 43_200 },
        { name: 'clients', quota: 3, window: 86_400, left: 2, reset: 43_200 },
      ])
    })

    test('has no limits where the plan has none', async () => {
      expect((await report(KEY.unlimited)).limits).toEqual([])
    })

    test('has for demo the window of the client, and no use of others', async () => {
      await ask('/api', 'demo', '198.51.100.20')
      const limit = { name: 'demo', quota: 2, window: 60 }
      expect(await report('demo', '198.51.100.20')).toEqual({
        ...{ id: 'demo', label: '', plan: 'demo', state: 'active', expires: null, today: null },
        limits: [{ ...limit, left: 1, reset: 60 }],
      })
      expect((await report('demo', '198.51.100.21')).limits).toEqual([
        { ...limit, left: 2, reset: 0 },
      ])
    })

    test('has for a temporary key its window and the window of the client address', async () => {
      await ask('/api', KEY.temp, '198.51.100.30')
      const limit = { quota: 2, window: 3600 }
      const { plan, expires, limits, today } = await report(KEY.temp, '198.51.100.31')
      expect([plan, expires, today.requests]).toEqual(['temp', '2026-11-21T12:00:00.000Z', 1])
      expect(limits).toEqual([
        { name: 'key', ...limit, left: 1, reset: 3600 },
        { name: 'address', ...limit, left: 2, reset: 0 },
      ])
    })
  })

  test(`/key has the header fields of /api, with the same limits, on ${engine}`, async () => {
    const get = await ask('/key', KEY.standard)
    expect(Object.fromEntries(get.headers)).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'private, no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.any(String),
      'ratelimit-policy': '"burst";q=5;w=5, "daily";q=34560;w=86400',
    })
    type Limit = { name: string; left: number; reset: number }
    const shown = JSON.parse(get.text).limits.map(
      ({ name, left, reset }: Limit) => `"${name}";r=${left};t=${reset}`,
    )
    expect(get.headers.get('ratelimit')).toBe(shown.join(', '))
    const head = await service.request('/key', { ...bearer(KEY.standard), method: 'HEAD' })
    expect([head.status, head.text]).toEqual([200, ''])
    for (const name of ['content-type', 'ratelimit']) {
      expect(head.headers.get(name)).toBe(get.headers.get(name))
    }
    expect(head.headers.get('content-length')).toBe(String(get.bytes.length))
    const post = await service.request('/key', { ...bearer(KEY.standard), method: 'POST' })
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  })

  const { standard } = KEY

  describe(`/key refuses, on ${engine}`, () => {
    beforeAll(async () => {
      service = await startInProcess(seeded(), { engine })
    })

    const IN_URL =
      'a key in the URL ends up in logs: send the key in the header Authorization: Bearer KEY'
    const MISSING = 'key is required: send the key in the header Authorization: Bearer KEY'
    const good = bearer(standard)
    const REFUSED: readonly (readonly [query: string, init: RequestInit, message: string])[] = [
      ...[`?key=${standard}`, `?k%65y=${standard}`, '?key', `?time=600&key=${standard}`].map(
        query => [query, {}, IN_URL] as const,
      ),
      [`?key=demo&key=${standard}`, good, IN_URL],
      ['?key=', bearer('pl_wrong'), IN_URL],
      ...['?time=600', `?${standard}`, '?%ff', '?&'].map(
        query => [query, good, '/key has no parameters'] as const,
      ),
      ['?time=600', {}, MISSING],
      ['', { headers: { authorization: standard } }, MISSING],
    ]
    test.each(REFUSED)('/key%s with %j', async (query, init, message) => {
      const { status, text, headers } = await service.request(`/key${query}`, init)
      const code = message === MISSING ? 'KEY_MISSING' : 'INVALID_PARAMETER'
      expect([status, JSON.parse(text)]).toMatchObject([400, { code, message }])
      const left = message === '/key has no parameters' ? '"burst";r=5' : 'null'
      expect(`${headers.get('ratelimit')}`).toContain(left)
      expect(text).not.toContain(standard)
    })
  })
}
