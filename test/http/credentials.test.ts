/** Where the key of a request is read from (spec 5), and that no message repeats it. */
import { afterAll, describe, expect, test } from 'bun:test'
import { keyOf, readCredentials } from '../../src/http/credentials.ts'
import { splitQueryString } from '../../src/lib/query-string.ts'
import { sending } from '../api/query-strings.ts'
import { refusal } from '../api/thrown.ts'
import { cleanUp } from '../support/temporary.ts'

afterAll(cleanUp)

describe('keyOf', () => {
  test.each([
    ['key=K', null, 'K'],
    ['type=http&key=K', null, 'K'],
    ['key=a%2Bb%20c', null, 'a+b c'],
    ['', 'Bearer K', 'K'],
    ['', 'bearer K', 'K'],
    ['', 'Bearer   K  ', 'K'],
    ['key=K', 'Bearer K', 'K'],
    ['key=K', 'Basic dTpw', 'K'],
    ['key=K', '', 'K'],
    ['key=K', 'Bearer', 'K'],
  ] as const)('reads %j and %j as %j', (query, authorization, key) => {
    expect(keyOf(splitQueryString(query), sending(authorization))).toBe(key)
  })

  test.each([
    ['', null],
    ['key', null],
    ['key=', null],
    ['key=&key=', null],
    ['key=', 'Bearer K'],
    ['key', 'Bearer K'],
    ['%6bey=', 'Bearer K'],
    ['key=&key=K', null],
    ['key=K&key=', null],
    ['key=K&key=', 'Bearer K'],
    ['Key=K', null],
    ['kkey=K', null],
    ['type=http', null],
    ['', ''],
    ['', 'Bearer'],
    ['', 'Bearer '],
    ['', 'K'],
    ['', 'Basic dTpw'],
    ['', 'NotBearer K'],
  ] as const)('finds no key in %j and %j', (query, authorization) => {
    const error = refusal(() => keyOf(splitQueryString(query), sending(authorization)))
    expect([error.code, error.status]).toEqual(['KEY_MISSING', 400])
  })

  test.each([
    ['', 'Bearer SecretA b'],
    ['', 'Bearer SecretA, Bearer SecretB'], // two headers, as HTTP joins them
    ['', 'Bearer SecretA,bearer SecretB'],
    ['key=SecretA&key=SecretB', null],
    ['key=SecretA&key=SecretA', null],
    ['key=SecretA', 'Bearer SecretB'],
    ['key=SecretA%ff', 'Bearer SecretA'],
    ['key=SecretA%zz', null],
  ] as const)('refuses %j and %j without repeating them', (query, authorization) => {
    const error = refusal(() => keyOf(splitQueryString(query), sending(authorization)))
    expect([error.code, error.status]).toEqual(['INVALID_PARAMETER', 400])
    expect(error.message).not.toContain('Secret')
  })
})

test('the message on a missing key names the ways to send one', () => {
  const { message } = refusal(() => keyOf([], sending('Basic dTpw')))
  expect(message).toBe('key is required: ?key=KEY or Authorization: Bearer KEY')
})

describe('a key', () => {
  test.each(['%', '%z', '%zz', '%a', '%ff', '%c3', '%c3%28', '%ed%a0%80', '%f8%88%80%80%80'])(
    'is refused when it holds %s, which is not UTF-8',
    sequence => {
      const error = refusal(() => keyOf(splitQueryString(`key=abc${sequence}`), sending(null)))
      expect([error.code, error.status]).toEqual(['INVALID_PARAMETER', 400])
      expect(error.message).toBe('key must be valid UTF-8 in percent-encoding')
    },
  )
})

describe('the query string of a request', () => {
  test.each([
    ['/api?key=K', null, 'K', '&'],
    ['/api?key=K&type=http', null, 'K', '&type=http'],
    ['/api?type=http&key=K', null, 'K', 'type=http&'],
    ['/api?type=http&key=pl_a-1&count=2', null, 'pl_a-1', 'type=http&count=2'],
    ['http://127.0.0.1:8080/api?key=K&count=2', null, 'K', '&count=2'],
    // Not plain, or not once: it stays, and is skipped as a parameter.
    ['/api?key=a%2Bb', null, 'a+b', 'key=a%2Bb'],
    ['/api?%6bey=K', null, 'K', '%6bey=K'],
    ['/api?xkey=1&key=K', null, 'K', 'xkey=1&key=K'],
    ['/api?key=K&city=%6b', null, 'K', 'key=K&city=%6b'],
    ['/api?key=K', 'Bearer K', 'K', 'key=K'],
    ['/api?type=http', 'Bearer K', 'K', 'type=http'],
    ['/api', 'Bearer K', 'K', ''],
  ] as const)('%j with %j: key %j, query string %j', (url, authorization, key, queryString) => {
    const read = readCredentials(url, sending(authorization))
    expect([read.key, read.queryString]).toEqual([key, queryString])
  })
})
