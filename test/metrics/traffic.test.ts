/** Holds the counters of requests, by themselves. */
import { expect, test } from 'bun:test'
import { type ErrorCode, STATUS } from '../../src/api/errors.ts'
import { type CodeOrStatus, createCounters, statusOf } from '../../src/metrics/traffic.ts'

const CODES = Object.keys(STATUS) as ErrorCode[] // of the table itself

test('every error code has the status of its table, and a status number is itself', () => {
  for (const code of CODES) expect(statusOf(code)).toBe(STATUS[code])
  expect(statusOf(304)).toBe(304)
})

test('the console sees every request once, as 200, 404, 429, 5xx or another 4xx', () => {
  const { route, count, traffic } = createCounters()
  const outcomes: CodeOrStatus[] = [200, 200, 204, ...CODES]
  for (const outcome of outcomes) count(route('/api'), outcome, 0.002)
  count(route('/healthz'), 200, 1)
  const { durations, ...sums } = traffic('/api')
  expect(sums).toEqual({
    ...{ ok: 3, notFound: 2, refused: 5, failed: 2, rejected: 5 },
    ...{ records: 0, bytes: 0 },
  })
  expect(durations.reduce((sum, each) => sum + each, 0)).toBe(outcomes.length)
  expect(durations[2]).toBe(outcomes.length)
})

test('a stream counts its records and bytes when it ends, and whether it was truncated', () => {
  const { all, route, beginStream, traffic } = createCounters()
  const whole = beginStream(route('/api'))
  const cut = beginStream(route('/api'))
  expect(all.streams).toEqual({ begun: 2, ended: 0, truncated: 0 })
  whole({ records: 10, bytes: 100, isTruncated: false })
  cut({ records: 1, bytes: 12, isTruncated: true })
  expect(all.streams).toEqual({ begun: 2, ended: 2, truncated: 1 })
  expect(traffic('/api')).toMatchObject({ records: 11, bytes: 112 })
})
