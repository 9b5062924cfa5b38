/** The use of keys by hour and by UTC day over 90 days, for charts and reports. Limits do not depend on it. */
import { DAY_MS, HOUR_MS, utcDay } from '../lib/time.ts'

/** The days of stored use, including today. */
export const HISTORY_DAYS = 90

/** Seconds between two writes of the counts in memory (contract F3). */
export const FLUSH_SECONDS = 30

export type DayUse = {
  day: number
  /** Requests admitted, without refunded ones. */
  requests: number
  records: number
  refused: number
  /** Requests by hour, up to the last hour with any; empty if the hours are unknown. */
  hours: readonly number[]
}

/** The use of a key: the instant of its last admission, and its days, oldest first. */
export type KeyUse = { lastSeenMs: number | null; days: readonly DayUse[] }

/** The records and refusals that a response adds to the use of its key. `addRequests` counts the request. */
export type AnswerUse = { keyId: string; records: number; refused: number; nowMs: number }

export const unusedDay = (day: number): DayUse => ({
  ...{ day, requests: 0, records: 0, refused: 0, hours: [] },
})

/** The hour of its UTC day, 0 to 23. */
export const utcHour = (ms: number): number => Math.floor((ms - utcDay(ms) * DAY_MS) / HOUR_MS)

const addHours = (one: readonly number[], two: readonly number[]): number[] =>
  Array.from(
    { length: Math.max(one.length, two.length) },
    (_, hour) => (one[hour] ?? 0) + (two[hour] ?? 0),
  )

/** The sum of two parts of one day. */
export const addDays = (one: DayUse, two: DayUse): DayUse => ({
  day: one.day,
  requests: one.requests + two.requests,
  records: one.records + two.records,
  refused: one.refused + two.refused,
  hours: addHours(one.hours, two.hours),
})

/** Merges two lists of days, oldest first, and adds up days that are in both. */
export function mergeDays(one: readonly DayUse[], two: readonly DayUse[]): DayUse[] {
  const byDay = new Map<number, DayUse>()
  for (const use of [...one, ...two]) {
    const known = byDay.get(use.day)
    byDay.set(use.day, known ? addDays(known, use) : use)
  }
  return [...byDay.values()].sort((a, b) => a.day - b.day)
}

/** The use of a key in an hour, before it is written; `hour` counts from 1970. */
export type PendingUse = {
  id: string
  hour: number
  requests: number
  records: number
  refused: number
}

/** The use as a part of its UTC day. */
export const dayOf = ({ hour, requests, records, refused }: PendingUse): DayUse => {
  const hours = requests === 0 ? [] : [...new Array<number>(hour % 24).fill(0), requests]
  return { day: Math.floor(hour / 24), requests, records, refused, hours }
}

const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS)

/** Counts the use of keys in memory until it is written. */
export function createUseBuffer() {
  const byHour = new Map<number, Map<string, PendingUse>>()

  function pendingOf(id: string, hour: number): PendingUse {
    const ofHour = byHour.get(hour) ?? new Map<string, PendingUse>()
    if (ofHour.size === 0) byHour.set(hour, ofHour)
    const known = ofHour.get(id)
    if (known !== undefined) return known
    const pending = { id, hour, requests: 0, records: 0, refused: 0 }
    ofHour.set(id, pending)
    return pending
  }

  return {
    note({ keyId, records, refused, nowMs }: AnswerUse): void {
      if (records + refused === 0) return
      const pending = pendingOf(keyId, hourOf(nowMs))
      pending.records += records
      pending.refused += refused
    },

    /** Adds `n` requests admitted at `atMs`; a refund adds -1. */
    addRequests(id: string, atMs: number, n: number): void {
      pendingOf(id, hourOf(atMs)).requests += n
    },

    /** Removes and returns everything. */
    take(): PendingUse[] {
      const taken = [...byHour.values()].flatMap(ofHour => [...ofHour.values()])
      byHour.clear()
      return taken
    },

    /** Returns use to the buffer after a failed flush. */
    putBack(taken: readonly PendingUse[]): void {
      for (const { id, hour, requests, records, refused } of taken) {
        const pending = pendingOf(id, hour)
        pending.requests += requests
        pending.records += records
        pending.refused += refused
      }
    },

    /** The days of a key that are not stored yet. */
    daysOf: (id: string): DayUse[] =>
      [...byHour.values().map(ofHour => ofHour.get(id))]
        .filter(use => use !== undefined)
        .map(dayOf),
  }
}
