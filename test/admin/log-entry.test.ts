/** What the live log says of requests: filters without keys, refusals with their reason, labels. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { LogPage } from '../../src/admin/api-types.ts'
import { createFilterReader } from '../../src/admin/log-entry.ts'
import { addKeys, addList } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'
import { startConsole } from './console.ts'

afterAll(cleanUp)
const KEY = 'pl_0123456789abcdef0123456789abcdef'

describe('the filters of a URL', () => {
  const filtersOf = createFilterReader('the service')
  test.each([
    ['', ''],
    ['type=http&country=de,fr', 'type=http&country=de,fr'],
    ['works=90&type=http&key=demo&type=socks5', 'works=90&type=http&type=socks5'],
    ['city=%D0%9E%D0%BC%D1%81%D0%BA+1&get=json', 'city=%D0%9E%D0%BC%D1%81%D0%BA%201&get=json'],
    ['works=101&type=http', 'works=101&type=http'],
    ['city=%ff&nonsense=1&count=3', 'count=3'],
    ['ip=192.0.2.1:80', 'ip=192.0.2.1:80'],
    ['key=demo&city=demopolis', 'city=demopolis'],
  ])('in %p are %p', (query, expected) => {
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

test('the live log shows filters, code, reason and label, and the access log does not', async () => {
  const dir = temporaryDirectory()
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http', works: 95 }])
  addKeys(dir, { free: {} }, [{ key: KEY, plan: 'free', label: 'Acme' }])
  const { api, ask, short, lines } = startConsole(dir)
  await api(`/api?key=${KEY}&type=http&get=json`)
  await api(`/api?key=${KEY}&type=socks5`)
  await api(`/api?key=${KEY}&count=x&type=http`)
  await api('/api?key=demo&type=http')
  await api('/healthz?type=http')
  const { text } = await ask('/console/log')
  expect(text).not.toContain('pl_')
  const { lines: entries, next } = JSON.parse(text) as LogPage
  expect(await short(`/console/log?after=${next}`)).toContain('"lines":[]')
  expect(await short('/console/log?after=x')).toBe('400 INVALID_PARAMETER')
  expect(entries.map(({ query, code, label }) => [query, code, label])).toEqual([
    ['type=http&get=json', null, 'Acme'],
    ['type=socks5', 'PROXIES_NOT_FOUND', 'Acme'],
    ['count=x&type=http', 'INVALID_PARAMETER', 'Acme'],
    ['type=http', null, ''],
    ['', null, ''],
  ])
  expect(entries[1]?.message).toContain('no proxies match the filters')
  expect(entries[2]?.message).toContain('count must be')
  const own = lines.map(line => Object.keys(JSON.parse(line)).join())
  expect(new Set(own)).toEqual(new Set(['time,id,method,path,status,key,records,bytes,ms,client']))
})
