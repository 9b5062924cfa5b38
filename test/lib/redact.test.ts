/** How much of an unknown name a message repeats. */
import { expect, test } from 'bun:test'
import { shownName } from '../../src/lib/redact.ts'

const KEY = 'Sesame'

test.each([
  ['typ', true, " 'typ'"],
  ['typ', false, " 'typ'"],
  ['ninechars', false, " 'ninechars'"],
  ['ten_chars_', false, " 'ten_chars…'"],
  ['country_moed', true, " 'country_moed'"],
  ['x'.repeat(41), true, ''],
  [KEY, false, ''],
  [`x${KEY}x`, true, ''],
  ['pl_a', false, ''],
  ['a_temp_b', true, ''],
  ['a b', false, ''],
  ['<b>', false, ''],
  ['', false, ''],
])('%j, nearly known: %j, is shown as %j', (name, isNearlyKnown, shown) => {
  expect(shownName(name, KEY, isNearlyKnown)).toBe(shown)
})

test('a request without a key hides nothing more', () => {
  expect(shownName('typ', '', false)).toBe(" 'typ'")
})
