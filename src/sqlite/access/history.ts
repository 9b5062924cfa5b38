/**
 * The use of keys by hour and by day, as far as it is in the log of admissions and not in table `days`
 * (`key-use.ts`). Divided into chunks as the usage of subjects is, and with them in the snapshot. The
 * use of `demo` is counted under its name, for all addresses together. Knows nothing of SQL.
 *
 * A start reads no chunk: admissions do not need it, and a start would take twice as long. Until
 * something asks for its content, a chunk is the text of the snapshot and the entries since then.
 */
import { type DayUse, utcHour } from '../../access/history.ts'
import { DEMO_KEY } from '../../access/key.ts'
import { HOUR_MS, utcDay } from '../../lib/time.ts'
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

/** What answers added to the use of a key by `atMs`. */
type UseEntry = readonly ['use', id: string, atMs: number, records: number, refused: number]
/** A day of a key was moved to table `days`, at `atMs`. */
type MovedEntry = readonly ['moved', id: string, atMs: number, day: number]
/** Adds `n` requests of a key at `atMs`; the last was admitted at `lastMs`, `null`: none was. */
type HourEntry = readonly ['hour', id: string, atMs: number, n: number, lastMs: number | null]
type UsedEntry = HourEntry | UseEntry | MovedEntry

/** A change of usage as a batch holds it, in JSON; its third member is an instant. */
export type LogEntry = Entry | GivenBack | UseEntry | MovedEntry | ResetEntry

/** The use of a key on a day, and of a key on days; `lastMs`: its last admission. */
type UsedDay = { readonly day: number; records: number; refused: number; readonly hours: number[] }
type UsedKey = { readonly id: string; lastMs: number; days: UsedDay[] }
type UsedKeys = Map<string, UsedKey>

/** The use of a key on days of which nothing is in table `days`; `lastMs`: its last admission. */
type Unmoved = { id: string; lastMs: number; days: DayUse[] }

const toUnmoved = ({ id, lastMs, days }: UsedKey, some = days): Unmoved => ({
  id,
  lastMs,
  days: some.map(day => ({ ...day, requests: day.hours.reduce((a, b) => a + b, 0) })),
})

/** A key in the text of a chunk; `hours` begin with the first that has requests, which is hour `first`. */
type SavedKey = readonly [id: string, lastMs: number, days: SavedDay[]]
type SavedDay = readonly [day: number, records: number, refused: number, ...[number, number[]]]

export const saveKeys = (keys: Iterable<UsedKey>): string =>
  JSON.stringify(
    Array.from(keys, ({ id, lastMs, days }): SavedKey => {
      const saved = days.map(({ day, records, refused, hours }): SavedDay => {
        const first = hours.findIndex(requests => requests !== 0)
        return [day, records, refused, Math.max(0, first), hours.slice(Math.max(0, first))]
      })
      return [id, lastMs, saved]
    }),
  )

const loadKeys = (text: string): UsedKeys =>
  new Map(
    (JSON.parse(text) as SavedKey[]).map(([id, lastMs, saved]) => {
      const days = saved.map(([day, records, refused, first, hours]) => ({
        ...{ day, records, refused },
        hours: [...new Array<number>(first).fill(0), ...hours],
      }))
      return [id, { id, lastMs, days }]
    }),
  )

/** The use of a key on a day, added if there is none. */
function dayOf({ days }: UsedKey, atMs: number): UsedDay {
  const day = utcDay(atMs)
  const known = days.findLast(each => each.day === day)
  if (known) return known
  const added: UsedDay = { day, records: 0, refused: 0, hours: [] }
  days.push(added)
  return added
}

function applyTo(keys: UsedKeys, entry: UsedEntry): void {
  const [kind, id, atMs] = entry
  const known = keys.get(id) ?? { id, lastMs: 0, days: [] }
  if (kind === 'moved') {
    known.days = known.days.filter(({ day }) => day !== entry[3])
    if (known.days.length === 0) keys.delete(id) // until it is used again
    return
  }
  keys.set(id, known)
  if (kind === 'use') {
    const day = dayOf(known, atMs)
    day.records += entry[3]
    day.refused += entry[4]
    return
  }
  const { hours } = dayOf(known, atMs)
  const hour = utcHour(atMs)
  while (hours.length <= hour) hours.push(0)
  hours[hour] = (hours[hour] ?? 0) + entry[3]
  known.lastMs = entry[4] ?? known.lastMs
}

/** `text`: the content of the snapshot while nothing has read it, and `waiting` what came since. */
type Chunk = { text: string | null; waiting: UsedEntry[]; keys: UsedKeys }
const emptyChunk = (): Chunk => ({ text: null, waiting: [], keys: new Map() })

/** Keys and addresses that are examined for days that are over, at a time: requests wait for it. */
const EXAMINE_SLICE = 600

/** Keys with days that are over, and those days; `mayRemain`: there may be more. */
type Over = { found: Unmoved[]; mayRemain: boolean }

/**
 * The use of the keys among `subjects`, in so many chunks; none at first. `onDamage` is called with
 * the failure to read a chunk, and throws.
 */
export function createHistory(
  count: number,
  subjects: Subjects,
  onDamage: (cause: unknown) => never,
) {
  let chunks = Array.from({ length: count }, emptyChunk)
  /** Batches that are applied before anything is read, see `defer`. */
  let deferred: (() => void)[] = []
  /** The day before which days are searched, and the chunk that is next. */
  const search = { day: 0, next: 0 }
  const at = (index: number): Chunk => chunks[index] ?? emptyChunk()

  function apply(index: number, entry: UsedEntry): void {
    const chunk = at(index)
    if (chunk.text === null) applyTo(chunk.keys, entry)
    else chunk.waiting.push(entry)
  }

  /** Applies an entry to its chunk, if that does not include it. */
  function add(entry: UsedEntry, isIncluded: IsIncluded = never): void {
    const index = chunkOf(entry[1], count)
    if (!isIncluded(index)) apply(index, entry)
  }

  /** Moves the requests that are counted with a subject to its chunk. */
  function settle(subject: Known): void {
    if (subject.hourRequests === 0) return
    const { id, hourMs, hourRequests, latestMs } = subject
    apply(subject.chunk, ['hour', id, hourMs, hourRequests, latestMs])
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
    if (chunk.text === null) return chunk
    try {
      chunk.keys = loadKeys(chunk.text)
    } catch (cause) {
      onDamage(cause)
    }
    chunk.text = null
    for (const entry of chunk.waiting.splice(0)) applyTo(chunk.keys, entry)
    return chunk
  }

  /** The keys of a chunk, with all that is known of them. */
  function read(index: number): UsedKeys {
    const { keys } = open(index)
    subjects.inChunk(index).forEach(settle)
    return keys
  }

  return {
    settle,
    /** Applies a batch that only adds to days when something is read: a start does not need it. */
    defer: (applyBatch: () => void): void => void deferred.push(applyBatch),

    /** Counts an admission of a subject. Addresses of temporary keys are counted by the keys. */
    admit(subject: Known, atMs: number): void {
      if (subject.kind !== 'key') return
      const { hourMs } = subject
      if (atMs < hourMs || atMs >= hourMs + HOUR_MS) {
        settle(subject)
        subject.hourMs = Math.floor(atMs / HOUR_MS) * HOUR_MS
      }
      subject.hourRequests += 1
    },

    admitDemo: (atMs: number, isIncluded?: IsIncluded): void =>
      add(['hour', DEMO_KEY, atMs, 1, atMs], isIncluded),

    giveBack([kind, id, atMs]: GivenBack, isIncluded?: IsIncluded): void {
      if (kind === 'temp') return
      add(['hour', kind === 'demo' ? DEMO_KEY : id, atMs, -1, null], isIncluded)
    },

    add,

    /** Forgets a day, after what is counted with the subject. */
    move(entry: MovedEntry, isIncluded?: IsIncluded): void {
      applyDeferred() // while the day is there
      const subject = subjects.key(entry[1])
      if (subject !== null) settle(subject)
      add(entry, isIncluded)
    },

    /** One key: in microseconds, however many its chunk has. */
    read(id: string): Unmoved | null {
      const { keys } = open(chunkOf(id, count))
      const subject = subjects.key(id)
      if (subject !== null) settle(subject)
      const known = keys.get(id)
      return known === undefined ? null : toUnmoved(known)
    },

    /** All keys, from all chunks. @throws what `onDamage` throws. */
    readAll: (): Unmoved[] =>
      chunks.flatMap((_, index) => [...read(index).values()].map(known => toUnmoved(known))),

    /** The next keys with days before `day`, at most so many; they are to be moved at once. */
    before(day: number, keysMax: number): Over {
      if (day !== search.day) search.next = 0
      search.day = day
      const found: Unmoved[] = []
      let examined = 0
      while (search.next < count && examined < EXAMINE_SLICE) {
        const keys = read(search.next)
        examined += Math.max(keys.size, subjects.inChunk(search.next).length) // addresses too
        for (const known of keys.values()) {
          const days = known.days.filter(each => each.day < day)
          if (days.length > 0) found.push(toUnmoved(known, days))
        }
        if (found.length > keysMax) return { found: found.slice(0, keysMax), mayRemain: true }
        search.next += 1
      }
      return { found, mayRemain: search.next < count }
    },

    /** The text of a chunk, and adding what such a text holds. */
    save(index: number): string {
      const text = saveKeys(read(index).values())
      chunks[index] = { ...emptyChunk(), text } // a tenth of the memory
      return text
    },
    load(index: number, text: string): void {
      chunks[index] = { ...emptyChunk(), text }
    },

    clear(): void {
      chunks = chunks.map(emptyChunk)
      deferred = []
      search.next = 0
    },
  }
}
