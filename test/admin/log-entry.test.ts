/** What the live log says of requests: filters without keys, refusals with their reason, labels. */
import { afterAll, describe, expect, test } from 'bun:test'
import { createFilterReader } from '../../src/admin/log-entry.ts'
import type { LogEntry } from '../../src/admin/wire.ts'
import { startConsole } from '../support/console.ts'
import { addKeys, addList } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)
const KEY = 'pl_0123456789abcdef0123456789abcdef'

describe('the filters of a URL', () => {
  const filtersOf = createFilterReader('the service')
  test.each([
    ['', ''],
    ['type=http&country=de,fr', 'type=http&country=de,fr'],
    ['works=90&type=http&key=demo&type=socks5', 'type=http,socks5&works=90'],
    ['city=%D0%9E%D0%BC%D1%81%D0%BA+1&get=json', 'city=%D0%9E%D0%BC%D1%81%D0%BA%201&get=json'],
    ['works=101&type=http', 'type=http'],
    ['get=xml&type=http&fields=ip', 'type=http'],
    ['get=json&fields=ip&type_prefix=1', 'get=json&fields=ip'],
    ['city=%ff&nonsense=1&count=3', 'count=3'],
    ['ip=192.0.2.1:80', 'ip=192.0.2.1:80'],
    ['key=demo&city=demopolis', 'city=demopolis'],
  ])('%p are %p', (query, expected) => {
    expect(filtersOf(`http://127.0.0.1/api?${query}`)).toBe(expected)
  })
  test.each([
    `key=${KEY}`,
    `k%65y=${KEY}`,
    `${KEY}`,
    `city=${KEY}`,
    `city=x${KEY.toUpperCase()}`,
    `key=a&${KEY}=1`,
    'city=temp_abc',
    'city=k-5f4dcc3b5aa765d61d8327',
    'key=0123456789&city=x0123456789',
  ])('never hold a key: %p', query => {
    expect(filtersOf(`http://127.0.0.1/api?${query}&count=3`)).toBe('count=3')
  })
})

test('a line of the live log says filters, code, reason and label; that of the access log does not', async () => {
  const dir = temporaryDirectory()
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http', works: 95 }])
  addKeys(dir, { free: {} }, [{ key: KEY, plan: 'free', label: 'Acme' }])
  const { admin, api, token, lines } = startConsole(dir)
  await api(`/api?key=${KEY}&type=http&get=json`)
  await api(`/api?key=${KEY}&type=socks5`)
  await api(`/api?key=${KEY}&count=x&type=http`)
  await api('/api?key=demo&type=http')
  await api('/healthz?type=http')
  const leaving = new AbortController()
  const headers = { host: '127.0.0.1:8081', authorization: `Bearer ${token}` }
  const where = { kind: 'tcp', hostname: '127.0.0.1', port: 8081 } as const
  const request = new Request('http://127.0.0.1:8081/console/log', {
    headers,
    signal: leaving.signal,
  })
  const { body } = await admin.handle(request, where, '127.0.0.1')
  const { value } = (await body?.getReader().read()) ?? {}
  leaving.abort()
  const text = new TextDecoder().decode(value)
  expect(text).not.toContain('pl_')
  const entries = text
    .trim()
    .split('\n')
    .map((line): LogEntry => JSON.parse(line))
  expect(entries.map(({ query, code, label }) => [query, code, label])).toEqual([
    ['type=http&get=json', null, 'Acme'],
    ['type=socks5', 'PROXIES_NOT_FOUND', 'Acme'],
    ['type=http', 'INVALID_PARAMETER', 'Acme'],
    ['type=http', null, ''],
    ['', null, ''],
  ])
  expect(entries[1]?.message).toContain('no proxies match the filters')
  expect(entries[2]?.message).toContain('count must be')
  const own = lines.map(line => Object.keys(JSON.parse(line)).join())
  expect(new Set(own)).toEqual(new Set(['time,id,method,path,status,key,records,bytes,ms,client']))
})
