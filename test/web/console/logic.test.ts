/** Pure functions of the console: lines of the log, places of fragments, axes of charts. */
import { describe, expect, test } from 'bun:test'
import type { LogEntry } from '../../../src/admin/api-types.ts'
import { ERRORS } from '../../../src/api/errors.ts'
import { routeOf } from '../../../src/web/console/address.ts'
import { pathsOf, roundUp } from '../../../src/web/console/chart-data.ts'
import { append, CODE_WORDS, LOG_LINES, wordsOf } from '../../../src/web/console/log-lines.ts'

const entry = (id: string, status = 200): LogEntry => ({
  ...{ time: '2026-01-01T00:00:00.000Z', id, method: 'GET', path: '/api', status, key: null },
  ...{ records: 0, bytes: 0, ms: 1, client: '127.0.0.1' },
  ...{ query: '', code: null, message: null, label: '' },
})
const linesOf = (...lines: readonly LogEntry[]) => append([], { lines, next: 'abc-9' })
const ids = (lines: readonly LogEntry[]): string[] => lines.map(({ id }) => id)

describe('the live log', () => {
  test('shows the newest lines first, and at most 2,000', () => {
    const next = { lines: [entry('3')], next: 'abc-10' }
    expect(ids(append(linesOf(entry('1'), entry('2')), next))).toEqual(['3', '2', '1'])
    const many = Array.from({ length: LOG_LINES + 20 }, (_, n) => entry(`${n}`))
    const lines = linesOf(...many)
    expect(lines).toHaveLength(2000)
    expect(lines[0]).toEqual(entry('2019'))
  })

  test('has words for every code', () => {
    expect(Object.keys(CODE_WORDS).sort()).toEqual(Object.keys(ERRORS).sort())
    expect(wordsOf({ ...entry('1', 429), code: 'DEMO_LIMIT_REACHED' })).toBe('demo limit reached')
    expect([200, 304].map(status => wordsOf(entry('1', status)))).toEqual([
      ...['answered', 'not changed'],
    ])
  })
})

describe('the place of a fragment', () => {
  test.each([
    ['#log?code=PROXIES_NOT_FOUND', 'log', null],
    ['#keys', 'keys', null],
    ['#keys/k3x9m2ab', 'keys', 'k3x9m2ab'],
    ['#/log', 'log', null],
    ['', 'overview', null],
    ['#constructor', 'overview', null],
    ['#%', 'overview', null],
    ['#overview/<script>', 'overview', null],
    ['#keys/%00', 'keys', null],
    ['#keys/..%2Fplans', 'keys', null],
    ['#plans/k3x9m2ab', 'plans', null],
    ['#token=abc', 'overview', null],
  ] as const)('%p is %s %p', (hash, view, id) => {
    expect(routeOf(hash)).toEqual({ view, id })
  })
})

test.each([
  [0, 0],
  [0.35, 0.4],
  [1, 1],
  [4.6, 6],
  [28_333, 40_000],
  [81, 100],
])('the axis of a chart up to %d ends at %d', (value, end) =>
  expect(roundUp(value)).toBeCloseTo(end, 9),
)

test('a chart draws a point alone one step wide, so that a quiet service is seen', () => {
  expect(pathsOf([null, 1, null, null, null], 2).line).toBe('M250 50L500 50')
  expect(pathsOf([null, null, 2], 2).line).toBe('M1000 0L500 0')
})
