/**
 * Owns the masking of `demo` (contract B4): IPv4 addresses keep their first two octets, IPv6
 * addresses their /32. A store that is asked for `addressBits: 16` compares addresses as masked and
 * gives one proxy of those that look the same; this file makes them look so.
 */
import { canonicalIp, ipv4Network16, ipv6Prefix } from '../lib/ip.ts'
import type { Endpoint, Proxy } from './proxy.ts'

/** Masks a canonical address; `''` stays unknown. */
export function maskIp(ip: string): string {
  if (ip === '') return ''
  return ip.includes(':') ? (canonicalIp(`${ipv6Prefix(ip, 2)}::`) ?? '') : ipv4Network16(ip)
}

export const maskEndpoint = (endpoint: Endpoint): Endpoint => ({
  ...endpoint,
  ip: maskIp(endpoint.ip),
})

export const maskProxy = (proxy: Proxy): Proxy => ({
  ...proxy,
  ip: maskIp(proxy.ip),
  ipOut: maskIp(proxy.ipOut),
})
