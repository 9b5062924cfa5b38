/**
 * Owns the masking of `demo` (contract B4): IPv4 addresses keep their first two octets, IPv6
 * addresses their /32. With `addressBits: 16` a store compares addresses as if they were masked,
 * and returns one proxy of those that look the same; this file masks the result.
 */
import { canonicalIp, ipv4Network16, ipv6Prefix } from '../lib/ip.ts'
import type { Endpoint, Proxy } from './proxy.ts'

/** Masks a canonical address; `''` stays unknown. */
export function maskIp(ip: string): string {
  if (ip === '') return ''
  return ip.includes(':') ? (canonicalIp(`${ipv6Prefix(ip, 2)}::`) ?? '') : ipv4Network16(ip)
}

/** A copy with a masked address. */
export const maskEndpoint = (endpoint: Endpoint): Endpoint => ({
  ...endpoint,
  ip: maskIp(endpoint.ip),
})

/** A copy with masked `ip` and `ipOut`. */
export const maskProxy = (proxy: Proxy): Proxy => ({
  ...proxy,
  ip: maskIp(proxy.ip),
  ipOut: maskIp(proxy.ipOut),
})
