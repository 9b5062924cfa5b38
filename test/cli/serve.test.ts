/** The running server: its log, the sample, long answers, and requests no well-behaved client sends. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { ANONS, SERVICES, TYPES } from '../../src/proxies/proxy.ts'
import { ask, from } from '../support/answer.ts'
import { ASK, dataDirectory, KEY } from '../support/fixtures.ts'
import { BINARY, startProgram } from '../support/program.ts'
import { startChild } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const linesOf = (output: string): string[] =>
  output.split('\n').filter(line => line.startsWith('{'))

test('the access log has one JSON line for each request', async () => {
  const server = await startChild(dataDirectory())
  const { headers, bytes } = await server.request(ASK, from('203.0.113.9'))
  await server.request('/healthz')
  await server.request('/api/', { method: 'HEAD', headers: { authorization: `Bearer ${KEY}` } })
  await server.request('/api?key=demo&works=0')
  await server.request('/api?key=nobody', { method: 'POST' })
  await server.stop()
  const entries = linesOf(server.output()).map(line => JSON.parse(line))
  const id = expect.stringMatching(/^[\w-]{10,}$/)
  const common = { time: '2026-11-20T12:00:00.000Z', id, ms: expect.any(Number) }
  const local = {
    ...common,
    method: 'GET',
    path: '/api',
    client: '127.0.0.1',
    key: null,
    records: 0,
  }
  const key = expect.stringMatching(/^[a-z0-9]{8}$/)
  const size = expect.any(Number)
  expect(entries).toEqual([
    { ...local, key, status: 200, records: 1, bytes: bytes.length, client: '203.0.113.9' },
    { ...local, path: '/healthz', status: 200, bytes: 3 },
    { ...local, method: 'HEAD', key, status: 200, bytes: 0 },
    { ...local, key: 'demo', status: 404, bytes: size },
    { ...local, method: 'POST', status: 405, bytes: size },
  ])
  const order = 'time,id,method,path,status,key,records,bytes,ms,client'
  for (const entry of entries) expect(Object.keys(entry).join()).toBe(order)
  expect(entries[0].id).toBe(headers.get('x-request-id'))
  expect(new Set(entries.map(entry => entry.id)).size).toBe(entries.length)
})

test('a new server prints commands that a shell accepts', async () => {
  const data = `${temporaryDirectory()}/my data`
  const server = await startChild(data)
  await server.stop()
  expect(server.output()).toContain(`fill it with: proxylist import FILE --data '${data}'\n`)
  expect(server.output()).toContain(`create one with: proxylist keys add --data '${data}'\n`)
})

test('every option of serve has an environment variable', async () => {
  await using server = startProgram(['serve'], {
    PROXYLIST_DATA: dataDirectory(),
    PROXYLIST_LISTEN: '127.0.0.1:0',
    PROXYLIST_ERRORS: 'text',
    PROXYLIST_LOG: 'off',
    PROXYLIST_PROVIDER_SERVICE: 'acme',
    PROXYLIST_SAMPLE: '0',
  })
  const [url] = /http:\S+/.exec(await server.says(/listening on .*\n/)) ?? []
  const answer = await fetch(`${url}${ASK}&get=json&fields=ip,acme&pretty=0`)
  expect(await answer.text()).toBe('[{"ip":"192.0.2.1:80","acme":false}]')
  expect(await (await fetch(`${url}/api`)).text()).toStartWith('Error: ')
  server.kill('SIGTERM')
  expect(await server.ended).toBe(0)
  expect(server.written).toEqual({
    stdout: '',
    stderr: expect.stringMatching(/^listening on http:\S+\nstopping\n$/),
  })
})

describe('--sample', () => {
  type Row = { ip: string; works: string }
  let server: Awaited<ReturnType<typeof startChild>>
  let rows: Row[]
  let clients = 0
  const nextClient = (): string => `10.${++clients >> 16}.${(clients >> 8) & 255}.${clients & 255}`
  /** The demo key allows two requests a minute to a client: each asks once. */
  const asDemo = (query: string) =>
    server.request(`/api?key=demo&get=json${query}`, from(nextClient()))

  beforeAll(async () => {
    server = await startChild(temporaryDirectory(), {}, ['--sample'])
    rows = JSON.parse((await asDemo('')).text)
  })
  afterAll(() => server.stop())

  test('answers the demo key with a full, masked list', () => {
    expect(rows).toHaveLength(50)
    for (const { ip, works } of rows) {
      expect(ip).toMatch(/^\d+\.\d+\.0\.0:\d+$/)
      expect(Number(works)).toBeGreaterThanOrEqual(90)
    }
    expect(server.output()).not.toMatch(/proxylist import/)
  })

  const services = SERVICES.map(service => (service === 'provider' ? 'the service' : service))
  test.each([
    ...TYPES.map(type => `type=${type}`),
    ...ANONS.map(anon => `anon=${anon}`),
    ...services.map(service => `service=${service}`),
    'ping=1000',
    'speed=100000',
    'time=60',
    'works=0',
    'works=99',
    'country=de',
    'country=de&cm=except',
    'city=Berlin',
    'city=берлин',
    'city=Berlin&lang=en',
    'count=3',
    'format=object&wrap=1&split_ip=1&fields=ip,port&pretty=0',
  ])('shows something for %s', async query => {
    const { status, text } = await asDemo(`&${encodeURI(query)}`)
    expect(status).toBe(200)
    expect(Object.keys(JSON.parse(text)).length).toBeGreaterThan(0)
  })

  test('finds its own ports and addresses', async () => {
    const [row] = rows
    for (const query of [`&port=${row?.ip.split(':')[1]}`, `&ip=${row?.ip}`]) {
      expect(JSON.parse((await asDemo(query)).text)).toContainEqual(row)
    }
  })

  test('stays fresh while time passes', async () => {
    server.setClock(86_400)
    const dated = `&fields=timecheck&time=60&count=1&pretty=0`
    let found = await asDemo(dated)
    while (found.status === 404) found = await asDemo(dated)
    expect(found.text).toBe('[{"timecheck":"2026-11-21 14:00:00"}]')
  })
})

describe('a long list', () => {
  const rows = Array.from({ length: 5_000 }, (_, n) => ({
    ip: `10.0.${n >> 8}.${n & 255}:80`,
    type: 'http',
  }))
  let server: Awaited<ReturnType<typeof startChild>>
  beforeAll(async () => {
    server = await startChild(dataDirectory(rows))
  })

  const headers = { 'accept-encoding': 'identity' }
  // Longer bodies take another path through Bun than shorter ones, see http/reply.ts.
  test.each([1, 100, 600, 900])(
    'an answer has its length in the header, with %d records',
    async count => {
      for (const get of ['txt', 'json', 'json' /* again, from the cache */]) {
        const path = `${ASK}&count=${count}&get=${get}`
        const head = await fetch(server.url + path, { method: 'HEAD', headers })
        const answer = await fetch(server.url + path, { headers })
        const text = await answer.text()
        expect(answer.headers.get('transfer-encoding')).toBeNull()
        expect(answer.headers.get('content-length')).toBe(String(text.length))
        expect(head.headers.get('content-length')).toBe(String(text.length))
        const records = get === 'txt' ? text.split('\n').length - 1 : JSON.parse(text).length
        expect(records).toBe(count)
      }
    },
  )

  test('an answer has a Date, with HEAD too', async () => {
    for (const path of [`${ASK}&count=1`, '/api', '/healthz', '/nowhere']) {
      for (const method of ['GET', 'HEAD']) {
        const date = (await fetch(server.url + path, { method })).headers.get('date')
        expect([path, date]).toEqual([
          path,
          expect.stringMatching(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/),
        ])
      }
    }
  })
})

/** The server that the requests below are sent to. */
let server: Awaited<ReturnType<typeof startChild>>
beforeAll(async () => {
  server = await startChild(dataDirectory())
})
afterAll(() => server.stop())

/**
 * Everything the server says to these bytes before it hangs up. Bun drops a request whose client has
 * ended its side, unless it is answered at once: `isOpen` keeps it.
 */
function exchange(bytes: string, isOpen = false): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname, () =>
    isOpen ? socket.write(bytes, 'latin1') : socket.end(bytes, 'latin1'),
  )
  let answer = ''
  socket.on('data', chunk => {
    answer += chunk
  })
  socket.on('error', reject)
  socket.on('close', () => resolve(answer))
  return promise
}

/** The lines of the log, once it has all that was asked before. */
async function logLines(): Promise<string[]> {
  const { headers } = await server.request('/healthz')
  const id = headers.get('x-request-id') ?? ''
  while (!server.output().includes(id)) await server.request('/healthz')
  return linesOf(server.output())
}

/** The entries of the log from the given line on, once it has all that was asked before. */
async function logged(from: number): Promise<{ path: string; client: string }[]> {
  const entries = (await logLines()).slice(from)
  return entries.map(line => JSON.parse(line)).filter(({ path }) => path !== '/healthz')
}

const CLOSE = 'Connection: close\r\n\r\n'
const get = (target: string, host = 'Host: a\r\n'): string =>
  `GET ${target} HTTP/1.1\r\n${host}${CLOSE}`

const withBody = (method: string, bytes: number): string =>
  `${method} ${ASK} HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n${CLOSE}${'x'.repeat(bytes)}`

/** The statuses allowed: several where Bun decides, 0 where it hangs up without an answer. */
type RawRequest = readonly [name: string, bytes: string, status: readonly number[]]

const RAW_REQUESTS: readonly RawRequest[] = [
  ['a Host of one character', get(ASK), [200]],
  ['an empty Host', get(ASK, 'Host:\r\n'), [200, 400]],
  ['a Host with a query', get(ASK, 'Host: x?key=other\r\n'), [200, 400]],
  ['a Host that is garbage', get(ASK, 'Host: a b/c?d#e\r\n'), [200, 400]],
  ['two Hosts', get(ASK, 'Host: a\r\nHost: b\r\n'), [200, 400]],
  ['no Host in HTTP/1.0', `GET ${ASK} HTTP/1.0\r\n\r\n`, [200]],
  ['no Host in HTTP/1.1', get(ASK, ''), [400]],
  ['bytes that are not UTF-8 in a value', get(`${ASK}&city=\u00ff`), [400]],
  ['a slash and a second ? in the key', get('/api?key=a/b?c=1'), [403]],
  ['the absolute form', get(`http://example.org${ASK}`, 'Host: example.org\r\n'), [200]],
  ['the absolute form, a short host', get(`http://a${ASK}`), [200]],
  ['a path without its slash', get(ASK.slice(1)), [400]],
  ['a path of dots', get(`/x/../api?key=${KEY}`), [200, 404]],
  ['two slashes', get(`/${ASK}`), [404]],
  ['no path', get('?'), [400]],
  ['a trailing slash', get(`/api/?key=${KEY}`), [200]],
  ['percent garbage for a key', get('/api?key=%zz'), [400]],
  ['bytes that are not UTF-8 for a key', get('/api?key=%ff%fe'), [400]],
  ['percent garbage for a value', get(`${ASK}&city=%E0%A4%A`), [400]],
  ['percent garbage for a name', get(`${ASK}&%zz=1`), [400]],
  ['percent garbage for a path', get('/%zz/%ff'), [404]],
  ['%00 for a value', get(`${ASK}&city=%00`), [400]],
  ['%00 for a key', get('/api?key=%00'), [403]],
  ['%00 in the path', get(`/api%00?key=${KEY}`), [404]],
  ['names every object has', get(`${ASK}&__proto__=1&constructor=1&toString=1`), [400]],
  ['a fragment', get(`${ASK}#top`), [200, 400, 403]],
  // Only the binary holds the limit of 8 KiB; Bun's own is 16.
  ['a URL of 9,000 bytes', get(`/api?key=${'k'.repeat(9000)}`), BINARY ? [431] : [403, 431]],
  ['a URL of 40,000 bytes', get(`/api?key=${'k'.repeat(40_000)}`), [431]],
  ['a header of 40,000 bytes', get(ASK, `Host: a\r\nX: ${'x'.repeat(40_000)}\r\n`), [431]],
  ['198 header fields', get(ASK, `Host: a\r\n${'x: 1\r\n'.repeat(196)}`), [200]],
  ['one more', get(ASK, `Host: a\r\n${'x: 1\r\n'.repeat(197)}`), [431]],
  ['control characters for a header', get(ASK, 'Host: a\r\n\u0001\u0002\r\n'), [400]],
  ['a header without a colon', get(ASK, 'Host: a\r\nno colon here\r\n'), [400]],
  ['garbage for addresses', get(ASK, 'Host: a\r\nX-Forwarded-For: ,;\u00ff,::%1\r\n'), [200]],
  ['garbage for a bearer', get('/api', 'Host: a\r\nAuthorization: Bearer \u00ff\u00fe\r\n'), [403]],
  ['garbage for encodings', get(ASK, 'Host: a\r\nAccept-Encoding: gzip;q=x,,;=\r\n'), [200]],
  ['a long body with GET, which is ignored', withBody('GET', 100_000), [200]],
  ['a body of 1 KiB with POST', withBody('POST', 1024), [405]],
  ['a longer one with POST', withBody('POST', 1025), [413]],
  [
    'broken JSON with POST',
    `POST ${ASK} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n${CLOSE}{a`,
    [405],
  ],
  [
    'a broken chunk',
    `POST ${ASK} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${CLOSE}zz\r\n`,
    [400, 405],
  ],
  ['OPTIONS for everything', `OPTIONS * HTTP/1.1\r\nHost: a\r\n${CLOSE}`, [400, 404]],
  ['CONNECT', `CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n${CLOSE}`, [400, 404]],
  ['an unknown method', `FETCH ${ASK} HTTP/1.1\r\nHost: a\r\n${CLOSE}`, [0, 400, 405]],
  ['a greeting of TLS', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\r\n\r\n', [400]],
]

describe('an odd request:', () => {
  test.each(RAW_REQUESTS)('%s', async (_, bytes, statuses) => {
    const answer = await exchange(bytes)
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1] ?? 0)
    expect(statuses).toContain(status)
    if (status === 200) expect(answer).toEndWith('\r\n\r\n192.0.2.1:80\n')
    expect(await ask(server, '/healthz')).toBe('200 ok\n')
  })

  const LENGTH = (bytes: number) => `Content-Length: ${bytes}\r\n\r\n${'x'.repeat(1024)}`
  const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n'
  test.each([
    ['GET', ASK, 200, LENGTH(2 ** 40)],
    ['HEAD', '/', 200, LENGTH(1025)],
    ['GET', '/nowhere', 404, LENGTH(2 ** 40)],
    ['GET', ASK, 200, CHUNKED],
    ['GET', `${ASK}x`, 403, CHUNKED],
    ['HEAD', '/', 200, CHUNKED],
    ['POST', ASK, 405, CHUNKED],
    ['GET', ASK, 200, CLOSE],
    ['GET', ASK, 200, 'Connection: Keep-Alive, Close\r\n\r\n'],
  ] as const)(
    '%s %s gets %d before its body arrives, and its connection is closed',
    async (method, path, status, rest) => {
      const answer = await exchange(`${method} ${path} HTTP/1.1\r\nHost: a\r\n${rest}`, true)
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} .*\r\nconnection: close\r\n`, 'is'))
    },
    5000, // an idle connection is closed after 24 seconds
  )

  test.each([ASK, `${ASK}x`, '/api', '/key', '/stats', '/healthz', '/docs', '/nowhere', '/'])(
    '%s a thousand times in a row gets one answer at most, and delays no other client',
    async path => {
      const answer = await exchange(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(1000), true)
      expect(answer.split('HTTP/1.1 ').length).toBeLessThanOrEqual(2)
      expect(await ask(server, '/healthz')).toBe('200 ok\n')
    },
    5000, // an idle connection is closed after 24 seconds
  )

  test.each(['Host: [\r\n', 'Host: x:y\r\n', 'Host:\r\n'])('the page ignores %p', async host => {
    const answer = await exchange(get('/', host), true)
    expect(answer).toStartWith('HTTP/1.1 200 ')
    expect(answer).toContain('x-request-id: ')
    expect(answer).toEndWith('</html>\n')
  })

  test.each(['GET', 'HEAD', 'POST', 'OPTIONS'])(
    '%s with Expect gets one 100 Continue',
    async method => {
      for (const path of [ASK, '/healthz', '/nowhere']) {
        const answer = await exchange(
          `${method} ${path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`,
        )
        expect([path, answer.split('HTTP/1.1 ').map(part => part.slice(0, 3))]).toEqual([
          path,
          ['', '100', expect.stringMatching(/^[24]\d\d$/)],
        ])
      }
    },
  )

  // Bun's HTTP layer closes the connection of a method that it does not know, so that the service
  // cannot answer or log it. Once this fails, Bun tells us of such requests: log them, and say so
  // in data/manual/logs.md.
  test.each(['BREW', 'FOO', 'Get'])(
    '%s is closed by Bun without an answer or a line',
    async method => {
      const before = (await logLines()).length
      expect(await exchange(`${method} /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n`)).toBe('')
      const lines = await logged(before) // those of earlier tests may come late
      expect(lines.filter(({ path }) => path === '/openapi.json')).toEqual([])
    },
  )

  test('other methods get 405 and a line in the log', async () => {
    for (const method of ['PATCH', 'PURGE', 'PROPFIND', 'M-SEARCH', 'QUERY', 'TRACE']) {
      const answer = await exchange(
        `${method} ${ASK} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
      )
      expect([method, answer.slice(0, 12)]).toEqual([method, 'HTTP/1.1 405'])
      while (!server.output().includes(`"method":"${method}"`)) await server.request('/healthz')
    }
  })
})

test('connections without a request do no harm', async () => {
  expect(await exchange('')).toBe('')
  expect(await exchange('GET /api')).not.toMatch(/^HTTP\/1\.1 (?:2|5)/)
  expect(await ask(server)).toBe('200 192.0.2.1:80\n')
})

test('the access log has the address of clients that leave early', async () => {
  const { hostname, port } = new URL(server.url)
  const before = (await logLines()).length
  const gone = Array.from({ length: 50 }, () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const socket = connect(Number(port), hostname, () => {
      socket.write(`GET ${ASK} HTTP/1.1\r\nHost: a\r\n\r\n`, () => socket.destroy())
    })
    socket.on('close', () => resolve())
    return promise
  })
  await Promise.all(gone)
  const clients = (await logged(before)).map(({ client }) => client)
  expect(new Set(clients)).toEqual(new Set(['127.0.0.1']))
})
