/** Taking a query string out of a URL, and apart. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { pathOf, queryStringOf, splitQueryString } from '../../src/lib/query-string.ts'
import { anyQuery } from '../api/query-strings.ts'

describe('queryStringOf', () => {
  test.each([
    ['', ''],
    ['/api', ''],
    ['/api?', ''],
    ['/api?a=1', 'a=1'],
    ['http://127.0.0.1:8080/api?a=1&b=2', 'a=1&b=2'],
    ['/api?a=1?b=2', 'a=1?b=2'],
    ['/api??a=1', '?a=1'],
    ['?a', 'a'],
  ])('of %j is %j', (url, text) => {
    expect(queryStringOf(url)).toBe(text)
  })
})

describe('pathOf', () => {
  test.each([
    ['', ''],
    ['/', '/'],
    ['http:///', '/'],
    ['http://a', ''],
    ['http://a?b/c', ''],
    ['http://127.0.0.1:8080/-/a.css?b=/c', '/-/a.css'],
    ['http://x:y:z/%zz/../é#/f', '/%zz/../é'],
  ])('of %j is %j', (url, path) => {
    expect(pathOf(url)).toBe(path)
  })
})

describe('splitQueryString', () => {
  const pair = (name: string | null, value: string | null) => ({ name, value })
  test.each([
    ['', []],
    ['&&', []],
    ['a', [pair('a', '')]],
    ['a=', [pair('a', '')]],
    ['=b', [pair('', 'b')]],
    ['a=b=c', [pair('a', 'b=c')]],
    ['a=1&b=2&a=3', [pair('a', '1'), pair('b', '2'), pair('a', '3')]],
    ['a+b=c+d', [pair('a b', 'c d')]],
    ['a%2Bb=c%26d%3De', [pair('a+b', 'c&d=e')]],
    ['a=\ufffd&b=%EF%BF%BD', [pair('a', null), pair('b', null)]], // what Bun makes of a byte 0xff
    ['a=%D0%B9&%zz=1&b=%ff', [pair('a', 'й'), pair(null, '1'), pair('b', null)]],
    ['a=b?c=d', [pair('a', 'b?c=d')]],
    ['a;b', [pair('a;b', '')]],
  ] as const)('%j', (text, pairs) => {
    expect(splitQueryString(text)).toEqual([...pairs])
  })
})

test('any query string is split into as many pairs as it has pieces', () => {
  fc.assert(
    fc.property(anyQuery, text => {
      expect(splitQueryString(text)).toHaveLength(text.split('&').filter(Boolean).length)
    }),
    { numRuns: 2000 },
  )
})
