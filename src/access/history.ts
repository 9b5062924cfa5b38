/** The use of keys by hour and by UTC day, for 90 days: charts and reports, never a limit. */
import { DAY_MS, HOUR_MS, utcDay } from '../lib/time.ts'

/** How many days are kept, including today. */
export const HISTORY_DAYS = 90

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

/** The records and refusals that a response adds to the use of its key; the request itself is counted apart. */
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

/** `take('some')` is called every second; everything is written within 30 seconds (contract F3). */
const WRITE_EVERY = 30

/** Counts the use of keys in memory until it is written. */
export function createUseBuffer() {
  const byKey = new Map<string, PendingUse[]>()
  let calls = 0

  function pendingOf(id: string, day: number): PendingUse {
    const days = byKey.get(id) ?? []
    const known = days.find(use => use.day === day)
    if (known !== undefined) return known
    const pending = { ...unusedDay(day), id, hours: [] }
    days.push(pending)
    byKey.set(id, days)
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

    /** Removes and returns everything; with `some`, at every 30th call, and otherwise nothing. */
    take(keys: 'some' | 'all'): PendingUse[] {
      calls += 1
      if (keys === 'some' && calls % WRITE_EVERY !== 0) return []
      const taken = [...byKey.values()].flat()
      byKey.clear()
      return taken
    },

    /** Takes days back after a flush has failed. */
    putBack(taken: readonly PendingUse[]): void {
      for (const { id, day, requests, records, refused, hours } of taken) {
        const pending = pendingOf(id, day)
        pending.requests += requests
        pending.records += records
        pending.refused += refused
        pending.hours = addHours(pending.hours, hours)
      }
    },

    /** Returns the days of a key that the store lacks. `writing`: the days in a flush that runs. */
    daysOf: (id: string, writing: Iterable<PendingUse> = []): DayUse[] =>
      [...(byKey.get(id) ?? []), ...writing]
        .filter(pending => pending.id === id)
        .map(({ id: _, ...use }) => use),
  }
}
