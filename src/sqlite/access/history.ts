/**
 * Owns the use of keys in memory, as far as it is in the log of admissions and not in table `days`
 * (`days.ts`); divided into chunks as the usage of subjects is, and with them in the snapshot. The
 * use of `demo` is counted under its name, for all addresses together. Knows nothing of SQL.
 */
import { type DayUse, utcHour } from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import type { Subject } from '../../access/rate-limit.ts'
import { utcDay } from '../../lib/time.ts'
import {
  chunkOf,
  type Entry,
  type GivenBack,
  type IsIncluded,
  type Known as KnownSubject,
  type ResetEntry,
  type UsedDay,
  type UsedKey,
} from './subjects.ts'

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

/** A change of usage as a batch holds it, in JSON; its third member is an instant. */
export type LogEntry = Entry | GivenBack | UseEntry | MovedEntry | ResetEntry

/** A key in the text of a chunk. */
type Saved = readonly [id: string, lastMs: number, days: SavedDay[]]
/** `hours` begin with the first that has requests, which is hour `first`. */
type SavedDay = readonly [
  ...[day: number, records: number, refused: number, first: number, hours: number[]],
]

const saveDay = ({ day, records, refused, hours }: UsedDay): SavedDay => {
  const first = Math.max(
    0,
    hours.findIndex(requests => requests !== 0),
  )
  return [day, records, refused, first, hours.slice(first)]
}
const loadDay = ([day, records, refused, first, hours]: SavedDay): UsedDay => ({
  ...{ day, records, refused },
  hours: [...new Array<number>(first).fill(0), ...hours],
})

const never: IsIncluded = () => false

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
const toDayUse = (day: UsedDay): DayUse => ({ ...day, requests: sum(day.hours) })

const saveKeys = (keys: Iterable<UsedKey>): string =>
  JSON.stringify(Array.from(keys, ({ id, lastMs, days }): Saved => [id, lastMs, days.map(saveDay)]))
const loadKeys = (text: string): UsedKey[] =>
  (JSON.parse(text) as Saved[]).map(([id, lastMs, days]) => ({
    ...{ id, lastMs, isForgotten: false },
    days: days.map(loadDay),
  }))

function dayOf({ days }: UsedKey, day: number): UsedDay {
  const last = days.at(-1)
  if (last?.day === day) return last
  const known = days.find(each => each.day === day)
  if (known) return known
  const added: UsedDay = { day, records: 0, refused: 0, hours: [] }
  days.push(added)
  return added
}

/** Adds requests, 1 or -1, to the hour of an instant. */
function addRequests(known: UsedKey, atMs: number, requests: number): void {
  const { hours } = dayOf(known, utcDay(atMs))
  const hour = utcHour(atMs)
  while (hours.length <= hour) hours.push(0)
  hours[hour] = (hours[hour] ?? 0) + requests
}

/** The use of a key on days of which nothing is in table `days`; `lastMs`: its last admission. */
export type Unmoved = { id: string; lastMs: number; days: DayUse[] }

const toUnmoved = ({ id, lastMs, days }: UsedKey, some = days): Unmoved => ({
  ...{ id, lastMs },
  days: some.map(toDayUse),
})

function daysBefore(
  chunks: readonly ReadonlyMap<string, UsedKey>[],
  day: number,
  keysMax: number,
): Unmoved[] {
  const found: Unmoved[] = []
  for (const known of chunks.flatMap(keys => [...keys.values()])) {
    if (found.length === keysMax) break
    const days = known.days.filter(each => each.day < day)
    if (days.length > 0) found.push(toUnmoved(known, days))
  }
  return found
}

export type History = ReturnType<typeof createHistory>

function addUse(known: UsedKey, [, , atMs, records, refused]: UseEntry): void {
  const day = dayOf(known, utcDay(atMs))
  day.records += records
  day.refused += refused
}

/** The use of keys in so many chunks; none at first. */
export function createHistory(chunks: number) {
  let byChunk = Array.from({ length: chunks }, () => new Map<string, UsedKey>())
  /** No key has an earlier day: looking at all of them takes milliseconds. */
  let firstDay = Number.POSITIVE_INFINITY
  const noteDay = (day: number): void => {
    if (day < firstDay) firstDay = day
  }

  /**
   * The key of a subject, added when it is not known; `null` when its chunk is included already, and
   * for an address of a temporary key, which is counted itself.
   */
  function find(kind: Subject['kind'], subjectId: string, isIncluded: IsIncluded): UsedKey | null {
    if (kind === 'temp') return null
    const id = kind === 'demo' ? DEMO_KEY : subjectId
    const chunk = chunkOf(id, chunks)
    if (isIncluded(chunk)) return null
    const keys = byChunk[chunk]
    const known = keys?.get(id) ?? { id, lastMs: 0, days: [], isForgotten: false }
    keys?.set(id, known)
    return known
  }

  return {
    /** Counts an admission of `subject`; `null`: one that its chunk includes already. */
    admit(subject: KnownSubject | null, [kind, id, atMs]: Entry, isIncluded = never): void {
      let used = subject?.used ?? null
      if (used === null || used.isForgotten) {
        used = find(kind, id, isIncluded)
        if (used === null) return
        if (subject !== null && kind === 'key') subject.used = used
      }
      addRequests(used, atMs, 1)
      noteDay(utcDay(atMs))
      used.lastMs = atMs
    },

    /** Takes an admission that is given back out again. */
    giveBack([kind, id, atMs]: GivenBack, isIncluded = never): void {
      const known = find(kind, id, isIncluded)
      if (known === null) return
      addRequests(known, atMs, -1)
      noteDay(utcDay(atMs))
    },

    use(entry: UseEntry, isIncluded = never): void {
      const known = find('key', entry[1], isIncluded)
      if (known === null) return
      addUse(known, entry)
      noteDay(utcDay(entry[2]))
    },

    /** Forgets a day, and the key when no day is left. */
    moved([, id, , day]: MovedEntry, isIncluded = never): void {
      const chunk = chunkOf(id, chunks)
      const known = byChunk[chunk]?.get(id)
      if (known === undefined || isIncluded(chunk)) return
      known.days = known.days.filter(each => each.day !== day)
      if (known.days.length > 0) return
      known.isForgotten = true
      byChunk[chunk]?.delete(id)
    },

    read(id: string): Unmoved | null {
      const known = byChunk[chunkOf(id, chunks)]?.get(id)
      return known ? toUnmoved(known) : null
    },

    /** Keys with days before `day`, at most so many, and those days. */
    before(day: number, keysMax: number): Unmoved[] {
      if (firstDay >= day) return []
      const found = daysBefore(byChunk, day, keysMax)
      if (found.length === 0) firstDay = day
      return found
    },

    /** The text of a chunk, and adding what such a text holds. */
    save: (chunk: number): string => saveKeys(byChunk[chunk]?.values() ?? []),
    load(chunk: number, text: string): void {
      for (const known of loadKeys(text)) {
        byChunk[chunk]?.set(known.id, known)
        for (const { day } of known.days) noteDay(day)
      }
    },

    clear(): void {
      byChunk = byChunk.map(() => new Map<string, UsedKey>())
    },
  }
}
