/** Masks addresses for `demo` (contract B4): IPv4 keeps its first two octets, IPv6 its /32. */
import { canonicalIp, ipv6Prefix } from '../lib/ip.ts'
import { AT, type EndpointRow, portOf, type Row, subnetOf } from './row.ts'

/** The id with a masked address. */
export const maskId = (id: number): number => subnetOf(id) * 2 ** 32 + portOf(id)

/** Masks an outgoing address; `''` is unknown. */
function maskIpOut(ipOut: Row[10]): Row[10] {
  if (typeof ipOut === 'number') return ipOut - (ipOut % 65536)
  return ipOut === '' ? '' : (canonicalIp(`${ipv6Prefix(ipOut, 2)}::`) ?? '')
}

/** A copy with a masked address. */
export const maskEndpoint = ([id, ...rest]: EndpointRow): EndpointRow => [maskId(id), ...rest]

/** A copy with both addresses masked. */
export function maskRow(row: Row): Row {
  const masked: Row = [...row]
  masked[AT.id] = maskId(row[AT.id])
  masked[AT.ipOut] = maskIpOut(row[AT.ipOut])
  return masked
}
