/** What is known of the use of a key over time: by hour and by day, for 90 days. Stores count and keep it. */
import { DAY_MS, HOUR_MS, utcDay } from '../lib/time.ts'

/** Days that are kept, today included. */
export const HISTORY_DAYS = 90

/** The use of a key on a UTC day, see `utcDay`. */
export type DayUse = {
  day: number
  /** Requests admitted and not given back. */
  requests: number
  records: number
  /** Requests refused because of a limit (429). */
  refused: number
  /** Requests by hour, up to the last hour with any; empty where hours are not known. */
  hours: readonly number[]
}

/** The use of a key: the instant of its last admission, and its days, oldest first. */
export type KeyUse = { lastSeenMs: number | null; days: readonly DayUse[] }

/** What an answer adds to the use of its key, besides the request itself. */
export type AnswerUse = { keyId: string; records: number; refused: number; nowMs: number }

export const unusedDay = (day: number): DayUse => ({
  ...{ day, requests: 0, records: 0, refused: 0, hours: [] },
})

/** The hour of its UTC day, 0 to 23. */
export const utcHour = (ms: number): number => Math.floor((ms - utcDay(ms) * DAY_MS) / HOUR_MS)

/** The sum of what is known of one day. */
export const addDays = (one: DayUse, two: DayUse): DayUse => ({
  day: one.day,
  requests: one.requests + two.requests,
  records: one.records + two.records,
  refused: one.refused + two.refused,
  hours: Array.from(
    { length: Math.max(one.hours.length, two.hours.length) },
    (_, hour) => (one.hours[hour] ?? 0) + (two.hours[hour] ?? 0),
  ),
})

/** The days of both lists, oldest first; a day of both is one. */
export function mergeDays(one: readonly DayUse[], two: readonly DayUse[]): DayUse[] {
  const byDay = new Map<number, DayUse>()
  for (const use of [...one, ...two]) {
    const known = byDay.get(use.day)
    byDay.set(use.day, known ? addDays(known, use) : use)
  }
  return [...byDay.values()].sort((a, b) => a.day - b.day)
}

/** What answers added to a day of a key, the last of them at `atMs`. */
export type Noted = { id: string; day: number; atMs: number; records: number; refused: number }

/**
 * Keys that a flush of some writes at least, and of how many such flushes one writes its part: writing
 * all of thousands of keys every second would make requests wait, and the log long.
 */
const FLUSH_MIN = 100
const FLUSH_CALLS = 30

/** What answers added to the use of keys and is not written yet. */
export function createNotes() {
  /** By UTC day and key; what was noted first is at the start. */
  const byDay = new Map<number, Map<string, Noted>>()
  const all = () => byDay.values().flatMap(ofDay => ofDay.values())

  function note({ keyId: id, records, refused, nowMs: atMs }: AnswerUse): void {
    if (records + refused === 0) return
    const day = utcDay(atMs)
    const ofDay = byDay.get(day) ?? new Map<string, Noted>()
    if (ofDay.size === 0) byDay.set(day, ofDay)
    const noted = ofDay.get(id)
    if (noted === undefined) ofDay.set(id, { id, day, atMs, records, refused })
    else {
      noted.records += records
      noted.refused += refused
      noted.atMs = atMs
    }
  }

  return {
    note,
    /** Takes what was noted out: all of it, or that of some keys. */
    take(keys: 'some' | 'all'): Noted[] {
      const size = byDay.values().reduce((sum, ofDay) => sum + ofDay.size, 0)
      const some = Math.max(FLUSH_MIN, Math.ceil(size / FLUSH_CALLS))
      const taken = [...all().take(keys === 'all' ? size : some)]
      for (const { id, day } of taken) byDay.get(day)?.delete(id)
      for (const [day, { size }] of byDay) if (size === 0) byDay.delete(day)
      return taken
    },
    /** Puts back what was taken, at the start. */
    putBack(taken: readonly Noted[]): void {
      const later = [...all()]
      byDay.clear()
      for (const { id, atMs, records, refused } of [...taken, ...later]) {
        note({ keyId: id, nowMs: atMs, records, refused })
      }
    },
    /** The days of a key, without what is in the store, and what is `writing` there. */
    daysOf: (id: string, writing: Iterable<Noted> = []): DayUse[] =>
      [...byDay.values().map(ofDay => ofDay.get(id)), ...writing]
        .filter(noted => noted !== undefined)
        .filter(noted => noted.id === id)
        .map(({ day, records, refused }) => ({ ...unusedDay(day), records, refused })),
  }
}
