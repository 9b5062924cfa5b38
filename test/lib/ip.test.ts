/**
 * Address arithmetic (src/ip.ts) and which address a client has (src/http/client-address.ts,
 * contract B7).
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readRanges } from '../../src/config/parsers.ts'
import { createClientAddress, LOCAL_CLIENT } from '../../src/http/client-ip.ts'
import { canonicalIp, clientBucket, clientNetwork, maskIp, subnetOf } from '../../src/lib/ip.ts'

/** What is written, and its canonical form; `null` for what is no address. */
const CANONICAL: readonly (readonly [text: string, canonical: string | null])[] = [
  ['1.2.3.4', '1.2.3.4'],
  ['0.0.0.0', '0.0.0.0'],
  ['255.255.255.255', '255.255.255.255'],
  ['2001:DB8::1', '2001:db8::1'],
  ['2001:0db8:0000:0000:0000:0000:0000:0001', '2001:db8::1'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'], // one group of zeros is not shortened
  ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'], // the longest run is
  ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'], // the first of equal runs is
  ['::', '::'],
  ['::1', '::1'],
  ['1::', '1::'],
  ['::ffff:1.2.3.4', '1.2.3.4'],
  ['::FFFF:1.2.3.4', '1.2.3.4'],
  ['::ffff:102:304', '1.2.3.4'],
  ['::ffff:c633:6407', '198.51.100.7'],
  ['0:0:0:0:0:ffff:255.255.255.255', '255.255.255.255'],
  ['::ffff:1.2.3.4%eth0', '1.2.3.4'],
  ['::1.2.3.4', '::102:304'], // IPv4-compatible is not IPv4-mapped
  ['::ffff:0:1.2.3.4', '::ffff:0:102:304'],
  ['64:ff9b::1.2.3.4', '64:ff9b::102:304'],
  ['1::ffff:1.2.3.4', '1::ffff:102:304'],
  ['fe80::1%eth0', 'fe80::1'],
  ['fe80::1%25eth0', 'fe80::1'],
  ['', null],
  ['1.2.3', null],
  ['1.2.3.4.5', null],
  ['256.2.3.4', null],
  ['01.2.3.4', null],
  ['1.2.3.4:80', null],
  ['1.2.3.4%eth0', null],
  [' 1.2.3.4', null],
  ['1.2.3.4\n', null],
  ['0x1020304', null],
  ['16909060', null],
  ['[::1]', null],
  ['::1\n', null],
  [':::', null],
  ['::g', null],
  ['1::2::3', null],
  ['12345::', null],
  ['1:2:3:4:5:6:7', null],
  ['1:2:3:4:5:6:7:8:9', null],
  ['%eth0', null],
  ['localhost', null],
  ['unknown', null],
]

describe('canonicalIp', () => {
  test.each(CANONICAL)('reads %j as %j', (text, canonical) => {
    expect(canonicalIp(text)).toBe(canonical)
  })

  const groups = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), {
    minLength: 8,
    maxLength: 8,
  })

  test('gives one text for every spelling of an IPv6 address', () => {
    fc.assert(
      fc.property(groups, values => {
        const short = values.map(value => value.toString(16))
        const long = short.map(group => group.padStart(4, '0'))
        const spellings = [short.join(':'), long.join(':'), long.join(':').toUpperCase()]
        const canonical = canonicalIp(short.join(':'))
        expect(canonical).not.toBeNull()
        for (const spelling of [...spellings, canonical ?? '', `${spellings[0]}%eth0`]) {
          expect(canonicalIp(spelling)).toBe(canonical)
        }
      }),
    )
  })

  test('gives null or an address that stands for itself, whatever the text', () => {
    const pieces = fc.constantFrom(':', '::', '.', '%', '[', ']', 'ffff', '0', '1.2.3.4', 'g', '/')
    const texts = fc.oneof(
      fc.string(),
      fc.array(pieces).map(list => list.join('')),
    )
    fc.assert(
      fc.property(texts, text => {
        const canonical = canonicalIp(text)
        if (canonical !== null) expect(canonicalIp(canonical)).toBe(canonical)
      }),
      { numRuns: 500 },
    )
  })
})

describe('maskIp', () => {
  const masks = [
    ['185.162.7.9', '185.162.0.0'],
    ['10.0.0.0', '10.0.0.0'],
    ['255.255.255.255', '255.255.0.0'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8::'],
    ['2001:db8::1', '2001:db8::'],
    ['', ''], // an unknown ip_out stays unknown
  ] as const
  test.each(masks)('shows %j as %j', (ip, masked) => {
    expect(maskIp(ip)).toBe(masked)
  })

  test.each(['::1', '::', '2001::1'])('masks %s to its /32', ip => {
    const [high] = ip.split('::', 1)
    expect(canonicalIp(maskIp(ip))).toBe(`${high}::`)
  })
})

describe('the networks that limits count by', () => {
  test('an IPv4 client is counted by its address', () => {
    expect(clientBucket('198.51.100.7')).toBe('198.51.100.7')
    expect(clientBucket('198.51.100.8')).not.toBe(clientBucket('198.51.100.7'))
  })

  const half = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
  const ipv6 = (high: bigint, low: bigint): string => {
    const digits = ((high << 64n) | low).toString(16).padStart(32, '0')
    const groups = digits.match(/.{4}/g) ?? []
    return canonicalIp(groups.join(':')) ?? ''
  }
  const isIpv6 = ([high, low]: [bigint, bigint]): boolean => ipv6(high, low).includes(':')

  test('IPv6 clients are counted by their /64: all of it, and nothing else', () => {
    const lowHalves = fc.tuple(half, half)
    const bits = fc.integer({ min: 0, max: 63 })
    fc.assert(
      fc.property(half, lowHalves, bits, (high, [low, other], bit) => {
        fc.pre(isIpv6([high, low]) && isIpv6([high, other]))
        const flipped = high ^ (1n << BigInt(bit))
        expect(clientBucket(ipv6(high, other))).toBe(clientBucket(ipv6(high, low)))
        expect(clientBucket(ipv6(flipped, low))).not.toBe(clientBucket(ipv6(high, low)))
        expect(clientNetwork(ipv6(high, other))).toBe(clientNetwork(ipv6(high, low)))
        expect(clientNetwork(ipv6(flipped, low))).not.toBe(clientNetwork(ipv6(high, low)))
      }),
    )
  })

  test('a quota of callers counts IPv4 by the /16', () => {
    expect(clientNetwork('198.51.100.7')).toBe(clientNetwork('198.51.0.255'))
    expect(clientNetwork('198.52.100.7')).not.toBe(clientNetwork('198.51.100.7'))
    expect(clientNetwork('199.51.100.7')).not.toBe(clientNetwork('198.51.100.7'))
  })

  test('a client on a unix socket is one client', () => {
    expect(clientBucket(LOCAL_CLIENT)).toBe(LOCAL_CLIENT)
    expect(clientNetwork(LOCAL_CLIENT)).toBe(LOCAL_CLIENT)
  })

  const subnets = [
    ['0.0.0.0', 0],
    ['0.1.0.0', 1],
    ['1.0.255.255', 256],
    ['185.162.7.9', 185 * 256 + 162],
    ['255.255.255.255', 65_535],
  ] as const
  test.each(subnets)('the /16 of %s is number %d', (ip, number) => {
    expect(subnetOf(ip)).toBe(number)
  })
})

type Hop = {
  title: string
  trusted?: string
  peer: string | null
  forwardedFor: string | null
  client: string
}

const PEER = '192.0.2.1'
const UNTRUSTED: readonly Hop[] = [
  { title: 'without the header, is the peer', peer: PEER, forwardedFor: null, client: PEER },
  {
    title: 'is the peer when nobody is trusted',
    peer: PEER,
    forwardedFor: '203.0.113.9',
    client: PEER,
  },
  {
    title: 'is the peer when the peer is not the trusted one',
    trusted: '10.0.0.0/8',
    peer: PEER,
    forwardedFor: '203.0.113.9, 10.0.0.1',
    client: PEER,
  },
  {
    title: 'is not the peer in the header when an IPv6 peer is untrusted',
    trusted: '2001:db8:1::/48',
    peer: '2001:db8:2::1',
    forwardedFor: '203.0.113.9',
    client: '2001:db8:2::1',
  },
  {
    title: 'is an IPv4-mapped peer as IPv4',
    peer: '::ffff:192.0.2.1',
    forwardedFor: null,
    client: PEER,
  },
  {
    title: 'is the peer without its zone',
    peer: 'fe80::1%eth0',
    forwardedFor: null,
    client: 'fe80::1',
  },
]

/** All from the peer 10.0.0.1, which is trusted along with 10/8 and 2001:db8:1::/48. */
const TRUSTED: readonly [title: string, forwardedFor: string | null, client: string][] = [
  ['without the header, the proxy itself', null, '10.0.0.1'],
  ['the one entry', '203.0.113.9', '203.0.113.9'],
  ['the right-most entry that is not trusted', '203.0.113.9, 198.51.100.7', '198.51.100.7'],
  ['not what the client wrote itself', '1.1.1.1, 10.9.9.9, 198.51.100.7', '198.51.100.7'],
  ['the entry before several trusted hops', '203.0.113.9,10.0.0.3,10.0.0.2', '203.0.113.9'],
  ['the entry before hops of both families', '203.0.113.9, 2001:db8:1::5, 10.2.2.2', '203.0.113.9'],
  ['the left-most hop when all are trusted', '10.0.0.4, 10.0.0.3', '10.0.0.4'],
  ['an IPv6 entry', '2001:db8:ffff::1', '2001:db8:ffff::1'],
  ['an IPv6 entry in canonical form', '2001:DB8:FFFF:0:0::1', '2001:db8:ffff::1'],
  ['an IPv4-mapped entry as IPv4', '::ffff:203.0.113.9', '203.0.113.9'],
  ['the entry before an IPv4-mapped trusted hop', '203.0.113.9, ::ffff:10.0.0.2', '203.0.113.9'],
  ['an entry without its port', '203.0.113.9:51234', '203.0.113.9'],
  ['an entry in brackets', '[2001:db8:ffff::1]', '2001:db8:ffff::1'],
  ['an entry in brackets with a port', '[2001:db8:ffff::1]:51234', '2001:db8:ffff::1'],
  ['the entry before a trusted hop with a port', '203.0.113.9, 10.0.0.2:80', '203.0.113.9'],
  ['an entry amid white space', ' \t203.0.113.9  ', '203.0.113.9'],
  ['the proxy when the header is empty', '', '10.0.0.1'],
  ['the proxy when the last entry is empty', '203.0.113.9,', '10.0.0.1'],
  ['the proxy when the last entry is malformed', '203.0.113.9, unknown', '10.0.0.1'],
  ['the last good hop before a malformed entry', '203.0.113.9, junk, 10.0.0.2', '10.0.0.2'],
  ['the untrusted entry right of a malformed one', 'junk, 203.0.113.9', '203.0.113.9'],
  ['the proxy when the entry is out of range', '203.0.113.256', '10.0.0.1'],
  ['the proxy when the entry is quoted', '"203.0.113.9"', '10.0.0.1'],
  ['the proxy when the entry poses as a unix socket', 'unix', '10.0.0.1'],
]

describe('the client address', () => {
  test.each(UNTRUSTED)('$title', ({ trusted, peer, forwardedFor, client }) => {
    const ranges = trusted === undefined ? undefined : readRanges(trusted)
    expect(createClientAddress(ranges)(peer, forwardedFor)).toBe(client)
  })

  const address = createClientAddress(readRanges('10.0.0.0/8, 2001:db8:1::/48'))
  test.each(TRUSTED)('behind a trusted proxy is %s', (_, forwardedFor, client) => {
    expect(address('10.0.0.1', forwardedFor)).toBe(client)
    expect(address('::ffff:10.0.0.1', forwardedFor)).toBe(client)
  })

  test('a list of one address trusts that address only', () => {
    const only = createClientAddress(readRanges('10.0.0.1'))
    expect(only('10.0.0.1', '203.0.113.9')).toBe('203.0.113.9')
    expect(only('10.0.0.2', '203.0.113.9')).toBe('10.0.0.2')
  })

  test('on a unix socket is one local client, or what the proxy at its other end says', () => {
    const untrusting = createClientAddress(undefined)
    expect(untrusting(null, null)).toBe(LOCAL_CLIENT)
    expect(address(null, null)).toBe(LOCAL_CLIENT)
    expect(address(null, '203.0.113.9, 10.0.0.2')).toBe('203.0.113.9')
    expect(address(null, '203.0.113.9, 198.51.100.7')).toBe('198.51.100.7')
    expect(address(null, 'junk')).toBe(LOCAL_CLIENT)
  })

  test('a header of thousands of hops ends at a hop that it names', () => {
    const hops = Array.from({ length: 5000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`)
    const client = address('10.0.0.1', ['203.0.113.9', ...hops].join(','))
    expect(hops).toContain(client)
  })

  test('no forged header makes a client whose address is not the right-most untrusted', () => {
    const forged = fc.array(fc.oneof(fc.string(), fc.ipV4(), fc.ipV6(), fc.constant('10.0.0.9')))
    fc.assert(
      fc.property(forged, entries => {
        const header = [...entries, '203.0.113.9', '10.0.0.2'].join(',')
        expect(address('10.0.0.1', header)).toBe('203.0.113.9')
        expect(address('203.0.113.9', header)).toBe('203.0.113.9')
      }),
    )
  })
})
