/**
 * Owns the use of keys in memory, as far as it is in the log of admissions and not in table `days`
 * (`days.ts`); divided into chunks as the usage of subjects is, and with them in the snapshot. The
 * use of `demo` is counted under its name, for all addresses together. Knows nothing of SQL.
 */
import { type DayUse, utcHour } from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import type { Subject } from '../../access/rate-limit.ts'
import { utcDay } from '../../lib/time.ts'
import { chunkOf, type Entry, type GivenBack, type IsIncluded } from './subjects.ts'

/** What answers added to the use of a key by `atMs`. */
export type UseEntry = readonly [
  kind: 'use',
  id: string,
  atMs: number,
  records: number,
  refused: number,
]
/** A day of a key was moved to table `days`, at `atMs`. */
export type MovedEntry = readonly [kind: 'moved', id: string, atMs: number, day: number]

type Day = { readonly day: number; records: number; refused: number; readonly hours: number[] }
type Known = { readonly id: string; lastMs: number; days: Day[] }

/** A key in the text of a chunk. */
type Saved = readonly [id: string, lastMs: number, days: SavedDay[]]
/** `hours` begin with the first that has requests, which is hour `first`. */
type SavedDay = readonly [
  ...[day: number, records: number, refused: number, first: number, hours: number[]],
]

const saveDay = ({ day, records, refused, hours }: Day): SavedDay => {
  const first = Math.max(
    0,
    hours.findIndex(requests => requests !== 0),
  )
  return [day, records, refused, first, hours.slice(first)]
}
const loadDay = ([day, records, refused, first, hours]: SavedDay): Day => ({
  ...{ day, records, refused },
  hours: [...new Array<number>(first).fill(0), ...hours],
})

const never: IsIncluded = () => false

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
const toDayUse = (day: Day): DayUse => ({ ...day, requests: sum(day.hours) })

/** The use of a key on days of which nothing is in table `days`; `lastMs`: its last admission. */
export type Unmoved = { id: string; lastMs: number; days: DayUse[] }

export type History = ReturnType<typeof createHistory>

/** The use of keys in so many chunks; none at first. */
export function createHistory(chunks: number) {
  let byChunk = Array.from({ length: chunks }, () => new Map<string, Known>())

  /**
   * The key of a subject, added when it is not known; `null` when its chunk is included already, and
   * for an address of a temporary key, which is counted itself.
   */
  function find(kind: Subject['kind'], subjectId: string, isIncluded: IsIncluded): Known | null {
    if (kind === 'temp') return null
    const id = kind === 'demo' ? DEMO_KEY : subjectId
    const chunk = chunkOf(id, chunks)
    if (isIncluded(chunk)) return null
    const keys = byChunk[chunk]
    const known = keys?.get(id) ?? { id, lastMs: 0, days: [] }
    keys?.set(id, known)
    return known
  }

  function dayOf({ days }: Known, day: number): Day {
    const last = days.at(-1)
    if (last?.day === day) return last
    const known = days.find(each => each.day === day)
    if (known) return known
    const added: Day = { day, records: 0, refused: 0, hours: [] }
    days.push(added)
    return added
  }

  /** Adds requests, 1 or -1, to the hour of an instant. */
  function addRequests(known: Known, atMs: number, requests: number): void {
    const { hours } = dayOf(known, utcDay(atMs))
    const hour = utcHour(atMs)
    while (hours.length <= hour) hours.push(0)
    hours[hour] = (hours[hour] ?? 0) + requests
  }

  return {
    /** Counts an admission. */
    admit([kind, id, atMs]: Entry, isIncluded = never): void {
      const known = find(kind, id, isIncluded)
      if (known === null) return
      addRequests(known, atMs, 1)
      known.lastMs = atMs
    },

    /** Takes an admission that is given back out again. */
    giveBack([kind, id, atMs]: GivenBack, isIncluded = never): void {
      const known = find(kind, id, isIncluded)
      if (known) addRequests(known, atMs, -1)
    },

    use([, id, atMs, records, refused]: UseEntry, isIncluded = never): void {
      const known = find('key', id, isIncluded)
      if (known === null) return
      const day = dayOf(known, utcDay(atMs))
      day.records += records
      day.refused += refused
    },

    /** Forgets a day, and the key when no day is left. */
    moved([, id, , day]: MovedEntry, isIncluded = never): void {
      const chunk = chunkOf(id, chunks)
      const known = byChunk[chunk]?.get(id)
      if (known === undefined || isIncluded(chunk)) return
      known.days = known.days.filter(each => each.day !== day)
      if (known.days.length === 0) byChunk[chunk]?.delete(id)
    },

    read(id: string): Omit<Unmoved, 'id'> | null {
      const known = byChunk[chunkOf(id, chunks)]?.get(id)
      return known ? { lastMs: known.lastMs, days: known.days.map(toDayUse) } : null
    },

    /** Keys with days before `day`, at most so many, and those days. */
    before(day: number, keysMax: number): Unmoved[] {
      const found: Unmoved[] = []
      for (const keys of byChunk) {
        for (const { id, lastMs, days } of keys.values()) {
          if (found.length === keysMax) return found
          const ended = days.filter(each => each.day < day)
          if (ended.length > 0) found.push({ id, lastMs, days: ended.map(toDayUse) })
        }
      }
      return found
    },

    /** The text of a chunk, and adding what such a text holds. */
    save: (chunk: number): string =>
      JSON.stringify(
        Array.from(
          byChunk[chunk]?.values() ?? [],
          ({ id, lastMs, days }): Saved => [id, lastMs, days.map(saveDay)],
        ),
      ),
    load(chunk: number, text: string): void {
      for (const [id, lastMs, days] of JSON.parse(text) as Saved[]) {
        byChunk[chunk]?.set(id, { id, lastMs, days: days.map(loadDay) })
      }
    },

    clear(): void {
      byChunk = byChunk.map(() => new Map<string, Known>())
    },
  }
}
