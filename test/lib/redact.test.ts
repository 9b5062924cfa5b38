/** How much of an unknown name a message repeats, and how a text is shown on a terminal. */
import { expect, test } from 'bun:test'
import { printable, printableLines, shownName } from '../../src/lib/redact.ts'

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
])('a message shows %j (close to a known name: %j) as %j', (name, isNearlyKnown, shown) => {
  expect(shownName(name, KEY, isNearlyKnown)).toBe(shown)
})

test('control characters, line separators and direction marks are escaped; all other text stays', () => {
  const obeyed = '\0\t\n\r\x1b\x7f\x85\x9b\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069'
  expect(printable(obeyed)).toMatch(/^(?:\\u[\da-f]{4}){17}$/)
  expect(JSON.parse(`"${printable(obeyed)}"`)).toBe(obeyed)
  const plain = 'Öl, "Москва" — 東京 👩‍💻 \\u001b'
  expect(printable(plain)).toBe(plain)
  expect(printableLines('a\x1b\nb\r\nc')).toBe('a\\u001b\nb\nc')
})
