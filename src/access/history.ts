/** The use of keys by hour and by UTC day, for 90 days: charts and reports, never a limit. */
import { DAY_MS, HOUR_MS, utcDay } from '../lib/time.ts'

/** Days that are kept, including today. */
export const HISTORY_DAYS = 90

/** Seconds between two writes of the counts in memory (contract F3). */
export const FLUSH_SECONDS = 30

/** The use of a key on a UTC day, see `utcDay`. */
export type DayUse = {
  day: number
  /** Requests admitted, without refunded ones. */
  requests: number
  records: number
  /** Requests refused because of a limit (429). */
  refused: number
  /** Requests by hour, up to the last hour with any; empty if the hours are unknown. */
  hours: readonly number[]
}

/** The use of a key: the instant of its last admission, and its days, oldest first. */
export type KeyUse = { lastSeenMs: number | null; days: readonly DayUse[] }

/** The records and refusals that a response adds to the use of its key. The request is counted elsewhere. */
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

/** The use of a key on a day that is not written yet. */
export type PendingUse = DayUse & { id: string; hours: number[] }

/** Counts the use of keys in memory until it is written. */
export function createUseBuffer() {
  /** By UTC day and key. */
  const byDay = new Map<number, Map<string, PendingUse>>()

  function pendingOf(id: string, day: number): PendingUse {
    const ofDay = byDay.get(day) ?? new Map<string, PendingUse>()
    if (ofDay.size === 0) byDay.set(day, ofDay)
    const known = ofDay.get(id)
    if (known !== undefined) return known
    const pending = { ...unusedDay(day), id, hours: [] }
    ofDay.set(id, pending)
    return pending
  }

  return {
    note({ keyId, records, refused, nowMs }: AnswerUse): void {
      if (records + refused === 0) return
      const pending = pendingOf(keyId, utcDay(nowMs))
      pending.records += records
      pending.refused += refused
    },

    /** Adds `n` requests that were admitted at `atMs`; a refund adds -1. */
    addRequests(id: string, atMs: number, n: number): void {
      const pending = pendingOf(id, utcDay(atMs))
      const { hours } = pending
      const hour = utcHour(atMs)
      while (hours.length <= hour) hours.push(0)
      hours[hour] = (hours[hour] ?? 0) + n
      pending.requests += n
    },

    /** Removes and returns everything. */
    take(): PendingUse[] {
      const taken = [...byDay.values()].flatMap(ofDay => [...ofDay.values()])
      byDay.clear()
      return taken
    },

    /** Takes days back after a flush has failed. */
    putBack(taken: readonly PendingUse[]): void {
      for (const use of taken) {
        const pending = pendingOf(use.id, use.day)
        Object.assign(pending, addDays(pending, use))
      }
    },

    /** Returns the days of a key that the store lacks. `writing`: the days in a flush that runs. */
    daysOf: (id: string, writing: Iterable<PendingUse> = []): DayUse[] =>
      [...byDay.values().map(ofDay => ofDay.get(id)), ...writing]
        .filter(use => use !== undefined)
        .filter(use => use.id === id)
        .map(({ id: _, ...use }) => use),
  }
}
