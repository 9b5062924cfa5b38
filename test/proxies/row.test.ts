/** The compact form of a proxy: what it keeps, and the parts of an id. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  countryText,
  countryToNumber,
  idOf,
  ipBits,
  ipText,
  portOf,
  subnetOf,
} from '../../src/proxies/row.ts'

describe('subnetOf', () => {
  const subnets = [
    ['0.0.0.0', 0],
    ['0.1.0.0', 1],
    ['1.0.255.255', 256],
    ['185.162.7.9', 185 * 256 + 162],
    ['255.255.255.255', 65_535],
  ] as const
  test.each(subnets)('the /16 of %s is number %d', (ip, number) => {
    for (const port of [1, 65_535]) expect(subnetOf(idOf({ ip, port }))).toBe(number)
  })
})

test('an id gives back its address and port', () => {
  const port = fc.integer({ min: 1, max: 65_535 })
  fc.assert(
    fc.property(fc.ipV4(), port, (ip, port) => {
      const id = idOf({ ip, port })
      expect([ipText(ipBits(id)), portOf(id)]).toEqual([ip, port])
    }),
  )
})

test('the number of a country gives back its letters', () => {
  for (const country of ['', 'AA', 'AZ', 'DE', 'ZA', 'ZZ']) {
    expect(countryText(countryToNumber(country))).toBe(country)
  }
})
