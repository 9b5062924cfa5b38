/** Address arithmetic: canonical form, prefixes, networks, and parsing of digits. */
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'

/** An address in canonical form (RFC 5952), IPv4-mapped IPv6 as IPv4, without zone; `null` for any other text. */
export function canonicalIp(text: string): string | null {
  if (ipv4ToNumber(text) >= 0) return text
  const address = text.replace(/%.*$/s, '')
  if (!isIPv6(address)) return null
  const url = URL.parse(`http://[${address}]`) // fails in Bun 1.4.5 for `1:2:3:4::5.6.7.8`
  if (url === null) return null
  const canonical = url.hostname.slice(1, -1)
  const groups = groupsOf(canonical)
  const [g6 = 0, g7 = 0] = groups.slice(6)
  const isMapped = groups.slice(0, 5).every(group => group === 0) && groups[5] === 0xffff
  return isMapped ? quadOf(g6, g7) : canonical
}

const quadOf = (high: number, low: number): string =>
  `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`

const ZERO = '0'.charCodeAt(0)

/** The number of 1 to `lengthMax` (at most 15) decimal digits; -1 for any other text. */
export function parseDigits(text: string, lengthMax: number): number {
  if (text.length > lengthMax || text === '') return -1
  let number = 0
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return -1
    number = number * 10 + digit
  }
  return number
}

const DOT = '.'.charCodeAt(0) - ZERO

/** An IPv4 address as a number; -1 unless it is four octets without leading zeros. Imports call it for every row. */
export function ipv4ToNumber(text: string): number {
  let number = 0
  let octet = -1 // no digit yet
  let dots = 0
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit === DOT) {
      if (octet < 0) return -1
      number = number * 256 + octet
      octet = -1
      dots += 1
    } else {
      octet = octetWith(octet, digit)
      if (octet < 0) return -1
    }
  }
  return dots === 3 && octet >= 0 ? number * 256 + octet : -1
}

/** An octet (-1 before its first digit) with one more digit; -1 if the result is no octet. */
function octetWith(octet: number, digit: number): number {
  if (digit < 0 || digit > 9 || octet === 0) return -1 // no leading zeros
  const longer = octet < 0 ? digit : octet * 10 + digit
  return longer > 255 ? -1 : longer
}

/** The eight 16-bit groups of a canonical IPv6 address without dotted quads. */
function groupsOf(ipv6: string): number[] {
  const [left = '', right] = ipv6.split('::')
  const parse = (side: string): number[] =>
    side === '' ? [] : side.split(':').map(group => Number.parseInt(group, 16))
  const head = parse(left)
  const tail = parse(right ?? '')
  return right === undefined
    ? head
    : [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail]
}

/** The first `groups` 16-bit groups of a canonical IPv6 address, without leading zeros: `2001:db8`. */
export const ipv6Prefix = (ip: string, groups: number): string =>
  groupsOf(ip)
    .slice(0, groups)
    .map(group => group.toString(16))
    .join(':')

/** The first two octets of an IPv4 address, the rest 0: `10.1.2.3` becomes `10.1.0.0`. */
export const ipv4Network16 = (ip: string): string => `${ip.split('.', 2).join('.')}.0.0`

/** Addresses and CIDR ranges, IPv4 or IPv6, separated by commas; `null` for any other text. */
export function parseRanges(text: string): BlockList | null {
  const ranges = new BlockList()
  for (const item of text.split(',').map(part => part.trim())) {
    const [address = '', bits, ...rest] = item.split('/')
    const version = isIP(address)
    const most = version === 4 ? 32 : 128
    const size = bits ?? String(most)
    if (version === 0 || rest.length > 0 || !/^\d{1,3}$/.test(size) || Number(size) > most)
      return null
    ranges.addSubnet(address, Number(size), version === 4 ? 'ipv4' : 'ipv6')
  }
  return ranges
}

/** Whether ranges contain a canonical address; false for any other text. */
export const isInRanges = (ranges: BlockList, ip: string): boolean =>
  isIP(ip) > 0 && ranges.check(ip, isIPv4(ip) ? 'ipv4' : 'ipv6')

/** Networks that are not on the internet: this host, loopback, private, shared and link-local. */
const INTERNAL = new BlockList()
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['::', 96], // also IPv4-compatible addresses, such as 6to4 and Teredo without use
  ['::ffff:0:0:0', 96],
  ['64:ff9b:1::', 48],
  ['2001::', 32],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
] as const) {
  INTERNAL.addSubnet(network, bits, isIPv4(network) ? 'ipv4' : 'ipv6')
}

/** Whether a canonical address is not on the internet: loopback, private or link-local. */
export function isInternal(ip: string): boolean {
  if (isIPv4(ip)) return INTERNAL.check(ip, 'ipv4')
  if (!ip.startsWith('64:ff9b::')) return INTERNAL.check(ip, 'ipv6')
  const [high = 0, low = 0] = groupsOf(ip).slice(6) // NAT64: an IPv4 address
  return INTERNAL.check(quadOf(high, low), 'ipv4')
}
