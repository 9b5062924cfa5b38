/** Words, numbers and places of the page, in both languages. */
import { expect, test } from 'bun:test'
import { createSay } from '../../../src/web/page/translations.ts'

const holes = (value: unknown): string[] =>
  [...JSON.stringify(value).matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name).sort()

test('both languages put the same values into each sentence, and no sentence is empty', () => {
  const { words } = createSay('ru')
  for (const [name, sentence] of Object.entries(createSay('en').words)) {
    const other: unknown = words[name as keyof typeof words]
    expect([name, new Set(holes(other))]).toEqual([name, new Set(holes(sentence))])
    expect(JSON.stringify(other).length).toBeGreaterThan(2)
  }
})

test.each([
  [1, 'запись'],
  [2, 'записи'],
  [5, 'записей'],
  [11, 'записей'],
  [21, 'запись'],
  [104, 'записи'],
])('%d records have their Russian form', (n, word) => {
  const { plural, words } = createSay('ru')
  expect(plural(n, words.rows)).toBe(word)
})

test.each([
  [1, '1 byte'],
  [149, '149 bytes'],
  [999, '999 bytes'],
  [1500, '1.5 kB'],
  [18_000, '18 kB'],
  [2_400_000, '2.4 MB'],
])('%d bytes are %s', (n, text) => expect(createSay('en').bytes(n)).toBe(text))

test.each([
  [1, '1 sec'],
  [60, '60 sec'],
  [119, '119 sec'],
  [150, '2 min 30 sec'],
  [40_200, '11 hr 10 min'],
  [86_400, '1 day'],
])('a wait of %d seconds is %s', (n, text) => expect(createSay('en').countdown(n)).toBe(text))

test('a place is named, and a code without a name stays a code', () => {
  const { country } = createSay('ru')
  expect([country('de'), country('XX'), country('xxxx'), country('--')]).toEqual([
    ...['Германия', 'XX', 'xxxx', '--'],
  ])
})
