/** Tests of which requests the admin listener looks at: Host, Origin, Sec-Fetch-Site, tokens, types. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { isOwnHost } from '../../src/admin/csrf.ts'
import { readListen } from '../../src/config/parsers.ts'
import { makeToken } from '../../src/console.ts'
import { dataDirectory } from '../support/fixtures.ts'
import { cleanUp } from '../support/temporary.ts'
import { startConsole } from './console.ts'

afterAll(cleanUp)

const HOSTS: { [where: string]: { own: string[]; foreign: string[] } } = {
  '127.0.0.1:8081': {
    own: ['127.0.0.1:8081', 'localhost:8081', '[::1]:8081'],
    foreign: [
      ...['', 'evil.example', 'evil.example:8081', '127.0.0.1', '127.0.0.1:8082', 'localhost'],
      ...[
        '127.0.0.1.evil.example:8081',
        'localhost.:8081',
        '127.0.0.1:8081:8081',
        '[::1',
        '::1:8081',
      ],
      ...['user@127.0.0.1:8081', '127.0.0.1:8081/', '10.0.0.1:8081', '127.0.0.1:08081x'],
    ],
  },
  '127.0.0.1:80': {
    own: ['127.0.0.1', 'localhost:80'],
    foreign: ['127.0.0.1:8081', 'evil.example'],
  },
  'admin.example:8081': {
    own: ['admin.example:8081', 'localhost:8081'],
    foreign: ['evil.example:8081', 'x.admin.example:8081', 'admin.example'],
  },
  '[fd00::5]:8081': { own: ['[fd00::5]:8081'], foreign: ['[fd00::6]:8081', 'fd00::5:8081'] },
  ':8081': {
    own: ['10.0.0.1:8081', '[fd00::5]:8081', 'localhost:8081'],
    foreign: ['evil.example:8081', '10.0.0.1:8082', '10.0.0.1.nip.example:8081'],
  },
  'unix:/run/admin.sock': {
    own: ['localhost:8081', '127.0.0.1:9000', '[::1]:1', 'localhost'],
    foreign: ['evil.example', 'evil.example:8081', '10.0.0.1:8081'],
  },
}

describe.each(Object.entries(HOSTS))('a listener on %s', (given, { own, foreign }) => {
  const where = readListen(given)
  test.each(own)('accepts Host %s', host => expect(isOwnHost(host, where)).toBeTrue())
  test.each(foreign)('refuses Host “%s”', host => expect(isOwnHost(host, where)).toBeFalse())
})

const OVERVIEW = '/console/overview'
const PATHS = ['/', '/-/x.js', OVERVIEW, '/metrics', '/nothing'] as const

describe('a request', () => {
  const service = startConsole(dataDirectory(), { metricsOpen: true })
  test.each<[what: string, headers: { [name: string]: string }]>([
    ['under a name that resolves here', { host: 'evil.example:8081' }],
    ['without a Host', { host: '' }],
    ['from a page elsewhere', { origin: 'https://evil.example' }],
    ['from another port of this machine', { origin: 'http://127.0.0.1:3000' }],
    ['from another scheme', { origin: 'https://127.0.0.1:8081' }],
    ['from another loopback name', { origin: 'http://localhost:8081' }],
    ['from a file or a sandbox', { origin: 'null' }],
    ['marked cross-site', { 'sec-fetch-site': 'cross-site' }],
    ['marked same-site', { 'sec-fetch-site': 'same-site' }],
    ['marked in another way', { 'sec-fetch-site': 'anything' }],
  ])('%s is refused everywhere, even with the token', async (_, headers) => {
    for (const path of PATHS) {
      const { status, text, headers: got } = await service.ask(path, { headers })
      const code = 'host' in headers ? 'HOST_REFUSED' : 'ORIGIN_REFUSED'
      expect([path, status, JSON.parse(text).code]).toEqual([path, 403, code])
      expect(got.get('access-control-allow-origin')).toBeNull()
    }
  })

  test.each([
    ['from curl, without Origin and Sec-Fetch-Site,', {}],
    ['from its own page', { origin: 'http://127.0.0.1:8081', 'sec-fetch-site': 'same-origin' }],
    ['typed into a browser', { 'sec-fetch-site': 'none' }],
    [
      'from its own page under another name',
      { host: 'localhost:8081', origin: 'http://localhost:8081' },
    ],
  ])('%s is answered', async (_, headers) => {
    expect((await service.ask(OVERVIEW, { headers })).status).toBe(200)
  })

  test('gets no permission by a preflight', async () => {
    const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    for (const path of PATHS) {
      const { status, headers: got } = await service.askBare(path, { method: 'OPTIONS', headers })
      expect(status).toBe(403)
      expect([...got.keys()].filter(name => name.startsWith('access-control'))).toEqual([])
    }
  })
})

describe('the token', () => {
  const dir = dataDirectory()
  const service = startConsole(dir)
  const withToken = (authorization: string) =>
    service.askBare(OVERVIEW, { headers: { authorization } })
  const codeOf = async (authorization: string): Promise<string> =>
    JSON.parse((await withToken(authorization)).text).code

  test('is required everywhere except for the console’s own files', async () => {
    for (const path of [...PATHS.slice(1), '/console/keys', '/console/log', '/console/import']) {
      const { status, text, headers } = await service.askBare(path)
      expect([path, status, JSON.parse(text).code]).toEqual([path, 401, 'TOKEN_MISSING'])
      expect(headers.get('www-authenticate')).toBe('Bearer')
    }
    expect((await service.askBare('/')).status).toBe(200)
  })

  test.each(['', 'Basic eDp5', 'Bearer', 'Bearer ', 'Token abc', 'Bearer a b'])(
    'is missing in “%s”',
    async authorization => expect(await codeOf(authorization)).toBe('TOKEN_MISSING'),
  )

  test('is invalid when it is wrong, longer or shorter', async () => {
    const { token } = service
    const wrong = ['x', token.slice(1), `${token}x`, token.toLowerCase(), 'x'.repeat(10_000)]
    for (const other of wrong) expect(await codeOf(`Bearer ${other}`)).toBe('TOKEN_INVALID')
    expect((await withToken(`bearer ${token}`)).status).toBe(200)
  })

  test('is stored as a hash in a file for its owner only', () => {
    const file = `${dir}/admin-token`
    expect(readFileSync(file, 'utf8')).toMatch(/^[0-9a-f]{64}\n$/)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  test('has 256 random bits', () => {
    const tokens = Array.from({ length: 20 }, () => makeToken(dir).token)
    expect(new Set(tokens).size).toBe(20)
    for (const token of tokens) expect(Buffer.from(token, 'base64url')).toHaveLength(32)
  })
})

test('a token that was replaced stops working at once, without a restart', async () => {
  const dir = dataDirectory()
  const service = startConsole(dir)
  expect((await service.ask(OVERVIEW)).status).toBe(200)
  const { token, hadOne } = makeToken(dir)
  expect(hadOne).toBeTrue()
  expect(await service.short(OVERVIEW)).toBe('401 TOKEN_INVALID')
  const headers = { authorization: `Bearer ${token}` }
  expect((await service.askBare(OVERVIEW, { headers })).status).toBe(200)
})

test('with an empty token file every token is refused, and the message says how to make one', async () => {
  const dir = dataDirectory()
  const service = startConsole(dir)
  rmSync(`${dir}/admin-token`)
  const isRefused = async () => {
    const { status, text } = await service.ask(OVERVIEW)
    expect(status).toBe(401)
    expect(JSON.parse(text).message).toBe('there is no token; make one with: proxylist console')
  }
  await isRefused()
  for (const damaged of ['', 'x', 'g'.repeat(64), '0'.repeat(63)]) {
    writeFileSync(`${dir}/admin-token`, damaged)
    await isRefused()
  }
})

describe('a write', () => {
  const service = startConsole(dataDirectory())
  const WRITES = [
    ['POST', '/console/keys'],
    ['POST', '/console/keys/abc'],
    ['POST', '/console/keys/abc/rotate'],
    ['POST', '/console/keys/abc/revoke'],
    ['POST', '/console/keys/abc/reset'],
    ['PUT', '/console/plans/gold'],
    ['POST', '/console/import'],
  ] as const
  const FORMS = [
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'text/plain',
    'Text/Plain;charset=UTF-8',
  ]
  test.each(WRITES)('is refused with a content type of forms: %s %s', async (method, path) => {
    const notJson = path === '/console/import' ? [] : ['application/octet-stream', '']
    for (const type of [...FORMS, ...notJson]) {
      const asking = { method, body: '{}', headers: { 'content-type': type } }
      const said = await service.short(path, asking)
      expect([type, said]).toEqual([type, '415 CONTENT_TYPE_REFUSED'])
    }
  })

  test('with another method names the allowed methods', async () => {
    const { status, headers } = await service.ask('/console/keys', { method: 'DELETE' })
    expect([status, headers.get('allow')]).toEqual([405, 'GET, POST'])
    expect(await service.short('/metrics', { method: 'POST', json: {} })).toBe(
      '405 METHOD_NOT_ALLOWED',
    )
  })
})

describe('every answer', () => {
  const service = startConsole(dataDirectory())
  const ANSWERS = ['/', OVERVIEW, '/console/keys', '/metrics', '/nothing', '/console/keys/%zz']
  test.each(ANSWERS)('of %s has security headers and sets no cookie', async path => {
    const { headers } = await service.ask(path)
    expect(headers.get('content-security-policy')).toStartWith("default-src 'none'; ")
    expect(headers.get('content-security-policy')).not.toContain('unsafe')
    expect(headers.get('cross-origin-opener-policy')).toBe('same-origin')
    expect(headers.get('cross-origin-resource-policy')).toBe('same-origin')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cache-control')).toBe(path === '/' ? 'no-cache' : 'no-store')
    expect(headers.get('set-cookie')).toBeNull()
  })

  test('to a path with NUL is 404, because PostgreSQL cannot store NUL', async () => {
    const { text } = await service.ask('/console/keys/a%00b')
    expect(JSON.parse(text)).toMatchObject({ code: 'NOT_FOUND', message: 'nothing is served here' })
  })

  test('that refuses has the error body of the API', async () => {
    const { text } = await service.ask('/nothing')
    const { timestamp, ...rest } = JSON.parse(text)
    expect(rest).toEqual({ status: 'error', code: 'NOT_FOUND', message: 'nothing is served here' })
    expect(timestamp).toBe('2026-11-20T12:00:00.000Z')
  })
})
