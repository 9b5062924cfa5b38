/** What the page reads of an answer: limits, JSON records, errors. */
import { describe, expect, test } from 'bun:test'
import {
  isSendable,
  readLimits,
  readProblem,
  readRows,
} from '../../../src/web/page/model/answer.ts'

test('limits are read from both header fields', () => {
  const policy = '"burst";q=5;w=5, "daily";q=34560;w=86400'
  expect(readLimits('"burst";r=4;t=5, "daily";r=34559;t=40211', policy)).toEqual([
    { name: 'burst', quota: 5, window: 5, left: 4, reset: 5 },
    { name: 'daily', quota: 34_560, window: 86_400, left: 34_559, reset: 40_211 },
  ])
  expect(readLimits(null, null)).toEqual([])
  expect(readLimits('nonsense', '"x"')).toEqual([])
})

describe('rows', () => {
  test.each([
    ['array', '[{"ip":"1.2.3.4:80","works":"97"}]'],
    ['object', '{"1.2.3.4:80":{"works":"97"}}'],
    ['array in an envelope', '{"status":"ok","count":1,"data":[{"ip":"1.2.3.4:80","works":"97"}]}'],
    ['object in an envelope', '{"status":"ok","count":1,"data":{"1.2.3.4:80":{"works":"97"}}}'],
  ])('of JSON: %s', (_, text) => {
    expect(readRows(text)).toEqual([{ ip: '1.2.3.4:80', works: '97' }])
  })

  test('of other text are none', () => {
    expect(readRows('<html>')).toBeNull()
  })
})

test('an error is read as JSON, and as plain text', () => {
  expect(readProblem('{"code":"INVALID_KEY","message":"no"}', 403)).toEqual({
    ...{ code: 'INVALID_KEY', message: 'no' },
  })
  expect(readProblem('Error: no', 403)).toEqual({ code: '403', message: 'no' })
  expect(readProblem('<b>gateway</b>', 502)).toEqual({ code: '502', message: '<b>gateway</b>' })
})

test.each([
  ['pl_abc', true],
  ['', true],
  ['a b', false],
  ['ключ', false],
  ['a\nb', false],
])('a header can carry the key %j: %p', (key, can) => expect(isSendable(key)).toBe(can))
