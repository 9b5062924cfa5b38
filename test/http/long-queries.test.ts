/** Requests that take long to read or to answer, or count for nothing (contract B9): those of one client keep nobody else waiting. */
import { afterAll, expect, test } from 'bun:test'
import { ASK, dataDirectory, KEY } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

/** The form of each answer, in the order in which they come. */
async function orderOf(ask: (path: string) => Promise<unknown>, paths: readonly string[]) {
  const order: number[] = []
  await Promise.all(paths.map((path, n) => ask(path).then(() => order.push(n))))
  return order
}

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

test('many that ask for long answers do not keep a request waiting', async () => {
  const rows = Array.from({ length: 250 }, (_, n) => ({ ip: `10.9.0.${n}:3128`, type: 'http' }))
  const { request } = await startInProcess(dataDirectory(rows), {})
  const [long, short] = [`${ASK}&get=json`, `${ASK}&count=1`]
  for (const path of [long, long, short, short]) await request(path) // from now on they are kept
  const order = await orderOf(request, [...new Array<string>(50).fill(long), short])
  expect(order.indexOf(50)).toBeLessThan(5)
})
