/**
 * Owns the use of keys in memory, as far as it is in the log of admissions and not in table `days`
 * (`days.ts`); divided into chunks as the usage of subjects is, and with them in the snapshot. The
 * use of `demo` is counted under its name, for all addresses together. Knows nothing of SQL.
 */
import { DEMO_KEY } from '../../access/key.ts'
import { HOUR_MS } from '../../lib/time.ts'
import {
  chunkOf,
  type Entry,
  type GivenBack,
  type IsIncluded,
  type Known,
  never,
  type ResetEntry,
  type Subjects,
} from './subjects.ts'
import {
  applyTo,
  type HourEntry,
  loadKeys,
  type MovedEntry,
  saveKeys,
  toUnmoved,
  type Unmoved,
  type UsedEntry,
  type UsedKey,
  type UsedKeys,
  type UseEntry,
} from './used-keys.ts'

/** A change of usage as a batch holds it, in JSON; its third member is an instant. */
export type LogEntry = Entry | GivenBack | UseEntry | MovedEntry | ResetEntry

/**
 * A chunk. Until something reads it, its content is the `text` of the snapshot and the entries since
 * then: admissions do not need it, and a start would take twice as long.
 */
type Chunk = { text: string | null; waiting: UsedEntry[]; keys: UsedKeys }
const emptyChunk = (): Chunk => ({ text: null, waiting: [], keys: new Map() })

/** Keys and addresses that are examined for days that are over, at a time: requests wait for it. */
const EXAMINE_SLICE = 600

const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS) * HOUR_MS

/** The requests of a subject that its chunk does not have yet. */
const hourEntryOf = ({ id, hourMs, hourRequests, latestMs }: Known): HourEntry => [
  ...(['hour', id, hourMs, hourRequests, latestMs] as const),
]

/** Reads the text of a chunk, and applies what was waiting for that. */
function readText(chunk: Chunk, text: string, onDamage: (cause: unknown) => never): void {
  try {
    for (const known of loadKeys(text)) chunk.keys.set(known.id, known)
  } catch (cause) {
    chunk.keys.clear()
    onDamage(cause)
  }
  const { waiting } = chunk
  chunk.text = null
  chunk.waiting = []
  for (const entry of waiting) applyTo(chunk.keys, entry)
}

/** The chunks; `onDamage` is called with the failure to read one, and throws. */
function createChunks(count: number, subjects: Subjects, onDamage: (cause: unknown) => never) {
  let chunks = Array.from({ length: count }, emptyChunk)
  /** What is applied before anything is read, see `defer`. */
  let deferred: (() => void)[] = []
  const at = (index: number): Chunk => chunks[index] ?? emptyChunk()

  /** Applies an entry to a chunk, later if that was not read yet. */
  function apply(index: number, entry: UsedEntry): void {
    const chunk = at(index)
    if (chunk.text === null) applyTo(chunk.keys, entry)
    else chunk.waiting.push(entry)
  }

  /** Moves the requests that are counted with a subject to its chunk. */
  function settle(subject: Known): void {
    if (subject.hourRequests === 0) return
    apply(subject.chunk, hourEntryOf(subject))
    subject.hourRequests = 0
  }

  function applyDeferred(): void {
    const all = deferred
    deferred = []
    try {
      for (const applyBatch of all) applyBatch()
    } catch (cause) {
      onDamage(cause)
    }
  }

  /** A chunk that has been read. */
  function open(index: number): Chunk {
    applyDeferred()
    const chunk = at(index)
    if (chunk.text !== null) readText(chunk, chunk.text, onDamage)
    return chunk
  }

  return {
    apply,
    settle,
    applyDeferred,
    defer: (applyBatch: () => void): void => void deferred.push(applyBatch),

    /** A chunk with all that is known of its keys. */
    read(index: number): Chunk {
      const chunk = open(index)
      for (const subject of subjects.inChunk(index)) settle(subject)
      return chunk
    },

    /** One key of a chunk with all that is known of it: in microseconds, however many there are. */
    readKey(index: number, id: string): UsedKey | null {
      const chunk = open(index)
      const subject = subjects.key(id)
      if (subject !== null) settle(subject)
      return chunk.keys.get(id) ?? null
    },

    load(index: number, text: string): void {
      chunks[index] = { ...emptyChunk(), text }
    },

    clear(): void {
      chunks = chunks.map(emptyChunk)
      deferred = []
    },
  }
}

/** Keys with days that are over, and those days; `mayRemain`: there may be more. */
export type Over = { found: Unmoved[]; mayRemain: boolean }

/** Returns a function that finds the days before a day, chunk by chunk. */
function createSearch(
  count: number,
  subjects: Subjects,
  { read }: ReturnType<typeof createChunks>,
) {
  let searchedDay = 0
  let next = 0

  /** Adds what is found among keys; returns whether that is all. */
  function addFrom(keys: UsedKeys, found: Unmoved[], keysMax: number): boolean {
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
      let examined = 0
      while (next < count && examined < EXAMINE_SLICE) {
        const { keys } = read(next)
        examined += Math.max(keys.size, subjects.inChunk(next).length) // addresses too
        if (!addFrom(keys, found, keysMax)) break
        next += 1
      }
      return { found, mayRemain: next < count }
    },
  }
}

export type History = ReturnType<typeof createHistory>

/**
 * The use of the keys among `subjects`, in so many chunks; none at first. `onDamage` is called with
 * the failure to read a chunk, and throws.
 */
export function createHistory(
  count: number,
  subjects: Subjects,
  onDamage: (cause: unknown) => never,
) {
  const chunks = createChunks(count, subjects, onDamage)
  const search = createSearch(count, subjects, chunks)

  /** Applies an entry to its chunk, if that does not include it. */
  function apply(entry: UsedEntry, isIncluded: IsIncluded): void {
    const index = chunkOf(entry[1], count)
    if (!isIncluded(index)) chunks.apply(index, entry)
  }

  return {
    settle: chunks.settle,
    /** Applies a batch that only adds to days when something is read: a start does not need it. */
    defer: chunks.defer,

    /** Counts an admission of a subject. Addresses of temporary keys are counted by the keys. */
    admit(subject: Known, atMs: number): void {
      if (subject.kind !== 'key') return
      const { hourMs } = subject
      if (atMs < hourMs || atMs >= hourMs + HOUR_MS) {
        chunks.settle(subject)
        subject.hourMs = hourOf(atMs)
      }
      subject.hourRequests += 1
    },

    admitDemo: (atMs: number, isIncluded = never): void =>
      apply(['hour', DEMO_KEY, atMs, 1, atMs], isIncluded),

    /** Takes an admission back. */
    giveBack([kind, id, atMs]: GivenBack, isIncluded = never): void {
      if (kind !== 'temp')
        apply(['hour', kind === 'demo' ? DEMO_KEY : id, atMs, -1, null], isIncluded)
    },

    use: (entry: UseEntry, isIncluded = never): void => apply(entry, isIncluded),

    /** Forgets a day, after what is counted with the subject. */
    move(entry: MovedEntry, isIncluded = never): void {
      chunks.applyDeferred() // while the day is there
      const subject = subjects.key(entry[1])
      if (subject !== null) chunks.settle(subject)
      apply(entry, isIncluded)
    },

    read(id: string): Unmoved | null {
      const known = chunks.readKey(chunkOf(id, count), id)
      return known === null ? null : toUnmoved(known)
    },

    before: search.find,

    /** The text of a chunk, and adding what such a text holds. */
    save: (index: number): string => saveKeys(chunks.read(index).keys.values()),
    load: chunks.load,

    /** All keys, from all chunks. @throws what `onDamage` throws. */
    readAll(): Unmoved[] {
      const all: Unmoved[] = []
      for (let index = 0; index < count; index += 1) {
        for (const known of chunks.read(index).keys.values()) all.push(toUnmoved(known))
      }
      return all
    },

    clear(): void {
      chunks.clear()
      search.restart()
    },
  }
}
