/** Places of addresses (contract G2), from databases that the test makes itself. */
import { describe, expect, test } from 'bun:test'
import { createPlacing, openPlaces } from '../../src/import/geoip.ts'
import { readRow } from '../../src/import/row.ts'
import { CommandError } from '../../src/lib/errors.ts'
import type { IncomingProxy } from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'
import { cityRecord, mmdb } from '../support/mmdb.ts'

const CITY = mmdb({
  '192.0.2.0/24': cityRecord('DE', 'Berlin', 'Берлин'),
  '192.0.3.0/24': cityRecord('DE', 'Bonn'),
  '192.0.4.0/24': cityRecord('DE', ''),
  '192.0.5.0/24': cityRecord('US', 'Washington\u009b, D.C.\u200e', 'Вашингтон'),
  '192.0.6.0/24': cityRecord('GB', '-', '=1+1'),
  '198.51.100.7/32': cityRecord('FR', 'Paris', 'Париж'),
  '2001:0db8:0000:0000:0000:0000:0000:0000/32': cityRecord('SE', 'Umeå', 'Умео'),
})
const COUNTRY = mmdb(
  { '192.0.2.0/24': cityRecord('CH', ''), '203.0.113.0/24': cityRecord('NL', '') },
  { type: 'GeoLite2-Country', version: 4 },
)

function proxyOf(row: { [member: string]: unknown }): IncomingProxy {
  const defaults = { type: 'http', nowMs: T0, provider: 'the service' } as const
  const result = readRow({ ip: '192.0.2.1:80', ...row }, defaults)
  if (result.kind !== 'good') throw new Error(result.reason)
  return result.proxy
}

const place = createPlacing([openPlaces(CITY, 'a.mmdb'), openPlaces(COUNTRY, 'b.mmdb')])
const placed = (row: { [member: string]: unknown }): string[] => {
  const { country, city, cityEn } = place(proxyOf(row))
  return [country, city, cityEn]
}

describe('a row gets', () => {
  const ROWS: readonly (readonly [string, { [member: string]: unknown }, string[]])[] = [
    ['country and city in both languages', {}, ['DE', 'Берлин', 'Berlin']],
    ['the English name if there is no other', { ip: '192.0.3.1:80' }, ['DE', 'Bonn', 'Bonn']],
    ['a country alone', { ip: '192.0.4.1:80' }, ['DE', '', '']],
    ['no name that a row must not have', { ip: '192.0.6.1:80' }, ['GB', '', '']],
    ['nothing for an unknown address', { ip: '198.51.100.8:80' }, ['', '', '']],
    ['a country from a second database', { ip: '203.0.113.9:80' }, ['NL', '', '']],
    ['the place of ip_out, if it has one', { ip_out: '198.51.100.7' }, ['FR', 'Париж', 'Paris']],
    ['no place of ip when ip_out is unknown', { ip_out: '198.51.100.8' }, ['', '', '']],
    ['the place of an IPv6 address', { ip_out: '2001:db8::1' }, ['SE', 'Умео', 'Umeå']],
    [
      'a name without commas and without control characters',
      { ip: '192.0.5.1:80' },
      ['US', 'Вашингтон', 'Washington D.C.'],
    ],
  ]
  test.each(ROWS)('%s', (_, row, expected) => expect(placed(row)).toEqual(expected))
})

describe('a row keeps', () => {
  const ROWS: readonly (readonly [string, { [member: string]: unknown }, string[]])[] = [
    ['its whole place', { country: 'fr', city: 'Лион', city_en: 'Lyon' }, ['FR', 'Лион', 'Lyon']],
    ['its country, without a city of another country', { country: 'fr' }, ['FR', '', '']],
    ['its country, and gets the city there', { country: 'de' }, ['DE', 'Берлин', 'Berlin']],
    ['its city, without the name of another city', { city: 'Потсдам' }, ['DE', 'Потсдам', '']],
    ['its city, with its English name', { city: 'Берлин' }, ['DE', 'Берлин', 'Berlin']],
    ['its English city, with its Russian name', { city_en: 'Berlin' }, ['DE', 'Берлин', 'Berlin']],
    ['its English city', { city_en: 'Potsdam' }, ['DE', '', 'Potsdam']],
  ]
  test.each(ROWS)('%s', (_, row, expected) => expect(placed(row)).toEqual(expected))

  test('all other members', () => {
    const proxy = proxyOf({ ping: 1, works: 5, smtp: true, anon: 'elite', speed: 7 })
    expect(place(proxy)).toEqual({ ...proxy, country: 'DE', city: 'Берлин', cityEn: 'Berlin' })
  })
})

test('rows are unchanged without a database', () => {
  const proxy = proxyOf({})
  expect(createPlacing([])(proxy)).toBe(proxy)
})

describe('a file is refused when it', () => {
  const messageOf = (content: Buffer): string => {
    try {
      createPlacing([openPlaces(content, 'x.mmdb')])(proxyOf({}))
    } catch (error) {
      if (error instanceof CommandError) return error.message.replace('x.mmdb ', '')
    }
    return 'it was not refused'
  }
  const NO_DATABASE = 'is not a database in the format of MaxMind (.mmdb), or is cut off'

  test.each([
    ['is empty', Buffer.alloc(0)],
    ['is something else', Buffer.from('<html>'.repeat(1000))],
    ['is cut off at its end', CITY.subarray(0, CITY.length - 60)],
    ['has a marker and nothing behind it', Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1')],
  ])('%s', (_, content) => expect(messageOf(content)).toBe(NO_DATABASE))

  test('is of another kind', () => {
    const asn = mmdb({ '192.0.2.0/24': { autonomous_system_number: 1 } }, { type: 'GeoLite2-ASN' })
    expect(messageOf(asn)).toBe(
      'is a GeoLite2-ASN database; places need a City or a Country database',
    )
  })

  test('is cut off at its beginning', () => {
    expect(messageOf(CITY.subarray(1000))).not.toBe('it was not refused')
  })
})
