/**
 * Owns the use of keys in memory, as far as it is in the log of admissions and not in table `days`
 * (`days.ts`); divided into chunks as the usage of subjects is, and with them in the snapshot. The
 * use of `demo` is counted under its name, for all addresses together. Knows nothing of SQL.
 */
import { type DayUse, utcHour } from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
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

export type History = ReturnType<typeof createHistory>

function addUse(known: UsedKey, [, , atMs, records, refused]: UseEntry): void {
  const day = dayOf(known, utcDay(atMs))
  day.records += records
  day.refused += refused
}

/**
 * A chunk. Until something reads it, its content is the `text` of the snapshot and the entries of the
 * log since then: admissions do not need it, and a start would take twice as long.
 */
type Chunk = { text: string | null; waiting: LogEntry[]; keys: Map<string, UsedKey> }
const emptyChunk = (): Chunk => ({ text: null, waiting: [], keys: new Map() })

/** Chunks that are read for their days that are over, at a time: requests wait for it. */
const READ_SLICE = 8

/** The key with an id, added if there is none. */
function keyIn({ keys }: Chunk, id: string): UsedKey {
  const known = keys.get(id) ?? { id, lastMs: 0, days: [], isForgotten: false }
  keys.set(id, known)
  return known
}

/** Forgets a day, and the key when no day is left. */
function forgetDay({ keys }: Chunk, [, id, , day]: MovedEntry): void {
  const known = keys.get(id)
  if (known === undefined) return
  known.days = known.days.filter(each => each.day !== day)
  if (known.days.length > 0) return
  known.isForgotten = true
  keys.delete(id)
}

function addAdmission(used: UsedKey, atMs: number): void {
  addRequests(used, atMs, 1)
  used.lastMs = atMs
}

/** The name under which an entry counts. */
const idOf = ([kind, id]: LogEntry): string => (kind === 'demo' ? DEMO_KEY : id)

/** Applies an entry to its chunk, which has been read. */
function applyTo(chunk: Chunk, entry: LogEntry): void {
  if (entry[0] === 'moved') return forgetDay(chunk, entry)
  if (entry[0] === 'reset') return
  const known = keyIn(chunk, idOf(entry))
  if (entry[0] === 'use') addUse(known, entry)
  else if (entry.length === 3) addRequests(known, entry[2], -1)
  else addAdmission(known, entry[2])
}

/** The chunks; `onDamage` is called with the failure to read one, and throws. */
function createChunks(count: number, onDamage: (cause: unknown) => never) {
  let chunks = Array.from({ length: count }, emptyChunk)
  const at = (index: number): Chunk => chunks[index] ?? emptyChunk()
  return {
    at,

    /** A chunk that has been read. */
    read(index: number): Chunk {
      const chunk = at(index)
      const { text, waiting } = chunk
      if (text === null) return chunk
      try {
        for (const known of loadKeys(text)) chunk.keys.set(known.id, known)
      } catch (cause) {
        chunk.keys.clear()
        onDamage(cause)
      }
      chunk.text = null
      chunk.waiting = []
      for (const entry of waiting) applyTo(chunk, entry)
      return chunk
    },

    load(index: number, text: string): void {
      chunks[index] = { ...emptyChunk(), text }
    },

    clear(): void {
      chunks = chunks.map(emptyChunk)
    },
  }
}

/** Keys with days that are over, and those days; `mayRemain`: there may be more. */
export type Over = { found: Unmoved[]; mayRemain: boolean }

/** Returns a function that finds the days before a day, chunk by chunk. */
function createSearch(count: number, { at, read }: ReturnType<typeof createChunks>) {
  let searchedDay = 0
  let next = 0

  /** Adds what is found in a chunk; returns whether that is all. */
  function addFrom(keys: ReadonlyMap<string, UsedKey>, found: Unmoved[], keysMax: number): boolean {
    for (const known of keys.values()) {
      if (found.length === keysMax) return false
      const days = known.days.filter(({ day }) => day < searchedDay)
      if (days.length > 0) found.push(toUnmoved(known, days))
    }
    return true
  }

  return {
    restart(): void {
      next = 0
    },
    /** The next keys with days before `day`, at most so many; they are to be moved at once. */
    find(day: number, keysMax: number): Over {
      if (day !== searchedDay) next = 0
      searchedDay = day
      const found: Unmoved[] = []
      let reads = 0
      while (next < count && reads < READ_SLICE) {
        if (at(next).text !== null) reads += 1
        if (!addFrom(read(next).keys, found, keysMax)) break
        next += 1
      }
      return { found, mayRemain: next < count }
    },
  }
}

/**
 * The use of keys in so many chunks; none at first. `onDamage` is called with the failure to read a
 * chunk, and throws.
 */
export function createHistory(count: number, onDamage: (cause: unknown) => never) {
  const chunks = createChunks(count, onDamage)
  const search = createSearch(count, chunks)

  /** Applies an entry to its chunk, later if that was not read yet. */
  function apply(entry: LogEntry, isIncluded: IsIncluded): void {
    const index = chunkOf(idOf(entry), count)
    if (isIncluded(index)) return
    const chunk = chunks.at(index)
    if (chunk.text === null) applyTo(chunk, entry)
    else chunk.waiting.push(entry)
  }

  /** The key of a subject; `null` when its chunk includes the entry, or was not read yet. */
  function usedOf(subject: KnownSubject, entry: Entry, isIncluded: IsIncluded): UsedKey | null {
    if (isIncluded(subject.chunk)) return null
    const chunk = chunks.at(subject.chunk)
    if (chunk.text === null) return keyIn(chunk, entry[1])
    chunk.waiting.push(entry)
    return null
  }

  return {
    /**
     * Counts an admission of `subject`; `null`: one that its chunk includes already. Addresses of
     * temporary keys are counted by the keys.
     */
    admit(subject: KnownSubject | null, entry: Entry, isIncluded = never): void {
      if (entry[0] === 'temp') return
      if (entry[0] === 'demo' || subject === null) return apply(entry, isIncluded)
      let { used } = subject
      if (used === null || used.isForgotten) {
        used = usedOf(subject, entry, isIncluded)
        subject.used = used
      }
      if (used !== null) addAdmission(used, entry[2])
    },

    /** Applies any other entry to what its chunk does not include yet. */
    apply(entry: GivenBack | UseEntry | MovedEntry, isIncluded = never): void {
      if (entry[0] !== 'temp') apply(entry, isIncluded)
    },

    read(id: string): Unmoved | null {
      const known = chunks.read(chunkOf(id, count)).keys.get(id)
      return known ? toUnmoved(known) : null
    },

    before: search.find,

    /** The text of a chunk, and adding what such a text holds. */
    save: (index: number): string => saveKeys(chunks.read(index).keys.values()),
    load: chunks.load,

    /** Reads all chunks. @throws what `onDamage` throws. */
    readAll(): void {
      for (let index = 0; index < count; index += 1) chunks.read(index)
    },

    clear(): void {
      chunks.clear()
      search.restart()
    },
  }
}
