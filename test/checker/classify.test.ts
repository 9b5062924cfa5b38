/** Tests of anonymity by the judge's report (contract H3): a row for each kind of evidence. */
import { describe, expect, test } from 'bun:test'
import { addressesIn, classify, headersFor, worstOf } from '../../src/checker/classify.ts'

type Headers = readonly (readonly [string, string])[]

const OWN = new Set(['192.0.2.1', '2001:db8::1'])
const AGENT = 'proxylist-check/1 (+https://192.0.2.1/contact)'
const SENT = headersFor('judge.example', AGENT)

/**
 * `headers > what is found`. Headers come after those that were sent, `-Name` leaves one of them out, and `peer=` is the
 * judge's peer, which is another address unless it is given.
 */
const EVIDENCE = `
 > elite
peer=192.0.2.1 > transparent by peer
peer=2001:db8::1 > transparent by peer
-Host | host: 192.0.2.1 > elite
-Connection | Connection: Keep-Alive > elite
-Connection > elite
-Accept-Encoding > elite
Accept: */* > elite
X-Forwarded-For: 192.0.2.1 > transparent by X-Forwarded-For
x-forwarded-for: 10.0.0.1, 192.0.2.1 > transparent by x-forwarded-for
X-Forwarded-For: ::ffff:192.0.2.1 > transparent by X-Forwarded-For
X-Forwarded-For: ::ffff:c000:201 > transparent by X-Forwarded-For
X-Forwarded-For: 192.000.002.001 > transparent by X-Forwarded-For
Forwarded: for=192.0.2.1;proto=http;by=203.0.113.9 > transparent by Forwarded
Forwarded: for="192.0.2.1:4711" > transparent by Forwarded
Forwarded: for="[2001:db8::1]:4711" > transparent by Forwarded
Forwarded: for="[2001:0DB8:0::1]" > transparent by Forwarded
X-Custom: client_192.0.2.1_ > transparent by X-Custom
X-A: b | Via: 1.1 (192.0.2.1) > transparent by Via
-User-Agent | User-Agent: x 192.0.2.1 > transparent by User-Agent
X-Forwarded-For: 192.0.2.11 > anonymous by X-Forwarded-For
X-Forwarded-For: 1192.0.2.1 > anonymous by X-Forwarded-For
X-Version: 192.0.2.1.5 > anonymous by X-Version
X-Version: 5.192.0.2.1 > anonymous by X-Version
Forwarded: for="[2001:db8::11]" > anonymous by Forwarded
Via: x > anonymous by Via
Forwarded: x > anonymous by Forwarded
X-Real-IP: x > anonymous by X-Real-IP
Client-IP: x > anonymous by Client-IP
Proxy-Connection: x > anonymous by Proxy-Connection
X-Cache: x > anonymous by X-Cache
X-Unheard-Of: x > anonymous by X-Unheard-Of
-User-Agent | User-Agent: x > anonymous by User-Agent
User-Agent: x > anonymous by User-Agent
-User-Agent > anonymous by User-Agent`

describe('a proxy is classified by headers', () => {
  const CASE = /^(?:peer=(\S+))?(.*) > (.+)$/gm
  for (const [, peer = '203.0.113.9', given = '', found = ''] of EVIDENCE.matchAll(CASE)) {
    test(`${found}: ${given || peer}`, () => {
      const parts = given.split(' | ').filter(Boolean)
      const gone = parts.filter(part => part.startsWith('-')).map(part => part.slice(1))
      const added = parts
        .filter(part => !part.startsWith('-'))
        .map(
          part => [part.slice(0, part.indexOf(': ')), part.slice(part.indexOf(': ') + 2)] as const,
        )
      const headers = [...SENT.filter(([name]) => !gone.includes(name)), ...added]
      const { anon, because } = classify({ peer, headers }, SENT, OWN)
      expect(`${anon}${because && ` by ${because}`}`).toBe(found)
    })
  }

  const LONG = 'X\u001b[2J'.padEnd(99, 'x') // which a terminal would obey
  test.each<[what: string, headers: Headers, anon: string, because: string]>([
    ['in another case', SENT.map(([name, value]) => [name.toUpperCase(), value]), 'elite', ''],
    ['in another order', SENT.toReversed(), 'elite', ''],
    ['that are missing', [], 'anonymous', 'User-Agent'],
    ['with a long name', [[LONG, ''], ...SENT], 'anonymous', `X\\u001b[2J${'x'.repeat(30)}`],
  ])('%s', (_, headers, anon, because) => {
    expect(classify({ peer: '203.0.113.9', headers }, SENT, OWN)).toMatchObject({ anon, because })
  })
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
