/** The pure functions of the console: series, filters, the log, routes, plans, numbers. */
import { describe, expect, test } from 'bun:test'
import type { LogEntry } from '../../../src/admin/api-types.ts'
import { ERRORS } from '../../../src/api/errors.ts'
import { keyHref, routeOf } from '../../../src/web/console/address.ts'
import { pathsOf, stack } from '../../../src/web/console/chart-data.ts'
import {
  append,
  CODE_WORDS,
  LOG_LINES,
  logHref,
  outcomeOf,
  readLogFilter,
  selectLines,
  wordsOf,
} from '../../../src/web/console/log-lines.ts'

test('series are added up when stacked; a missing value counts nothing, a gap stays one', () => {
  const sums = stack([
    [1, null, null],
    [2, 3, null],
  ])
  expect(sums).toEqual([
    [1, null, null],
    [3, 3, null],
  ])
})

describe('a drawing', () => {
  test('has a separate line and area on each side of a gap', () => {
    const { line, area } = pathsOf([1, 1, null, 1, 1], 1)
    expect(line.match(/M/g)).toHaveLength(2)
    expect(area.match(/Z/g)).toHaveLength(2)
    expect(line).not.toContain('NaN')
  })

  test('shows a point without a neighbour, also the last one', () => {
    expect(pathsOf([5], 5).line).toBe('M0 0L1000 0')
    expect(pathsOf([2, null, 4], 4).line).toBe('M0 50L500 50M1000 0L500 0')
  })

  test('draws nothing of nothing', () => {
    expect(pathsOf([null, null], 0)).toEqual({ line: '', area: '' })
    expect(pathsOf([], 0)).toEqual({ line: '', area: '' })
    expect(pathsOf([0, 0], 0).line).toBe('M0 100L1000 100')
  })
})

const entry = (id: string, status = 200): LogEntry => ({
  ...{ time: '2026-01-01T00:00:00.000Z', id, method: 'GET', path: '/api', status, key: null },
  ...{ records: 0, bytes: 0, ms: 1, client: '127.0.0.1' },
  ...{ query: '', code: null, message: null, label: '' },
})
const ANY = { code: '', key: '', text: '' }
const linesOf = (...lines: readonly LogEntry[]) => append([], { lines, next: 'abc-9' })
const ids = (lines: readonly LogEntry[]): string[] => lines.map(({ id }) => id)

describe('the live log', () => {
  test('shows the newest first, and at most 2,000', () => {
    const next = { lines: [entry('3')], next: 'abc-10' }
    expect(ids(append(linesOf(entry('1'), entry('2')), next))).toEqual(['3', '2', '1'])
    const many = Array.from({ length: LOG_LINES + 20 }, (_, n) => entry(`${n}`))
    const lines = linesOf(...many)
    expect(lines).toHaveLength(2000)
    expect(lines[0]).toEqual(entry('2019'))
  })

  test.each([
    [200, 'ok'],
    [304, 'ok'],
    [404, 'notFound'],
    [429, 'refused'],
    [403, 'rejected'],
    [503, 'failed'],
  ] as const)('has status %p among %s', (status, outcome) => {
    expect(outcomeOf(status)).toBe(outcome)
    const lines = linesOf(entry('1', status))
    const [right, wrong] = outcome === 'ok' ? ['ok', 'error'] : ['error', 'ok']
    expect(selectLines(lines, { ...ANY, code: right })).toEqual(lines)
    expect(selectLines(lines, { ...ANY, code: wrong })).toEqual([])
  })

  test.each([
    [{}, ['2', '1']],
    [{ code: 'PROXIES_NOT_FOUND' }, ['2']],
    [{ key: 'k1' }, ['1']],
    [{ key: 'k' }, []],
    [{ text: ' SOCKS5' }, ['2']],
    [{ text: 'nothing matched' }, ['2']],
    [{ text: 'acme' }, ['1']],
    [{ code: 'ok', key: 'k1', text: 'acme' }, ['1']],
    [{ code: 'ok', text: 'socks5' }, []],
  ])('shows with the filter %j the lines %j', (filter, expected) => {
    const lines = linesOf(
      { ...entry('1'), key: 'k1', label: 'Acme', query: 'type=http' },
      { ...entry('2', 404), code: 'PROXIES_NOT_FOUND', query: 'type=socks5' },
    )
    expect(ids(selectLines(lines, { ...ANY, ...filter }))).toEqual(expected)
  })

  test('has its filter in the fragment, and begins with /api', () => {
    const filter = { code: 'PROXIES_NOT_FOUND', key: 'k1', text: 'a b&c=é' }
    expect(readLogFilter(logHref(filter))).toEqual(filter)
    expect(readLogFilter('#log')).toEqual({ ...ANY, text: '/api' })
    expect(logHref(readLogFilter('#log'))).toBe('#log')
    expect(logHref({ key: 'k1' })).toBe('#log?key=k1')
    expect(readLogFilter(logHref(ANY))).toEqual(ANY)
  })

  test('says what the answer was, for every code', () => {
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

  test('is written as it is read', () => {
    expect(routeOf(keyHref('abc'))).toEqual({ view: 'keys', id: 'abc' })
  })
})
