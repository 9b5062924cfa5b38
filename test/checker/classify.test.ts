/** Tests of anonymity by the judge's report (contract H3): a row for each kind of evidence. */
import { describe, expect, test } from 'bun:test'
import { addressesIn, classify, headersFor, worstOf } from '../../src/checker/classify.ts'

type Headers = readonly (readonly [string, string])[]

const OWN = new Set(['192.0.2.1', '2001:db8::1'])
const AGENT = 'proxylist-check/1 (+https://192.0.2.1/contact)'
const SENT = headersFor('judge.example', AGENT)
const without = (name: string): Headers => SENT.filter(([each]) => each !== name)

const ROWS: [what: string, headers: Headers, found: string, peer?: string][] = [
  ['nothing', SENT, 'elite'],
  ['our address as the peer', SENT, 'transparent by peer', '192.0.2.1'],
  ['our IPv6 address as the peer', SENT, 'transparent by peer', '2001:db8::1'],
  ['names in another case', SENT.map(([name, value]) => [name.toUpperCase(), value]), 'elite'],
  ['the headers in another order', [...SENT].reverse(), 'elite'],
  ['Host with our address', [...without('Host'), ['host', '192.0.2.1']], 'elite'],
  [
    'Connection with another value',
    [...without('Connection'), ['Connection', 'Keep-Alive']],
    'elite',
  ],
  ['no Connection', without('Connection'), 'elite'],
  ['no Accept-Encoding', without('Accept-Encoding'), 'elite'],
  [
    'X-Forwarded-For',
    [...SENT, ['X-Forwarded-For', '192.0.2.1']],
    'transparent by X-Forwarded-For',
  ],
  [
    'X-Forwarded-For, the last of them',
    [...SENT, ['x-forwarded-for', '10.0.0.1, 192.0.2.1']],
    'transparent by x-forwarded-for',
  ],
  [
    'X-Forwarded-For with IPv4 in IPv6',
    [...SENT, ['X-Forwarded-For', '::ffff:192.0.2.1']],
    'transparent by X-Forwarded-For',
  ],
  [
    'X-Forwarded-For with hexadecimal IPv4 in IPv6',
    [...SENT, ['X-Forwarded-For', '::ffff:c000:201']],
    'transparent by X-Forwarded-For',
  ],
  [
    'X-Forwarded-For with leading zeros',
    [...SENT, ['X-Forwarded-For', '192.000.002.001']],
    'transparent by X-Forwarded-For',
  ],
  [
    'Forwarded',
    [...SENT, ['Forwarded', 'for=192.0.2.1;proto=http;by=203.0.113.9']],
    'transparent by Forwarded',
  ],
  [
    'Forwarded, quoted, with a port',
    [...SENT, ['Forwarded', 'for="192.0.2.1:4711"']],
    'transparent by Forwarded',
  ],
  [
    'Forwarded with IPv6, with a port',
    [...SENT, ['Forwarded', 'for="[2001:db8::1]:4711"']],
    'transparent by Forwarded',
  ],
  [
    'Forwarded with long IPv6',
    [...SENT, ['Forwarded', 'for="[2001:0DB8:0::1]"']],
    'transparent by Forwarded',
  ],
  [
    'our address in a header of any name',
    [...SENT, ['X-Custom', 'client_192.0.2.1_']],
    'transparent by X-Custom',
  ],
  [
    'our address in Via, after other headers',
    [...SENT, ['X-A', 'b'], ['Via', '1.1 (192.0.2.1)']],
    'transparent by Via',
  ],
  [
    'our address in a User-Agent that is not ours',
    [...without('User-Agent'), ['User-Agent', 'x 192.0.2.1']],
    'transparent by User-Agent',
  ],
  [
    'an address that is longer',
    [...SENT, ['X-Forwarded-For', '192.0.2.11']],
    'anonymous by X-Forwarded-For',
  ],
  [
    'an address that ends so',
    [...SENT, ['X-Forwarded-For', '1192.0.2.1']],
    'anonymous by X-Forwarded-For',
  ],
  ['a number of five parts', [...SENT, ['X-Version', '192.0.2.1.5']], 'anonymous by X-Version'],
  [
    'a number of five parts that ends so',
    [...SENT, ['X-Version', '5.192.0.2.1']],
    'anonymous by X-Version',
  ],
  [
    'another IPv6 address',
    [...SENT, ['Forwarded', 'for="[2001:db8::11]"']],
    'anonymous by Forwarded',
  ],
  ...[
    'Via',
    'Forwarded',
    'X-Real-IP',
    'Client-IP',
    'Proxy-Connection',
    'X-Cache',
    'X-Unheard-Of',
  ].map((name): (typeof ROWS)[number] => [name, [...SENT, [name, 'x']], `anonymous by ${name}`]),
  ['a header that is sent twice, the same', [...SENT, ['Accept', '*/*']], 'elite'],
  [
    'a User-Agent of its own',
    [...without('User-Agent'), ['User-Agent', 'x']],
    'anonymous by User-Agent',
  ],
  ['a second User-Agent', [...SENT, ['User-Agent', 'x']], 'anonymous by User-Agent'],
  ['no User-Agent', without('User-Agent'), 'anonymous by User-Agent'],
  ['no header at all', [], 'anonymous by User-Agent'],
  [
    'a long name that a terminal would obey',
    [['X\u001b[2J'.padEnd(99, 'x'), ''], ...SENT],
    `anonymous by X\\u001b[2J${'x'.repeat(30)}`,
  ],
]

test.each(ROWS)('%s', (_, headers, found, peer = '203.0.113.9') => {
  const { anon, because } = classify({ peer, headers }, SENT, OWN)
  expect(`${anon}${because && ` by ${because}`}`).toBe(found)
})

test('the worst of several counts', () => {
  const elite = { anon: 'elite', because: '' } as const
  const via = { anon: 'anonymous', because: 'Via' } as const
  const peer = { anon: 'transparent', because: 'peer' } as const
  expect([[elite], [elite, via], [via, elite], [via, peer]].map(worstOf)).toEqual([
    elite,
    via,
    via,
    peer,
  ])
})

describe('addresses in a text', () => {
  test.each([
    ['', []],
    ['1.2.3', []],
    ['at 12:30:45', []],
    ['::1', ['::1']],
    ['a 1.2.3.4, b 5.6.7.8:80', ['1.2.3.4', '5.6.7.8']],
  ])('%j', (text, found) => expect(addressesIn(text)).toEqual(found))
})
