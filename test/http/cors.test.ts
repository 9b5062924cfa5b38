/**
 * CORS (contract A8): which pages of other sites a browser lets read answers, preflights without a
 * key and without cost, and that errors carry the same fields.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { createCors } from '../../src/http/cors.ts'
import type { Answer } from '../support/answer.ts'
import { ASK, dataDirectory } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import type { Service } from '../support/service.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

const APP = 'https://app.example.com'
const OTHER = 'https://other.example.com'
const EXPOSED = 'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Content-Disposition'

/** A service with these `--cors` origins, the same for all tests. */
const services = new Map<string | undefined, Promise<Service>>()
function serviceWith(cors: string | undefined): Promise<Service> {
  const service =
    services.get(cors) ?? startInProcess(dataDirectory(), cors === undefined ? {} : { cors })
  services.set(cors, service)
  return service
}

const originHeader = (origin?: string): RequestInit =>
  origin === undefined ? {} : { headers: { origin } }
const preflight = (origin: string): RequestInit => ({
  method: 'OPTIONS',
  headers: {
    origin,
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'authorization',
  },
})

/** The fields of an answer that concern origins. */
const fieldsOf = ({ headers }: Answer) => ({
  allow: headers.get('access-control-allow-origin'),
  expose: headers.get('access-control-expose-headers'),
  vary: headers.get('vary'),
})
const ALL = { allow: '*', expose: EXPOSED, vary: null }
const ONE = { allow: APP, expose: EXPOSED, vary: 'Origin' }
const NONE = { allow: null, expose: null, vary: null }

describe('CORS', () => {
  test.each([
    ['is off by default', undefined, APP, NONE],
    ['allows every page with *', '*', APP, ALL],
    ['allows every page with *, also without an Origin', '*', undefined, ALL],
    ['allows an origin of the list', `${OTHER},${APP}`, APP, ONE],
    ['refuses an origin that is not in the list', OTHER, APP, { ...NONE, vary: 'Origin' }],
    ['allows nothing without an Origin', OTHER, undefined, { ...NONE, vary: 'Origin' }],
    ['refuses the origin null', APP, 'null', { ...NONE, vary: 'Origin' }],
  ] as const)('%s', async (_, cors, origin, fields) => {
    const answer = await (await serviceWith(cors)).request(ASK, originHeader(origin))
    expect([answer.status, fieldsOf(answer)]).toEqual([200, fields])
  })

  test.each([
    ['/api', 400],
    ['/api?key=nobody', 403],
    [`${ASK}&type=socks4`, 404],
    ['/nowhere', 404],
    ['/readyz', 200],
  ])('adds its headers to %s with status %d', async (path, status) => {
    const answer = await (await serviceWith(APP)).request(path, originHeader(APP))
    expect([answer.status, fieldsOf(answer)]).toEqual([status, ONE])
  })
})

describe('a preflight', () => {
  test.each([
    ['*', '*', null],
    [APP, APP, 'Origin'],
    [OTHER, null, 'Origin'],
  ])('with --cors %s gets 204 without a key, and allows %p', async (cors, allow, vary) => {
    const service = await serviceWith(cors)
    for (const path of ['/api', '/nowhere']) {
      const answer = await service.request(path, preflight(APP))
      expect([answer.status, answer.text]).toEqual([204, ''])
      expect(fieldsOf(answer)).toMatchObject({ allow, vary })
      expect(answer.headers.get('access-control-allow-methods')).toBe('GET, HEAD')
      expect(answer.headers.get('access-control-allow-headers')).toBe('Authorization, *')
      expect(answer.headers.get('access-control-max-age')).toBe('7200')
      expect(answer.headers.get('x-request-id')).toMatch(/^[\w-]{10,}$/)
    }
  })

  test('does not count, even with a key', async () => {
    const service = await serviceWith('*')
    for (const _ of [1, 2, 3]) await service.request('/api?key=demo', preflight(APP))
    for (const status of [404, 404, 429]) {
      expect((await service.request('/api?key=demo&works=0')).status).toBe(status)
    }
  })

  test('is 405 without --cors; so is another OPTIONS with --cors', async () => {
    const without = await (await serviceWith(undefined)).request('/api', preflight(APP))
    expect(without.status).toBe(405)
    const other = await (await serviceWith('*')).request('/api', { method: 'OPTIONS' })
    expect([other.status, other.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  })
})

test.each([`${APP}:8443`, `${APP}.evil.example`, 'http://app.example.com', '', `${APP}/`])(
  'an origin must match whole: %j is another origin',
  origin =>
    expect(createCors({ kind: 'some', list: [APP] }).fields(origin)).toEqual({ vary: 'Origin' }),
)
