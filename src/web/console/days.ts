/** Owns which days are shown of the use of a key. Pure. */

import type { Day } from '../../admin/wire.ts'
import { DAY_MS, formatDay, utcDay } from '../../lib/time.ts'

/** Fewer days would be drawn as a few wide columns. */
const LEAST_DAYS = 30

/** The days until today, at least a month of them; those without use are there too. */
export function daysUntil(nowMs: number, days: readonly Day[]): Day[] {
  const known = new Map(days.map(day => [day.day, day]))
  const today = utcDay(nowMs)
  const first = days[0] === undefined ? today : Math.floor(Date.parse(days[0].day) / DAY_MS)
  const length = Math.max(LEAST_DAYS, today - first + 1)
  return Array.from({ length }, (_, index) => {
    const day = formatDay(today - length + 1 + index)
    return known.get(day) ?? { day, requests: 0, records: 0, refused: 0 }
  })
}
