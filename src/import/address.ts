/** Finds addresses in a text. Pure. */
import { ipv4ToNumber } from '../lib/ip.ts'
import { parsePort } from '../proxies/proxy.ts'

/** An IPv4 address, then a port behind a colon, white space or the delimiter of a table. */
const ADDRESS =
  /(?<![\p{L}\p{N}_.]|[\d/]["'])((?:\d{1,3}\.){3}\d{1,3})(?:\s{0,9}:\s{0,9}|["'\s]{0,9}[,;|]["'\s]{0,9}|\s{1,9}port\s{0,3}[:=]?\s{0,9}|\s{1,99})(\d{1,5})(?![\p{L}\p{N}_]|\.\d|["']\d)/giu

export type Found = { ip: string; port: number; start: number; end: number }

/** The addresses in a text, in order. An address with white space before its port only counts as the first. */
export function addressesIn(text: string): Found[] {
  const found: Found[] = []
  for (const match of text.matchAll(ADDRESS)) {
    const [all, ip = '', digits = ''] = match
    const port = parsePort(digits)
    if (port === null || ipv4ToNumber(ip) < 0) continue
    if (found.length > 0 && /^[\d.]+\s+\d+$/.test(all)) continue
    found.push({ ip, port, start: match.index, end: match.index + all.length })
  }
  return found
}
