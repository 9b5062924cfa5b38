/** The masking of `demo` (contract B4): what is hidden, and that nothing else changes. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { canonicalIp } from '../../src/lib/ip.ts'
import { maskEndpoint, maskIp, maskProxy } from '../../src/proxies/mask.ts'
import type { Endpoint, Proxy } from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'

describe('maskIp', () => {
  const masks = [
    ['185.162.7.9', '185.162.0.0'],
    ['10.0.0.0', '10.0.0.0'],
    ['255.255.255.255', '255.255.0.0'],
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

const berlin: Proxy = {
  ip: '185.162.7.9',
  port: 8080,
  ipOut: '185.162.40.1',
  type: 'http',
  anon: 'elite',
  speed: 1_250_000,
  pingMs: 532,
  checkedAt: T0 / 1000 - 30,
  country: 'DE',
  city: 'Берлин',
  cityEn: 'Berlin',
  works: 97,
  services: new Set(['telegram', 'google'] as const),
}

describe('maskProxy', () => {
  test('hides the last two octets of both addresses and nothing else', () => {
    const masked = { ...berlin, ip: '185.162.0.0', ipOut: '185.162.0.0' }
    expect(maskProxy(berlin)).toEqual(masked)
  })
  test('leaves an unknown outgoing address unknown', () => {
    expect(maskProxy({ ...berlin, ip: '10.0.0.1', ipOut: '' })).toEqual({
      ...berlin,
      ip: '10.0.0.0',
      ipOut: '',
    })
  })
  test('lets nothing of the hidden half of an IPv6 address through', () => {
    const shown = maskProxy({ ...berlin, ipOut: '2001:db8:1:2:3:4:5:6' }).ipOut
    expect(shown).toBe('2001:db8::')
  })
})

describe('maskEndpoint', () => {
  test('masks the address alone', () => {
    const endpoint: Endpoint = { ip: '185.162.7.9', port: 8080, type: 'socks5', checkedAt: 1 }
    expect(maskEndpoint(endpoint)).toEqual({ ...endpoint, ip: '185.162.0.0' })
    expect(endpoint.ip).toBe('185.162.7.9')
  })
})

describe('any address', () => {
  const ipv6 = fc.ipV6().map(ip => canonicalIp(ip) ?? '')

  test('is masked once: again changes nothing', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), ipv6, fc.constant('')), ip => {
        expect(maskIp(maskIp(ip))).toBe(maskIp(ip))
      }),
    )
  })

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
