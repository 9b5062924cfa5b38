/** Which known name is close enough to an unknown one to be suggested. */
import { expect, test } from 'bun:test'
import { nearest } from '../../src/lib/did-you-mean.ts'

const KNOWN = ['type', 'time', 'country', 'country_mode', 'ip', 'city', 'key']

test.each([
  ['typ', 'type'],
  ['TYPE', 'type'],
  ['tyme', 'type'], // as close as time, which comes later
  ['contry', 'country'],
  ['cuontry', 'country'],
  ['countrymode', 'country_mode'],
  ['country-moed', 'country_mode'],
  ['i', 'ip'],
  ['pi', null], // two edits of two letters
  ['xyz', null],
  ['', null],
  ['x'.repeat(41), null],
  [`country${'y'.repeat(34)}`, null],
])('%j is closest to %j', (name, expected) => expect(nearest(name, KNOWN)).toBe(expected))
