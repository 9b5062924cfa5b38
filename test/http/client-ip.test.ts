/** Which address a client has (contract B7), and what limits count it by. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readRanges } from '../../src/config/parsers.ts'
import { createClientIp, LOCAL_CLIENT } from '../../src/http/client-ip.ts'

const PEER = '192.0.2.1'
/** A title, and what is trusted: the peer and its header, and the client. */
type Hop = readonly [string, trusted: string, peer: string, header: string | null, client: string]
const UNTRUSTED: readonly Hop[] = [
  ['without the header, is the peer', '', PEER, null, PEER],
  ['is the peer when no proxy is trusted', '', PEER, '203.0.113.9', PEER],
  ['is the peer when that is not trusted', '10.0.0.0/8', PEER, '203.0.113.9, 10.0.0.1', PEER],
  ['is an untrusted IPv6 peer', '2001:db8:1::/48', '2001:db8:2::1', PEER, '2001:db8:2::1'],
  ['is an IPv4-mapped peer as IPv4', '', '::ffff:192.0.2.1', null, PEER],
  ['is the peer without its zone', '', 'fe80::1%eth0', null, 'fe80::1'],
]

/** All from the peer 10.0.0.1, which is trusted along with 10/8 and 2001:db8:1::/48. */
const TRUSTED: readonly [title: string, forwardedFor: string | null, client: string][] = [
  ['without the header, the proxy itself', null, '10.0.0.1'],
  ['the one entry', '203.0.113.9', '203.0.113.9'],
  ['the right-most entry that is not trusted', '203.0.113.9, 198.51.100.7', '198.51.100.7'],
  ['not an entry of the client itself', '1.1.1.1, 10.9.9.9, 198.51.100.7', '198.51.100.7'],
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
  ['the entry before 31 trusted hops', `203.0.113.9${', 10.0.0.2'.repeat(31)}`, '203.0.113.9'],
  ['the hop after 32 trusted hops', `203.0.113.9${', 10.0.0.2'.repeat(32)}`, '10.0.0.2'],
  ['an entry after many characters', `${', '.repeat(4000)}, 203.0.113.9`, '203.0.113.9'],
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
  test.each(UNTRUSTED)('%s', (_, trusted, peer, forwardedFor, client) => {
    const ranges = trusted === '' ? undefined : readRanges(trusted)
    expect(createClientIp(ranges)(peer, forwardedFor)).toBe(client)
  })

  const address = createClientIp(readRanges('10.0.0.0/8, 2001:db8:1::/48'))
  test.each(TRUSTED)('behind a trusted proxy is %s', (_, forwardedFor, client) => {
    expect(address('10.0.0.1', forwardedFor)).toBe(client)
    expect(address('::ffff:10.0.0.1', forwardedFor)).toBe(client)
  })

  test('on a unix socket is one local client, or the address that a proxy forwards', () => {
    const untrusting = createClientIp(undefined)
    expect(untrusting(null, null)).toBe(LOCAL_CLIENT)
    expect(address(null, null)).toBe(LOCAL_CLIENT)
    expect(address(null, '203.0.113.9, 10.0.0.2')).toBe('203.0.113.9')
    expect(address(null, '203.0.113.9, 198.51.100.7')).toBe('198.51.100.7')
    expect(address(null, 'junk')).toBe(LOCAL_CLIENT)
  })

  test('of a closed connection is unknown, whatever the header says', () => {
    expect(address('', '203.0.113.9')).toBe('unknown')
    expect(createClientIp(undefined)('', null)).toBe('unknown')
  })

  test('is the right-most untrusted one, whatever a client forges', () => {
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
