/**
 * Owns the use of keys in SQLite, from three places: what answers added and is not written yet, the
 * log of admissions (`history.ts`), and table `days` (`days.ts`), to which it moves days that are
 * over.
 */
import type { Database } from 'bun:sqlite'
import {
  type AnswerUse,
  type DayUse,
  type KeyUse,
  mergeDays,
  unusedDay,
} from '../../access/history.ts'
import { utcDay } from '../../lib/time.ts'
import type { createAdmissionLog } from './admission-log.ts'
import { createDayTable } from './days.ts'
import type { UseEntry } from './history.ts'

/** Keys whose days are moved at a time: requests wait for it. */
const MOVE_SLICE = 200

/**
 * Keys that a flush of some writes at least, and of how many such flushes one writes its part: writing
 * all of thousands of keys every second would make requests wait, and the log long.
 */
const FLUSH_MIN = 100
const FLUSH_CALLS = 30

/** What answers added to the use of keys and is not written yet. */
function createNotes() {
  /** Of each key a note for each day, the latest last. */
  const byKey = new Map<string, AnswerUse[]>()
  return {
    add({ keyId, records, refused, nowMs }: AnswerUse): void {
      const notes = byKey.get(keyId)
      const last = notes?.at(-1)
      if (last && utcDay(last.nowMs) === utcDay(nowMs)) {
        last.records += records
        last.refused += refused
        return
      }
      const note = { keyId, records, refused, nowMs }
      if (notes) notes.push(note)
      else byKey.set(keyId, [note])
    },
    /** The keys that were noted first, at most so many. */
    first: (most: number): string[] => [...byKey.keys().take(most)],
    count: (): number => byKey.size,
    entriesOf: (id: string): UseEntry[] =>
      (byKey.get(id) ?? []).map(({ keyId, nowMs, records, refused }) => [
        ...(['use', keyId, nowMs, records, refused] as const),
      ]),
    of: (id: string): DayUse[] =>
      (byKey.get(id) ?? []).map(({ records, refused, nowMs }) => ({
        ...unusedDay(utcDay(nowMs)),
        ...{ records, refused },
      })),
    forget: (id: string): boolean => byKey.delete(id),
  }
}

/** The use of the keys of an open database, with the log of its admissions. */
export function createKeyUse(db: Database, admissions: ReturnType<typeof createAdmissionLog>) {
  const days = createDayTable(db)
  const noted = createNotes()

  const history = db.transaction((ids: readonly string[], fromDay: number, toDay: number) => {
    const moved = days.read(ids, fromDay, toDay)
    const seen = days.lastSeen(ids)
    admissions.catchUp() // to the same commit: the transaction has begun to read
    return ids.map((id): KeyUse => {
      const unmoved = admissions.useOf(id)
      const recent = [...(unmoved?.days ?? []), ...noted.of(id)]
      const inRange = recent.filter(({ day }) => day >= fromDay && day <= toDay)
      const lastSeenMs = Math.max(seen.get(id) ?? 0, unmoved?.lastMs ?? 0)
      return { lastSeenMs: lastSeenMs || null, days: mergeDays(moved.get(id) ?? [], inRange) }
    })
  })

  return {
    note: noted.add,

    /** Writes what was noted of `keys`, in a transaction of its own. */
    flush(keys: 'some' | 'all', inTransaction: (work: () => void) => void): void {
      const count = noted.count()
      if (count === 0) return
      const most = keys === 'all' ? count : Math.max(FLUSH_MIN, Math.ceil(count / FLUSH_CALLS))
      const ids = noted.first(most)
      inTransaction(() => ids.flatMap(noted.entriesOf).forEach(admissions.append))
      ids.forEach(noted.forget)
    },

    history: (ids: readonly string[], fromDay: number, toDay: number): KeyUse[] =>
      history(ids, fromDay, toDay),

    /** Moves a slice of the days before that of `timeMs`; returns whether more may remain. */
    moveDays(timeMs: number): boolean {
      const { found, mayRemain } = admissions.unmoved(utcDay(timeMs), MOVE_SLICE)
      for (const { id, lastMs, days: over } of found) {
        for (const use of over) {
          days.add(id, use, lastMs)
          admissions.append(['moved', id, timeMs, use.day])
        }
      }
      return mayRemain
    },

    removeBefore: days.removeBefore,
  }
}
