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

const saveKeys = (keys: Iterable<Known>): string =>
  JSON.stringify(Array.from(keys, ({ id, lastMs, days }): Saved => [id, lastMs, days.map(saveDay)]))
const loadKeys = (text: string): Known[] =>
  (JSON.parse(text) as Saved[]).map(([id, lastMs, days]) => ({
    ...{ id, lastMs },
    days: days.map(loadDay),
  }))

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

/** The use of a key on days of which nothing is in table `days`; `lastMs`: its last admission. */
export type Unmoved = { id: string; lastMs: number; days: DayUse[] }

const toUnmoved = ({ id, lastMs, days }: Known, some = days): Unmoved => ({
  ...{ id, lastMs },
  days: some.map(toDayUse),
})

export type History = ReturnType<typeof createHistory>

function addUse(known: Known, [, , atMs, records, refused]: UseEntry): void {
  const day = dayOf(known, utcDay(atMs))
  day.records += records
  day.refused += refused
}

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

    use(entry: UseEntry, isIncluded = never): void {
      const known = find('key', entry[1], isIncluded)
      if (known) addUse(known, entry)
    },

    /** Forgets a day, and the key when no day is left. */
    moved([, id, , day]: MovedEntry, isIncluded = never): void {
      const chunk = chunkOf(id, chunks)
      const known = byChunk[chunk]?.get(id)
      if (known === undefined || isIncluded(chunk)) return
      known.days = known.days.filter(each => each.day !== day)
      if (known.days.length === 0) byChunk[chunk]?.delete(id)
    },

    read(id: string): Unmoved | null {
      const known = byChunk[chunkOf(id, chunks)]?.get(id)
      return known ? toUnmoved(known) : null
    },

    /** Keys with days before `day`, at most so many, and those days. */
    before(day: number, keysMax: number): Unmoved[] {
      const found: Unmoved[] = []
      for (const keys of byChunk) {
        for (const known of keys.values()) {
          if (found.length === keysMax) return found
          const days = known.days.filter(each => each.day < day)
          if (days.length > 0) found.push(toUnmoved(known, days))
        }
      }
      return found
    },

    /** The text of a chunk, and adding what such a text holds. */
    save: (chunk: number): string => saveKeys(byChunk[chunk]?.values() ?? []),
    load(chunk: number, text: string): void {
      for (const known of loadKeys(text)) byChunk[chunk]?.set(known.id, known)
    },

    clear(): void {
      byChunk = byChunk.map(() => new Map<string, Known>())
    },
  }
}
