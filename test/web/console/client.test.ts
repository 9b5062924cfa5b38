/** How the console keeps its token, asks and imports, without a browser. */
import { afterEach, describe, expect, test } from 'bun:test'
import type { ImportLine } from '../../../src/admin/api-types.ts'
import { keepToken, readToken, takeToken, tokenIn } from '../../../src/web/console/address.ts'
import { createClient, type RequestError } from '../../../src/web/console/client.ts'
import {
  createImportQueue,
  type ImportItem,
  inConsole,
} from '../../../src/web/console/import-queue.ts'

/** The parts of a window that hold the token. */
function tab(hash: string) {
  const stored = new Map<string, string>()
  const replaced: string[] = []
  return {
    stored,
    replaced,
    location: { hash, pathname: '/' },
    history: { replaceState: (_: null, __: string, url: string) => void replaced.push(url) },
    sessionStorage: {
      getItem: (name: string) => stored.get(name) ?? null,
      setItem: (name: string, value: string) => void stored.set(name, value),
      removeItem: (name: string) => void stored.delete(name),
    },
  }
}

describe('the token', () => {
  test('moves from the fragment into the tab, and leaves the history', () => {
    const own = tab('#token=abc-DEF_1')
    expect(takeToken(own)).toBe(true)
    expect(readToken(own)).toBe('abc-DEF_1')
    expect(own.replaced).toEqual(['/'])
  })

  test('that is empty changes nothing but the fragment', () => {
    const own = tab('#token=')
    keepToken(own, 'former')
    expect(takeToken(own)).toBe(false)
    expect(readToken(own)).toBe('former')
    expect(own.replaced).toEqual(['/'])
  })

  test('is not taken from another fragment', () => {
    const own = tab('#keys')
    expect(takeToken(own)).toBe(false)
    expect(own.replaced).toEqual([])
  })

  test.each([
    ['  abc  ', 'abc'],
    ['http://127.0.0.1:8081/#token=abc', 'abc'],
    ['http://127.0.0.1:8081/#token=a%2Bb&x=1', 'a+b'],
    ['http://127.0.0.1:8081/#token=%', '%'],
  ])('in %p is %p', (pasted, token) => expect(tokenIn(pasted)).toBe(token))
})

const servers: { stop(): unknown }[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.stop()
})

/** A listener that answers with `answer`; requests of the console are sent to it. */
function listen(answer: (request: Request) => Response | Promise<Response>): string {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer })
  servers.push({ stop: () => server.stop(true) })
  return `http://127.0.0.1:${server.port}`
}

const clientOf = (onUnauthorized: (message: string) => void = () => {}) =>
  createClient('TOKEN', onUnauthorized)

/** What a promise is rejected with. */
const errorOf = (promise: Promise<unknown>): Promise<RequestError> =>
  promise.then(
    () => {
      throw new Error('it was not rejected')
    },
    error => error,
  )

describe('a request', () => {
  test('carries the token in its header field and nowhere else', async () => {
    const seen: string[] = []
    const origin = listen(async request => {
      seen.push(request.url, await request.text(), `${request.headers.get('authorization')}`)
      return Response.json({ id: 1 })
    })
    expect(await clientOf().send<{ id: number }>('POST', `${origin}/x`, { a: 1 })).toEqual({
      id: 1,
    })
    expect(seen).toEqual([`${origin}/x`, '{"a":1}', 'Bearer TOKEN'])
  })

  test('that is refused says what the server says, and of which field', async () => {
    const said = { message: 'burst must be a number', field: 'burst' }
    const origin = listen(() => Response.json(said, { status: 400 }))
    const error = await errorOf(clientOf().send('DELETE', `${origin}/x`))
    expect([error.message, error.field]).toEqual([said.message, 'burst'])
  })

  test('with a token that is not taken ends the session once', async () => {
    const origin = listen(() => Response.json({ message: 'make a new one' }, { status: 401 }))
    const said: string[] = []
    const client = clientOf(message => said.push(message))
    await Promise.all([errorOf(client.get(`${origin}/x`)), errorOf(client.get(`${origin}/y`))])
    expect(said).toEqual(['make a new one'])
    expect(client.isOver()).toBeTrue()
    expect((await errorOf(client.get(`${origin}/z`))).message).toBe('Sign in again first.')
  })

  test.each([
    ['<html>', 'the server answered with status 502'],
    ['null', 'the server answered with status 502'],
  ])('that something else answers with %p says the status', async (body, message) => {
    const origin = listen(() => new Response(body, { status: 502 }))
    expect((await errorOf(clientOf().get(`${origin}/x`))).message).toBe(message)
  })

  test('without a server says so', async () => {
    const error = await errorOf(clientOf().get('http://127.0.0.1:1/x'))
    expect(error.message).toBe('The server does not answer.')
  })
})

const DONE: ImportLine = {
  ...{
    kind: 'done',
    read: 1,
    added: 1,
    updated: 0,
    unchanged: 0,
    rejected: 0,
    removed: 0,
    skipped: 0,
  },
  messages: [],
}
const FILES = [
  { name: 'a.txt', size: 10 },
  { name: 'b.txt', size: 20 },
]
const kinds = (items: readonly ImportItem[]): string[] => items.map(({ state }) => state.kind)

/** A queue whose files are over when the test says so. */
function startQueue() {
  const queue = createImportQueue()
  const begun: { done: (line: ImportLine) => void; fail: (error: Error) => void }[] = []
  const cancelled: number[] = []
  queue.add(FILES, file => {
    const index = FILES.indexOf(file)
    const { promise, resolve, reject } = Promise.withResolvers<ImportLine>()
    begun[index] = { done: resolve, fail: reject }
    return { done: promise, cancel: () => void cancelled.push(index) }
  })
  return { queue, begun, cancelled }
}

describe('imports', () => {
  test.each([
    [
      '10 rows (--allow-shrink if that is meant)',
      '10 rows (“Also by one less than half as long” if',
    ],
    ['type is required (or give --type)', 'type is required (or give “Type of bare lines”)'],
    ['name it with --map COLUMN=ip', 'name it with proxylist import --map COLUMN=ip'],
    ['give --ping-unit ms', 'give proxylist import --ping-unit ms'],
    ['a.txt:2: ip is -- or --odd', 'a.txt:2: ip is -- or --odd'],
  ])('say %j with the fields of the console: %j', (said, shown) => {
    expect(inConsole(said)).toStartWith(shown)
  })

  test('of several files are sent one after the other', async () => {
    const { queue, begun } = startQueue()
    expect([kinds(queue.items()), begun.length]).toEqual([['sending', 'waiting'], 1])
    begun[0]?.done(DONE)
    await Promise.resolve()
    expect([kinds(queue.items()), begun.length]).toEqual([['done', 'sending'], 2])
    expect(queue.isBusy()).toBe(true)
  })

  test('go on with the next file after one that failed', async () => {
    const { queue, begun } = startQueue()
    begun[0]?.fail(new Error('the connection was lost'))
    await Promise.resolve()
    await Promise.resolve()
    expect(queue.items()[0]?.state).toEqual({ kind: 'failed', message: 'the connection was lost' })
    expect(kinds(queue.items())).toEqual(['failed', 'sending'])
  })

  test('can be cancelled while they are sent and while they wait', () => {
    const { queue, cancelled, begun } = startQueue()
    queue.cancel(2)
    expect(kinds(queue.items())).toEqual(['sending', 'cancelled'])
    queue.cancel(1)
    expect([kinds(queue.items()), cancelled]).toEqual([['cancelled', 'cancelled'], [0]])
    expect([queue.isBusy(), begun.length]).toEqual([false, 1])
    queue.clear()
    expect(queue.items()).toEqual([])
  })

  test('that end after they were cancelled stay cancelled', async () => {
    const { queue, begun } = startQueue()
    queue.cancel(1)
    begun[0]?.done(DONE)
    await Promise.resolve()
    expect(kinds(queue.items())).toEqual(['cancelled', 'sending'])
  })

  test('tell observers of each change until they leave', () => {
    const { queue } = startQueue()
    let calls = 0
    const leave = queue.subscribe(() => {
      calls += 1
    })
    queue.cancel(2)
    expect(calls).toBe(1)
    leave()
    queue.cancel(1)
    expect(calls).toBe(1)
  })
})
