/** Tests of imports that the console sends: options, results, uploads that are cut off or too large. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { createImports, IMPORTS_MAX, type ImportEnd } from '../../src/admin/import.ts'
import { spawnImport } from '../../src/cli/commands/import.ts'
import { dataDirectory } from '../support/fixtures.ts'
import { SOURCE } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { startConsole } from './console.ts'

afterAll(cleanUp)

/** A service with the imports of `serve`. */
function create() {
  const dir = dataDirectory()
  const settings = {
    ...{ data: dir, database: undefined, databaseTimeout: 2000 },
    ...{ providerService: 'the service', geoip: [] },
  }
  const service = startConsole(dir, {
    runImport: (upload, fd) => spawnImport({ ...upload, settings }, fd, SOURCE),
  })
  /** The lines of the answer, without progress. */
  async function send(query: string, body: string): Promise<{ [member: string]: unknown }> {
    const { text } = await service.ask(`/console/import?${query}`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/octet-stream' },
    })
    const lines = text
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(lines.slice(0, -1).every(({ kind }) => kind === 'progress')).toBeTrue()
    return lines.at(-1)
  }
  return { ...service, dir, send }
}

const ROW = (i: number): string => `203.0.113.${i}:8080\n`
const rows = (n: number): string => Array.from({ length: n }, (_, i) => ROW(i)).join('')

describe('an import', () => {
  test('reports as the command does, names rejected rows by file, and is visible at once', async () => {
    const service = create()
    const body = `${ROW(1)}bad\n${ROW(2)}`
    const json = { kind: 'regular' }
    const { key } = await service.value('/console/keys', { method: 'POST', json })
    const query = `/api?key=${key}&ip=203.0.113.2:8080`
    expect(await service.api(query)).toBe('404 PROXIES_NOT_FOUND')
    expect(await service.send('name=my%20%3Cb%3E.txt&type=socks5', body)).toEqual({
      ...{
        kind: 'done',
        read: 3,
        added: 2,
        updated: 0,
        unchanged: 0,
        rejected: 1,
        removed: 0,
        skipped: 0,
      },
      messages: ['my <b>.txt:2: ip must be an IPv4 address with a port, a.b.c.d:port'],
    })
    expect(await service.api(query)).toBe('200 203.0.113.2:8080\n')
    const silent = await service.send('name=b.txt&type=socks5', ROW(3))
    expect(silent).toMatchObject({ kind: 'done', added: 1, messages: [] })
  })

  test('that would shrink the list is refused as by the command, unless it is confirmed', async () => {
    const service = create()
    await service.send('type=http&replace=1&allow_shrink=1', rows(120))
    expect(await service.send('name=b.txt&type=http&replace=1', rows(10))).toEqual({
      kind: 'failed',
      message:
        'this would shrink the list from 120 rows to 10; nothing was imported (--allow-shrink if that is meant)',
      messages: [],
    })
    const { message } = await service.send('name=b.txt&type=http&replace=1', '')
    expect(message).toStartWith('b.txt has no rows and would empty the list; ')
    const meant = await service.send('type=http&replace=1&allow_shrink=1', rows(10))
    expect(meant).toMatchObject({ kind: 'done', removed: 110 })
  })

  test.each([
    ['of nothing known', '\0\0\0\0', /^x\.json: is not text/],
    ['without a usable row', '1.2.3.4:0\n1.2.3.4:0\n', /^x\.json: no row is usable/],
  ])('that is %s leaves the list unchanged, and says why', async (_, body, message) => {
    const service = create()
    const before = (await service.value('/console/overview')).list
    const last = await service.send('name=x.json&type=http', body)
    expect(last.kind).toBe('failed')
    expect(last.message).toMatch(message)
    expect((await service.value('/console/overview')).list).toEqual(before)
  })
})

describe('an import request', () => {
  const BAD = [
    ['type=ftp', 'type must be http or https or socks4 or socks5'],
    ['replace=maybe', 'replace must be 1 or 0'],
    ['type=http&type=https', 'type may be given only once'],
    ['data=/etc', /^unknown parameter/],
    ['name=%ff', 'the query must be valid UTF-8'],
  ] as const
  const service = create()
  test.each(BAD)('with %s is refused before it is read', async (query, message) => {
    const { text, status } = await service.ask(`/console/import?${query}`, {
      ...{ method: 'POST', body: ROW(1) },
    })
    expect([status, JSON.parse(text).code]).toEqual([400, 'INVALID_PARAMETER'])
    expect(JSON.parse(text).message).toMatch(message)
  })

  test('into the sample is refused', async () => {
    const sample = startConsole(dataDirectory())
    const { text } = await sample.ask('/console/import', { method: 'POST', body: ROW(1) })
    expect(JSON.parse(text)).toMatchObject({
      code: 'CONFLICT',
      message: 'the sample list is built in: nothing can be imported into it',
    })
  })
})

/** Imports whose processes are ended by hand; each remembers what it was given. */
function createByHand(bytesMax = 1000) {
  const dir = temporaryDirectory()
  const given: { text: string; end: (end: ImportEnd) => void; isKilled: () => boolean }[] = []
  const imports = createImports({
    ...{ dir, bytesMax },
    run(_, fd) {
      const { promise, resolve } = Promise.withResolvers<ImportEnd>()
      let isKilled = false
      given.push({ text: readFileSync(fd, 'utf8'), end: resolve, isKilled: () => isKilled })
      const kill = (): void => {
        isKilled = true
        resolve({ isDone: false, stdout: '', stderr: '' })
      }
      return { ended: promise, bytesRead: () => 5, kill }
    },
  })
  const post = imports.routes['/console/import'].POST
  /** Starts an import of a body; gives its lines as a stream. */
  async function send(body: ReadableStream<Uint8Array> | string, init: RequestInit = {}) {
    const request = new Request('http://x/console/import', { method: 'POST', body, ...init })
    const replied = await post({ request, name: '', nowMs: 0 })
    if (replied.kind !== 'lines') throw new Error('there are no lines')
    return replied.lines
  }
  return { ...imports, dir, given, send }
}
const chunks = (...texts: readonly string[]): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (const text of texts) controller.enqueue(Buffer.from(text))
      controller.close()
    },
  })
const DONE = { isDone: true, stdout: '{"read":1}', stderr: '' }
const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'done',
    error => error.code,
  )

describe('an upload', () => {
  test('is complete before its import begins, in an unnamed file', async () => {
    const { send, given, dir } = createByHand()
    const { promise, resolve } = Promise.withResolvers<void>()
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(Buffer.from('one,'))
        await promise
        controller.enqueue(Buffer.from('two'))
        controller.close()
      },
    })
    const sent = send(body)
    await Bun.sleep(0)
    expect(given).toEqual([])
    expect(readdirSync(dir)).toEqual([])
    resolve()
    const lines = await sent
    expect(given.map(({ text }) => text)).toEqual(['one,two'])
    given[0]?.end(DONE)
    expect(await new Response(lines).text()).toBe('{"kind":"done","read":1,"messages":[]}\n')
  })

  test('over the size limit is refused, with or without a length, and imports nothing', async () => {
    const { send, given, dir } = createByHand(10)
    const headers = { 'content-length': '11' }
    expect(await codeOf(send('x', { headers }))).toBe('BODY_TOO_LARGE')
    expect(await codeOf(send(chunks('123456', '78901')))).toBe('BODY_TOO_LARGE')
    expect(given).toEqual([])
    const lines = await send(chunks('1234567890'))
    given[0]?.end(DONE)
    await new Response(lines).text()
    expect(readdirSync(dir)).toEqual([])
  })

  test('that is cut off imports nothing', async () => {
    const { send, given } = createByHand()
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(Buffer.from('one'))
        controller.error(new Error('the connection was closed'))
      },
    })
    expect(await codeOf(send(broken))).toBe('INVALID_PARAMETER')
    const headers = { 'content-length': '9' }
    expect(await codeOf(send(chunks('short'), { headers }))).toBe('INVALID_PARAMETER')
    expect(given).toEqual([])
  })
})

describe('a running import', () => {
  test('ends when its client disconnects', async () => {
    const { send, given } = createByHand()
    const controller = new AbortController()
    await send('x', { signal: controller.signal })
    controller.abort()
    expect(given[0]?.isKilled()).toBeTrue()
    const lines = await send('x')
    await lines.cancel()
    expect(given[1]?.isKilled()).toBeTrue()
  })

  test('counts towards a limit until it ends; a refused import does not count', async () => {
    const { send, given } = createByHand(10)
    const tooLarge = () => send(chunks('12345678901'))
    for (let n = 0; n < IMPORTS_MAX; n += 1) {
      expect(await codeOf(tooLarge())).toBe('BODY_TOO_LARGE')
      await send('x')
    }
    expect(await codeOf(send('x'))).toBe('CONFLICT')
    given[0]?.end(DONE)
    await Bun.sleep(0)
    expect(await codeOf(send('x'))).toBe('done')
  })

  test('that crashes or is ended by the server says that the list has all rows or none', async () => {
    const { send, given, close } = createByHand()
    const [crashed, ended] = [await send('x'), await send('x')]
    given[0]?.end({ isDone: false, stdout: '', stderr: 'panic\n    at /srv/secret.ts:1\n' })
    close()
    for (const lines of [crashed, ended]) {
      expect(await new Response(lines).text()).toBe(
        '{"kind":"failed","message":"the import was ended; the list has all of its rows or none","messages":[]}\n',
      )
    }
  })
})

test('an import reports its progress once a second', async () => {
  const { send, given } = createByHand()
  const reader = (await send('x')).getReader()
  const { value } = await reader.read()
  expect(new TextDecoder().decode(value)).toBe('{"kind":"progress","bytes":5}\n')
  given[0]?.end(DONE)
  const { value: last } = await reader.read()
  expect(new TextDecoder().decode(last)).toStartWith('{"kind":"done"')
  expect((await reader.read()).done).toBeTrue()
})
