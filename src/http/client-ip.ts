/** The address of a client (contract B7): the peer, or the address that trusted proxies report. */
import type { BlockList } from 'node:net'
import { canonicalIp, isInRanges } from '../lib/ip.ts'

/** The address of clients on a unix socket. */
export const LOCAL_CLIENT = 'unix'

/** Most entries of X-Forwarded-For that are read, from the right, each up to 64 characters. */
const HOPS_MAX = 32

/** An entry of X-Forwarded-For, which may carry a port: `1.2.3.4:80`, `[2001:db8::1]:80`. */
function entryIp(entry: string): string | null {
  const bare = entry.trim()
  const bracketed = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(bare)?.[1]
  const withPort = /^([\d.]+):\d{1,5}$/.exec(bare)?.[1]
  return canonicalIp(bracketed ?? withPort ?? bare)
}

export type ClientIp = ReturnType<typeof createClientIp>

/** Finds the right-most untrusted address. A peer is `''` if unreadable, and `null` on a unix socket: trusted. */
export function createClientIp(trusted: BlockList | undefined) {
  const isTrusted = (ip: string): boolean => trusted !== undefined && isInRanges(trusted, ip)

  return (peer: string | null, forwardedFor: string | null): string => {
    let client = peer === null ? LOCAL_CLIENT : canonicalIp(peer)
    if (client === null) return 'unknown' // ignores X-Forwarded-For
    if (forwardedFor === null) return client
    const hops = forwardedFor.slice(-64 * HOPS_MAX).split(',')
    for (const hop of hops.slice(-HOPS_MAX).reverse()) {
      if (client !== LOCAL_CLIENT && !isTrusted(client)) break
      const ip = entryIp(hop)
      if (ip === null) break
      client = ip
    }
    return client
  }
}
