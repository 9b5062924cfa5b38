/** The masking of `demo` (contract B4): what is hidden, and that nothing else changes. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { canonicalIp } from '../../src/lib/ip.ts'
import { maskEndpoint, maskRow } from '../../src/proxies/mask.ts'
import type { Proxy } from '../../src/proxies/proxy.ts'
import { type EndpointRow, idOf } from '../../src/proxies/row.ts'
import { berlin, endpointOf, foundOf, proxiesOf } from '../support/rows.ts'

/** A proxy after its row was masked. */
function masked(proxy: Proxy): Proxy | undefined {
  const { rows, cityNames } = foundOf([proxy])
  return proxiesOf({ rows: rows.map(maskRow), cityNames })[0]
}
/** What is shown of an outgoing address. */
const maskIp = (ipOut: string): string => masked({ ...berlin, ipOut })?.ipOut ?? 'nothing'

describe('an outgoing address', () => {
  const masks = [
    ['185.162.7.9', '185.162.0.0'],
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

describe('maskRow', () => {
  test('hides the last two octets of both addresses and nothing else', () => {
    const hidden = { ...berlin, ip: '185.162.0.0', ipOut: '185.162.0.0' }
    expect(masked(berlin)).toEqual(hidden)
  })
})

test('maskEndpoint masks the address alone', () => {
  const endpoint = { ip: '185.162.7.9', port: 8080 }
  const row: EndpointRow = [idOf(endpoint), 1, 7, 8, 0]
  const shown = { ip: '185.162.0.0', port: 8080, types: 8, checkedAt: 1 }
  expect(endpointOf(maskEndpoint(row))).toEqual(shown)
  expect(row[0]).toBe(idOf(endpoint))
})

describe('any address', () => {
  test('looks the same as all others that agree in its first half', () => {
    const octet = fc.integer({ min: 0, max: 255 })
    fc.assert(
      fc.property(octet, octet, fc.array(octet, { minLength: 4, maxLength: 4 }), (a, b, low) => {
        const [c, d, e, f] = low
        const masked = maskIp(`${a}.${b}.${c}.${d}`)
        expect(masked).toBe(`${a}.${b}.0.0`)
        expect(maskIp(`${a}.${b}.${e}.${f}`)).toBe(masked)
      }),
    )
  })
})
