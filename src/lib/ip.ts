/**
 * Owns address arithmetic: canonical form, masking, and the networks that limits count by.
 * Knows nothing of requests; which address a client has is decided in `http/client-address.ts`.
 */
import { isIPv4, isIPv6 } from 'node:net'

/**
 * The canonical form of an IPv4 or IPv6 address, or `null` when the text is neither.
 * IPv4-mapped IPv6 (`::ffff:1.2.3.4`) becomes IPv4; an IPv6 zone (`%eth0`) is dropped (RFC 5952).
 */
export function canonicalIp(text: string): string | null {
  if (isIPv4(text)) return text
  const address = text.replace(/%.*$/s, '')
  if (!isIPv6(address)) return null
  const groups = groupsOf(new URL(`http://[${address}]`).hostname.slice(1, -1))
  const [g6 = 0, g7 = 0] = groups.slice(6)
  const mapped = groups.slice(0, 5).every(group => group === 0) && groups[5] === 0xffff
  if (mapped) return `${g6 >> 8}.${g6 & 255}.${g7 >> 8}.${g7 & 255}`
  return new URL(`http://[${address}]`).hostname.slice(1, -1)
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

const prefix = (ip: string, groups: number): string =>
  groupsOf(ip)
    .slice(0, groups)
    .map(group => group.toString(16))
    .join(':')

/** Masks a canonical address for `demo` (contract B4): IPv4 keeps its /16, IPv6 its /32. */
export function maskIp(ip: string): string {
  if (ip === '') return ''
  if (ip.includes(':')) return canonicalIp(`${prefix(ip, 2)}::`) ?? ''
  return `${ip.split('.', 2).join('.')}.0.0`
}

/** Whom a per-address limit counts: the IPv4 address itself, or the IPv6 /64 (contract B7). */
export const clientBucket = (ip: string): string =>
  ip.includes(':') ? `${prefix(ip, 4)}::/64` : ip

/** The network a quota of unique callers counts: the IPv4 /16, or the IPv6 /64 (contract B2). */
export const clientNetwork = (ip: string): string =>
  isIPv4(ip) ? `${ip.split('.', 2).join('.')}.0.0/16` : clientBucket(ip)

const ZERO = '0'.charCodeAt(0)

/** The /16 of an IPv4 address, as a number below 65,536. Every answer asks it of every row. */
export function subnetOf(ip: string): number {
  let number = 0
  let octet = 0
  for (let at = 0, dots = 0; dots < 2; at++) {
    const digit = ip.charCodeAt(at) - ZERO
    if (digit >= 0) octet = octet * 10 + digit
    else {
      number = number * 256 + octet // a dot lies below the digits
      octet = 0
      dots += 1
    }
  }
  return number
}
