/** Every textual form of an instant or a duration, and the UTC day. */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  formatInstant,
  formatTimecheck,
  parseInstant,
  parseTimecheck,
  utcDay,
} from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'

/** How many days a month of a year has. */
function daysIn(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28
  return [4, 6, 9, 11].includes(month) ? 30 : 31
}

const two = (n: number): string => String(n).padStart(2, '0')
const anyDay = fc.record({
  year: fc.integer({ min: 1900, max: 2200 }),
  month: fc.integer({ min: 0, max: 14 }),
  day: fc.integer({ min: 0, max: 33 }),
})
type Day = { year: number; month: number; day: number }
const dayText = ({ year, month, day }: Day): string => `${year}-${two(month)}-${two(day)}`
const exists = ({ year, month, day }: Day): boolean =>
  month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)

describe('timecheck', () => {
  const forms = [
    [T0 / 1000, '2026-11-20 14:00:00'],
    [0, '1970-01-01 02:00:00'],
    [-7200, '1970-01-01 00:00:00'],
    [Date.UTC(2026, 11, 31, 22) / 1000, '2027-01-01 00:00:00'],
    [Date.UTC(2026, 6, 1, 12) / 1000, '2026-07-01 14:00:00'], // no summer time
    [Date.UTC(2028, 1, 29, 21, 59, 59) / 1000, '2028-02-29 23:59:59'],
  ] as const
  test.each(forms)('writes %d as %s and reads it back', (seconds, text) => {
    expect(formatTimecheck(seconds)).toBe(text)
    expect(parseTimecheck(text)).toBe(seconds)
  })

  test.each([
    ...['', '2026-11-20', '2026-11-20T14:00:00', '2026-11-20 14:00', '2026-11-20 14:00:00Z'],
    ...['2026-11-20 14:00:00.5', ' 2026-11-20 14:00:00', '2026-11-20  14:00:00'],
    ...['2026-11-20 14:00:00\n', '2026-6-1 14:00:00', '2026-11-20 24:00:00'],
    ...['2026-11-20 14:60:00', '2026-11-20 14:00:60', '20-11-2026 14:00:00', '1795176000'],
  ])('refuses %j', text => {
    expect(parseTimecheck(text)).toBeNull()
  })

  test('every second between 1970 and 2100 survives the round trip', () => {
    const seconds = fc.integer({ min: 0, max: Date.UTC(2100, 0) / 1000 })
    fc.assert(fc.property(seconds, s => expect(parseTimecheck(formatTimecheck(s))).toBe(s)))
  })
})

const JANUARY = Date.UTC(2027, 0, 31)
const INSTANTS: readonly (readonly [text: string, ms: number])[] = [
  ['2027-01-31', JANUARY],
  ['2027-01-31T00:00Z', JANUARY],
  ['2027-01-31T00:00:00Z', JANUARY],
  ['2027-01-31T00:00:00.000Z', JANUARY],
  ['2027-01-31 00:00:00Z', JANUARY],
  ['2027-01-31t00:00:00z', JANUARY],
  ['2027-01-31T00:00', JANUARY], // no zone: UTC, whatever the machine's
  ['2027-01-31 00:00:00', JANUARY],
  ['2027-01-31T00:00:00.5', JANUARY + 500],
  ['2027-01-31T00:00:00.123456789Z', JANUARY + 123],
  ['2027-01-31T02:00:00+02:00', JANUARY],
  ['2027-01-31T02:00:00+0200', JANUARY],
  ['2027-01-30T18:30-05:30', JANUARY],
  ['2027-01-31T00:00-00:00', JANUARY],
  ['2026-12-31T23:00:00-02:00', Date.UTC(2027, 0, 1, 1)],
  ['2028-02-29', Date.UTC(2028, 1, 29)],
  ['2000-02-29', Date.UTC(2000, 1, 29)],
  ['0000-02-29', Date.parse('0000-02-29')],
]

const NO_INSTANTS: readonly string[] = [
  ...['', 'now', 'tomorrow', '1795176000', '2027', '2027-01', '2027-1-31', '31.01.2027'],
  ...['01/31/2027', 'Sun, 31 Jan 2027 00:00:00 GMT', '2027-01-31Z', '2027-01-31T'],
  ...['2027-01-31T12', '2027-01-31T12:00:00 Z', ' 2027-01-31', '2027-01-31\n', '+002027-01-31'],
  ...['2027-06-31T23:00:00-02:00', '2027-01-31T24:00:01Z', '2027-01-31T25:00Z'],
  ...['2027-01-31T12:60Z', '2027-01-31T12:00:60Z', '2027-01-31T12:00:00.Z'],
  ...['2027-01-31T12:00:00.1234567890Z', '2027-01-31T12:00:00,5Z', '2027-01-31T12:00+25:00'],
  ...['2027-01-31T12:00+99:99', '2027-01-31T12:00+02:60', '2027-01-31T12:00+2'],
  ...['2027-00-31', '2027-01-00', '0001-01-00', '0001-02-00T00:00Z'],
  ...['2027-01-31T12:00+02', '2027-01-31T12:00:00 Europe/Berlin', '2027-01-31T12:00:00CET'],
]

describe('parseInstant', () => {
  test.each(INSTANTS)('reads %s', (text, ms) => {
    expect(parseInstant(text)).toBe(ms)
  })

  test.each(NO_INSTANTS)('refuses %j', text => {
    expect(parseInstant(text)).toBeNull()
  })

  test('reads exactly the days of the calendar', () => {
    fc.assert(
      fc.property(anyDay, day => {
        const ms = exists(day) ? Date.UTC(day.year, day.month - 1, day.day) : null
        expect(parseInstant(dayText(day))).toBe(ms)
        expect(parseInstant(`${dayText(day)}T00:00:00Z`)).toBe(ms)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('the zone of the machine', () => {
  const before = process.env.TZ
  afterAll(() => {
    process.env.TZ = before ?? 'UTC'
  })

  test.each(['Asia/Tokyo', 'America/New_York'])('%s changes nothing', zone => {
    process.env.TZ = zone
    expect(new Date(JANUARY).getTimezoneOffset()).not.toBe(0)
    for (const [text, ms] of INSTANTS) expect(parseInstant(text)).toBe(ms)
    expect(parseTimecheck('2026-11-20 14:00:00')).toBe(T0 / 1000)
    expect(formatTimecheck(T0 / 1000)).toBe('2026-11-20 14:00:00')
    expect(formatInstant(T0)).toBe('2026-11-20T12:00:00.000Z')
    expect(utcDay(T0)).toBe(20_777)
  })
})
