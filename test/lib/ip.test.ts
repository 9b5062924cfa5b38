/** Address arithmetic: the canonical form of an address, and its number. */
import { describe, expect, test } from 'bun:test'
import { isIPv4 } from 'node:net'
import fc from 'fast-check'
import { canonicalIp, ipv4ToNumber, isInternal, parseDigits } from '../../src/lib/ip.ts'

/** Texts with their canonical form; `null`: the text is no address. */
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
  ['1:2:3:4::5.6.7.8', null], // Bun cannot read it
  ['1:2:3:4:5::0.0.0.0', '1:2:3:4:5::'],
  ['fe80::1%eth0', 'fe80::1'],
  ['fe80::1%25eth0', 'fe80::1'],
  ...[
    ...['', '1.2.3', '1.2.3.4.5', '256.2.3.4', '01.2.3.4', '1.2.3.4:80', '1.2.3.4%eth0'],
    ...[' 1.2.3.4', '1.2.3.4\n', '0x1020304', '16909060', '[::1]', '::1\n', ':::', '::g'],
    ...['1::2::3', '12345::', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '%eth0', 'localhost'],
    ...['unknown'],
  ].map(text => [text, null] as const),
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
})

/** Texts that are nearly addresses, and some that are. */
const nearlyIpv4 = fc.oneof(
  fc.ipV4(),
  fc
    .array(fc.constantFrom('0', '1', '25', '255', '256', '007', '', ' ', '-1', 'a', '1e1', '٣'), {
      minLength: 2,
      maxLength: 6,
    })
    .map(parts => parts.join('.')),
  fc.string({ unit: fc.constantFrom(...'0123459..') }),
)

test('property: only the texts that Node accepts as IPv4 have a number, made of their octets', () => {
  fc.assert(
    fc.property(nearlyIpv4, text => {
      const octets = text.split('.').map(Number)
      const number = octets.reduce((sum, octet) => sum * 256 + octet, 0)
      expect(ipv4ToNumber(text)).toBe(isIPv4(text) ? number : -1)
    }),
    { numRuns: 5000 },
  )
})

test('property: only digits are read as a number', () => {
  const text = fc.string({ unit: fc.constantFrom(...'0123456789 +-.e٣'), maxLength: 17 })
  fc.assert(
    fc.property(
      fc.oneof(text, fc.nat().map(String)),
      fc.integer({ min: 1, max: 15 }),
      (digits, length) => {
        const isNumber = /^[0-9]+$/.test(digits) && digits.length <= length
        expect(parseDigits(digits, length)).toBe(isNumber ? Number(digits) : -1)
      },
    ),
    { numRuns: 5000 },
  )
})

test.each([
  ...['127.0.0.1', '0.0.0.0', '10.1.2.3', '100.64.0.1', '169.254.169.254', '172.31.255.255'],
  ...['192.168.1.1', '::', '::1', 'fd00::1', 'fe80::1', 'fec0::1', '::7f00:1', '2002:7f00:1::'],
  ...[
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::1',
    '::ffff:0:a00:1',
    '2001:0:4136:e378:8000:63bf:80ff:fffe',
  ],
])('%s is internal', ip => expect(isInternal(ip)).toBeTrue())

test.each([
  ...['1.1.1.1', '172.32.0.1', '100.128.0.1', '198.51.100.1', '2001:db8::1', '2001:4860::8888'],
  '64:ff9b::101:101',
])('%s is on the internet', ip => expect(isInternal(ip)).toBeFalse())
