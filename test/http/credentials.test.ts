/**
 * Where the key of a request is read from (spec 5), which URLs are remembered with it, and that no
 * message repeats it.
 */
import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import fc from 'fast-check'
import { LRUCache } from 'lru-cache'
import { createAccess } from '../../src/access/access.ts'
import { newKey } from '../../src/access/key.ts'
import { createAdmissions, createHandler, type Outcome } from '../../src/api/handler.ts'
import { createQueryReader } from '../../src/api/query.ts'
import { createResponseCache } from '../../src/api/response-cache.ts'
import { createCredentialReader, keyOf } from '../../src/http/credentials.ts'
import { splitQueryString } from '../../src/lib/query-string.ts'
import { openMemoryList } from '../../src/sqlite/server-list.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { anyQuery, anyText, queryOf, valueText } from '../api/query-strings.ts'
import { refusal, resultOf, unlessRefused } from '../api/thrown.ts'
import { ASK, dataDirectory, KEY, T0, UNLIMITED } from '../support/fixtures.ts'
import { startInProcess } from '../support/in-process.ts'
import type { Service } from '../support/service.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

describe('keyOf', () => {
  test.each([
    ['key=K', null, 'K'],
    ['type=http&key=K', null, 'K'],
    ['key=a%2Bb%20c', null, 'a+b c'],
    ['', 'Bearer K', 'K'],
    ['', 'bearer K', 'K'],
    ['', 'Bearer   K  ', 'K'],
    ['key=K', 'Bearer K', 'K'],
    ['key=K', 'Basic dTpw', 'K'],
    ['key=K', '', 'K'],
    ['key=K', 'Bearer', 'K'],
    ['', 'Bearer K, Bearer K', 'K'], // two headers, as HTTP joins them
    ['', 'Bearer K,bearer K', 'K'],
  ] as const)('of %j and %j is %j', (query, authorization, key) => {
    expect(keyOf(splitQueryString(query), authorization)).toBe(key)
  })

  test.each([
    ['', null],
    ['key', null],
    ['key=', null],
    ['key=&key=', null],
    ['key=', 'Bearer K'],
    ['key', 'Bearer K'],
    ['%6bey=', 'Bearer K'],
    ['key=&key=K', null],
    ['key=K&key=', null],
    ['key=K&key=', 'Bearer K'],
    ['Key=K', null],
    ['kkey=K', null],
    ['type=http', null],
    ['', ''],
    ['', 'Bearer'],
    ['', 'Bearer '],
    ['', 'K'],
    ['', 'Basic dTpw'],
    ['', 'NotBearer K'],
  ] as const)('is missing in %j and %j', (query, authorization) => {
    const error = refusal(() => keyOf(splitQueryString(query), authorization))
    expect([error.code, error.status]).toEqual(['KEY_MISSING', 400])
  })

  test.each([
    ['', 'Bearer SecretA b'],
    ['', 'Bearer SecretA, Bearer SecretB'],
    ['', 'Bearer SecretA,bearer SecretB'],
    ['key=SecretA&key=SecretB', null],
    ['key=SecretA&key=SecretA', null],
    ['key=SecretA', 'Bearer SecretB'],
    ['key=SecretA%ff', 'Bearer SecretA'],
    ['key=SecretA%zz', null],
  ] as const)('is refused, unrepeated, in %j and %j', (query, authorization) => {
    const error = refusal(() => keyOf(splitQueryString(query), authorization))
    expect([error.code, error.status]).toEqual(['INVALID_PARAMETER', 400])
    expect(error.message).not.toContain('Secret')
  })
})

describe('a key', () => {
  test.each(['%', '%z', '%zz', '%a', '%ff', '%c3', '%c3%28', '%ed%a0%80', '%f8%88%80%80%80'])(
    'is refused when it holds %s, which is not UTF-8',
    sequence => {
      const error = refusal(() => keyOf(splitQueryString(`key=abc${sequence}`), null))
      expect([error.code, error.status]).toEqual(['INVALID_PARAMETER', 400])
      expect(error.message).toBe('key must be valid UTF-8 in percent-encoding')
    },
  )

  test('of any query string is one that it holds, or an ApiError and nothing else', () => {
    fc.assert(
      fc.property(anyQuery, fc.option(anyText), (text, authorization) => {
        const pairs = splitQueryString(text)
        const key = unlessRefused(() => keyOf(pairs, authorization))
        if (key === null) return
        const inQuery = pairs.some(({ name, value }) => name === 'key' && value === key)
        expect(inQuery || authorization?.endsWith(key)).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })
})

const URL_START = 'http://127.0.0.1:8080/api?'

describe('the query string of a request', () => {
  test.each([
    ['/api?key=K', null, 'K', '&'],
    ['/api?key=K&type=http', null, 'K', '&type=http'],
    ['/api?type=http&key=K', null, 'K', 'type=http&'],
    ['/api?type=http&key=pl_a-1&count=2', null, 'pl_a-1', 'type=http&count=2'],
    ['http://127.0.0.1:8080/api?key=K&count=2', null, 'K', '&count=2'],
    // Not plain, or not once: it stays, and is skipped as a parameter.
    ['/api?key=a%2Bb', null, 'a+b', 'key=a%2Bb'],
    ['/api?%6bey=K', null, 'K', '%6bey=K'],
    ['/api?xkey=1&key=K', null, 'K', 'xkey=1&key=K'],
    ['/api?key=K&city=%6b', null, 'K', 'key=K&city=%6b'],
    ['/api?key=K', 'Bearer K', 'K', 'key=K'],
    ['/api?type=http', 'Bearer K', 'K', 'type=http'],
    ['/api', 'Bearer K', 'K', ''],
  ] as const)('%j with %j: key %j, query string %j', (url, authorization, key, queryString) => {
    const read = createCredentialReader().read(url, authorization)
    expect([read.key, read.queryString]).toEqual([key, queryString])
  })

  test('has no key to read where there is none', () => {
    const { read } = createCredentialReader()
    for (const url of ['/api', '/api?', '/api?type=http']) {
      expect(refusal(() => read(url, null)).code).toBe('KEY_MISSING')
    }
  })
})

/** URLs are remembered when they are repeated. */
const TWICE = [1, 2]

describe('a reader of credentials remembers', () => {
  test('a URL only when it is asked to', () => {
    const { read, remember } = createCredentialReader()
    const url = `${URL_START}key=K&type=http`
    const first = read(url, null)
    expect(read(url, null)).not.toBe(first)
    remember(url, first)
    expect(read(url, null)).not.toBe(first) // many URLs are sent only once
    remember(url, first)
    expect(read(url, null)).toBe(first)
    for (const _ of TWICE) remember(url, { key: 'other', queryString: '', isStored: false })
    expect(read(url, null)).toBe(first)
  })

  test('a URL, and still reads a header beside it', () => {
    const { read, remember } = createCredentialReader()
    const url = `${URL_START}key=SecretA`
    for (const _ of TWICE) remember(url, read(url, null))
    expect(read(url, 'Bearer SecretA').key).toBe('SecretA')
    const error = refusal(() => read(url, 'Bearer SecretB'))
    expect(error.code).toBe('INVALID_PARAMETER')
    expect(error.message).toContain('differs between the query and the Authorization header')
    expect(refusal(() => read(url, 'Bearer a b')).code).toBe('INVALID_PARAMETER')
  })

  test('no long URL: strangers could fill the memory with them', () => {
    const { read, remember } = createCredentialReader()
    for (const [length, isRemembered] of [
      [512, true],
      [513, false],
    ] as const) {
      const url = `/api?key=K&city=${'x'.repeat(length - '/api?key=K&city='.length)}`
      const first = read(url, null)
      for (const _ of TWICE) remember(url, first)
      expect(read(url, null) === first).toBe(isRemembered)
    }
  })

  test('30,000 URLs, those that were used last', () => {
    const { read, remember } = createCredentialReader()
    const urls = Array.from({ length: 30_001 }, (_, i) => `/api?key=K${i}`)
    const [used = '', unused = ''] = urls
    for (const url of urls) {
      for (const _ of TWICE) remember(url, read(url, null))
      read(used, null)
    }
    expect(read(used, null)).toBe(read(used, null))
    expect(read(unused, null)).not.toBe(read(unused, null))
  })
})

describe('the service remembers the URL of a request', () => {
  let service: Service
  let seconds = 0
  beforeAll(async () => {
    const rows = [{ ip: '192.0.2.1:80', type: 'http', works: 95 }]
    service = await startInProcess(dataDirectory(rows), {})
  })

  /** The URLs that a request leaves in the memory of the service. */
  async function remembered(path: string, init: RequestInit = {}): Promise<string[]> {
    const set = spyOn(LRUCache.prototype, 'set')
    service.setClock(seconds)
    seconds += 30 // or the limits of `demo` would refuse it
    try {
      await service.request(path, init)
      const names = set.mock.calls.map(([name]) => String(name))
      return names.filter(name => name.includes('/api'))
    } finally {
      set.mockRestore()
    }
  }
  const header = { authorization: `Bearer ${KEY}` }

  test('with the key of a customer, once, when it is repeated', async () => {
    const path = `${ASK}&count=7`
    expect(await remembered(path)).toEqual([])
    expect(await remembered(path)).toEqual([`http://127.0.0.1${path}`])
    expect(await remembered(path)).toEqual([])
  })

  test.each([
    ['the key demo', '/api?key=demo', {}, 200],
    ['a wrong key', '/api?key=pl_wrong', {}, 403],
    ['a wrong temporary key', '/api?key=temp_wrong', {}, 403],
    ['no key', '/api', {}, 400],
    ['a query that is refused', `${ASK}&works=101`, {}, 400],
    ['a query that nothing matches', `${ASK}&port=9`, {}, 404],
    ['a key in the header', '/api?count=8', { headers: header }, 200],
    ['a key in the header, too', `${ASK}&count=9`, { headers: header }, 200],
  ])('no other request: not with %s', async (_, path, init, status) => {
    for (const _ of TWICE) expect(await remembered(path, init)).toEqual([])
    service.setClock(seconds)
    expect((await service.request(path, init)).status).toBe(status)
  })
})

describe('the key', () => {
  const registry = openRegistry(temporaryDirectory())
  const list = openMemoryList()
  afterAll(() => {
    registry.close()
    list.close()
  })
  const provider = 'the service'
  const key = newKey('regular')
  registry.plans.set({ ...UNLIMITED, name: 'unlimited' })
  registry.keys.add({ key, label: '', plan: 'unlimited', expiresAt: null }, T0)
  const handle = createHandler({
    admissions: createAdmissions(),
    clock: () => T0,
    access: createAccess(registry.keys, registry.usage),
    readQuery: createQueryReader(provider),
    cache: createResponseCache({ reader: list, streamer: null, provider, bytesMax: 0 }),
  })
  const { read, remember } = createCredentialReader()

  const same = (outcome: Outcome): Outcome => outcome
  /** The message that a request gets; the list is empty, so each gets one. */
  async function messageOf(query: string, authorization: string | null): Promise<string> {
    const credentials = resultOf(() => read(`/api?${query}`, authorization))
    if (credentials instanceof Error) return credentials.message
    const outcome = await handle({ ...credentials, ip: () => '198.51.100.7', nowMs: T0 }, same)
    if (outcome.kind === 'answered') throw new Error('an empty list was answered')
    for (const _ of TWICE) if (authorization === null) remember(`/api?${query}`, credentials)
    expect(outcome.cause).toBe(outcome.error)
    return outcome.error.message
  }

  test('is never in a message, whatever the query string', async () => {
    const escaped = `%${key.charCodeAt(0).toString(16)}${key.slice(1)}`
    const slips = [key, escaped, `x${key}`, `${key}.`, `key${key}`, ' key', 'Key']
    const keyed = fc.constantFrom('', '', `key=${key}`, `key=${escaped}`, 'key=')
    const values = fc.oneof(valueText, fc.constantFrom(key, escaped))
    const query = fc.tuple(keyed, queryOf(slips, values), keyed, fc.constantFrom(...slips, 'x'))
    const header = fc.constantFrom(null, `Bearer ${key}`, `bearer  ${key} `, `Basic ${key}`)
    await fc.assert(
      fc.asyncProperty(query, header, async ([first, middle, last, slip], authorization) => {
        const text = [first, middle, `${slip}=1`, last].filter(Boolean).join('&')
        expect(await messageOf(text, authorization)).not.toContain(key)
        expect(await messageOf([first, middle].join('&'), authorization)).not.toContain(key)
      }),
      { numRuns: 500 },
    )
  })
})
