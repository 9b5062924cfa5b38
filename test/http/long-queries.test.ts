/** Requests that are many, take long, or count for nothing (contract B9): those of one client keep nobody else waiting. */
import { afterAll, expect, test } from 'bun:test'
import { ASK, addKeys, dataDirectory, KEY, T0, UNLIMITED } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** The form of each answer, in the order in which they come. */
async function orderOf(ask: (path: string) => Promise<unknown>, paths: readonly string[]) {
  const order: number[] = []
  await Promise.all(paths.map((path, n) => ask(path).then(() => order.push(n))))
  return order
}

test('thousands of requests of a key at once do not keep that of another key waiting, nor a look at /readyz', async () => {
  const dir = dataDirectory(undefined, UNLIMITED)
  addKeys(dir, {}, [{ key: 'another-key', plan: 'free' }], T0)
  const { request } = await startInProcess(dir, {})
  const many = new Array<string>(3_000).fill(`${ASK}&city=nowhere`)
  const order = await orderOf(request, [...many, '/api?key=another-key', '/readyz'])
  expect(order.indexOf(3_000)).toBeLessThan(200)
  expect(order.indexOf(3_001)).toBeLessThan(200)
})

test.each(['a.key', 'ключ'])(
  'a crowd of addresses keeps no key waiting, as %p in a URL',
  async key => {
    const dir = dataDirectory()
    addKeys(dir, {}, [{ key, plan: 'free' }], T0)
    const { request } = await startInProcess(dir, {})
    const crowd = Array.from({ length: 1_000 }, (_, n) => `10.0.${n >> 8}.${n & 255}`)
    const ask = (from: string) =>
      request(`/api?key=${from === '' ? encodeURIComponent(key) : 'demo'}`, {
        headers: { 'x-forwarded-for': from },
      })
    const order = await orderOf(ask, [...crowd, ''])
    expect(order.indexOf(1_000)).toBeLessThan(200)
  },
)

test('in a crowd, no key is looked for where none is given', async () => {
  const looked: string[] = []
  const service = await startInProcess(dataDirectory(), {}, ({ keys }) => ({
    keys: {
      ...keys,
      find(key) {
        looked.push(key)
        return keys.find(key)
      },
    },
  }))
  await orderOf(service.request, [...new Array<string>(200).fill('/docs'), ASK])
  expect(new Set(looked)).toEqual(new Set([KEY]))
})

const cities = (n: number): string => Array.from({ length: 100 }, (_, i) => `city${n}x${i}`).join()

// Not with a key that may ask: when its budget is used up, answers come from the worker, whenever that is done.
test.each(['/stats?', '/api?key=demo&', '/nowhere?'])(
  'many that ask %s with long queries are answered in turns, and one after them does not wait for all',
  async start => {
    const { request } = await startInProcess(dataDirectory(), { publicStats: 'totals' })
    const long = Array.from({ length: 50 }, (_, n) => `${start}city=${cities(n)}`)
    const order = await orderOf(request, [...long, ASK])
    expect(order.indexOf(50)).toBeLessThan(5)
    expect(order.filter(n => n !== 50)).toEqual(Array.from({ length: 50 }, (_, n) => n))
  },
)

test.each(['/api?key=pl_nobody&', '/api?key=demo&', '/stats?'])(
  'many that ask %s with long queries do not keep that of a key waiting',
  async start => {
    const { request } = await startInProcess(dataDirectory(), { publicStats: 'totals' })
    const long = Array.from({ length: 50 }, (_, n) => `${start}city=${cities(n)}`)
    const order = await orderOf(request, [...long, `${ASK}&city=${cities(0)}`])
    expect(order.indexOf(50)).toBeLessThan(5)
  },
)

test('many that ask for /key do not keep a request waiting', async () => {
  const { request } = await startInProcess(dataDirectory(), {})
  const headers = { authorization: `Bearer ${KEY}` }
  const order = await orderOf(
    path => request(path, path === '/key' ? { headers } : {}),
    [...new Array<string>(50).fill('/key'), ASK],
  )
  expect(order.indexOf(50)).toBeLessThan(5)
})
