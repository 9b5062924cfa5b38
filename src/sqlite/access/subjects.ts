/**
 * The usage of all subjects in memory, in chunks by a hash of their ids, and its form in the log and
 * the snapshot. Knows nothing of SQL.
 */
import { type Subject, UNUSED, type Usage, type UsagePart } from '../../access/rate-limit.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../lib/time.ts'

/** Usage is removed this long after the last admission: longer than any window. */
export const KEEP_MS = 2 * DAY_MS
/** Client addresses are removed earlier, unless their plan counts for longer: there are many. */
export const KEEP_ADDRESSES_MS = 2 * HOUR_MS

type Kind = Subject['kind']

/**
 * An admission of a subject at `atMs`, its `requests`-th of that UTC day. From then on, only this one and
 * the `kept - 1` before it count.
 */
export type AdmissionEntry = readonly [
  Kind,
  id: string,
  atMs: number,
  requests: number,
  kept: number,
]

export type RefundEntry = readonly [Kind, id: string, atMs: number]

/** Resets the usage of a subject at `atMs`, or of all of its kind when `id` is empty. */
export type ResetEntry = readonly ['reset', id: string, atMs: number, Kind, UsagePart]

/** A change of usage as a batch of the log holds it, in JSON. */
export type LogEntry = AdmissionEntry | RefundEntry | ResetEntry

/** True if the snapshot of a chunk includes an entry already. */
export type IsIncluded = (chunk: number) => boolean
const never: IsIncluded = () => false

/** Collects functions that undo changes, if a transaction may fail; run them in reverse order. */
export type UndoList = (() => void)[]

/** How long the usage of each kind of subject is kept after its last admission, in milliseconds. */
export type KeepMs = { readonly [kind in Kind]: number }

/**
 * A subject in the text of a chunk. `gaps` are the instant of its first admission and the milliseconds
 * from each admission to the next: half as long as the instants, and parsed in half the time.
 * `latestMs` is left out when it equals the last admission.
 */
type Saved = readonly [Kind, id: string, requests: number, gaps: number[], latestMs?: number]

/** Turns gaps into instants, in the same array. */
export function fromGaps(gaps: number[]): number[] {
  for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? 0)
  return gaps
}

/** A subject and its usage. */
export type Known = Subject & Usage & { readonly chunk: number }

/** The text of a chunk with these subjects. */
export const saveSubjects = (subjects: readonly (Subject & Usage)[]): string =>
  JSON.stringify(
    subjects.map(({ kind, id, admissions, requests, latestMs }): Saved => {
      const gaps = admissions.map((ms, i) => ms - (admissions[i - 1] ?? 0))
      const saved = [kind, id, requests, gaps] as const
      return latestMs === admissions.at(-1) ? saved : [...saved, latestMs]
    }),
  )

/** The chunk of a subject (FNV-1a). Files depend on it: another hash needs a migration. */
export function chunkOf(id: string, chunks: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193)
  return ((hash ^ (hash >>> 16)) >>> 0) % chunks
}

function addAdmission(usage: Usage, [, , atMs, requests, kept]: AdmissionEntry): number[] {
  const { admissions } = usage
  const dropped: number[] = []
  admissions.push(atMs)
  while (admissions.length > kept) {
    const first = admissions.shift() // usually one: faster than splice
    if (first !== undefined) dropped.push(first)
  }
  usage.day = utcDay(atMs)
  usage.requests = requests
  usage.latestMs = atMs
  return dropped
}

/** Removes an admission, if a limit still counts it. */
function removeAdmission(usage: Usage, atMs: number): void {
  const at = usage.admissions.lastIndexOf(atMs)
  if (at >= 0) usage.admissions.splice(at, 1)
  if (utcDay(atMs) === usage.day) usage.requests = Math.max(0, usage.requests - 1)
}

/** Resets usage. Instants in the future no longer count either. */
function resetUsage(usage: Usage, [, , atMs, , part]: ResetEntry): void {
  if (part !== 'window') usage.requests = 0
  if (part === 'day') return
  usage.admissions = []
  usage.latestMs = Math.min(usage.latestMs, atMs)
  const day = utcDay(usage.latestMs)
  if (day !== usage.day) usage.requests = 0
  usage.day = day
}

/** Returns a function that restores usage to its present state. */
function saveState(usage: Usage): () => void {
  const { day, requests, latestMs } = usage
  const admissions = [...usage.admissions]
  return () => void Object.assign(usage, { admissions, day, requests, latestMs })
}

/** The usage of subjects, in `count` chunks; empty at first. */
export function createSubjects(count: number) {
  type ById = { readonly [kind in Kind]: Map<string, Known> }
  const byId: ById = { key: new Map(), demo: new Map(), temp: new Map() }
  let byChunk: Known[][] = Array.from({ length: count }, () => [])
  const inChunk = (chunk: number): readonly Known[] => byChunk[chunk] ?? []

  function add(known: Known): Known {
    byId[known.kind].set(known.id, known)
    byChunk[known.chunk]?.push(known)
    return known
  }

  function admit(entry: AdmissionEntry, isIncluded: IsIncluded, undo?: UndoList): void {
    const [kind, id] = entry
    const known = byId[kind].get(id)
    const chunk = known?.chunk ?? chunkOf(id, count)
    if (isIncluded(chunk)) return
    if (known === undefined) {
      addAdmission(add({ kind, id, chunk, ...UNUSED, admissions: [] }), entry)
      undo?.push(() => {
        byId[kind].delete(id)
        byChunk[chunk]?.pop()
      })
      return
    }
    const { day, requests, latestMs } = known
    const dropped = addAdmission(known, entry)
    undo?.push(() => {
      const admissions = [...dropped, ...known.admissions.slice(0, -1)]
      Object.assign(known, { admissions, day, requests, latestMs })
    })
  }

  function reset(entry: ResetEntry, isIncluded: IsIncluded, undo?: UndoList): void {
    const [, id, , kind] = entry
    const one = byId[kind].get(id)
    const found = id === '' ? byId[kind].values() : one === undefined ? [] : [one]
    for (const known of found) {
      if (isIncluded(known.chunk)) continue
      undo?.push(saveState(known))
      resetUsage(known, entry)
    }
  }

  return {
    inChunk,
    all: (): readonly (readonly Known[])[] => byChunk,
    read: ({ kind, id }: Subject): Usage | null => byId[kind].get(id) ?? null,

    /** Applies an entry of the log to chunks that do not include it. */
    apply(entry: LogEntry, isIncluded: IsIncluded = never, undo?: UndoList): void {
      // JSON has no form for an instant like `NaN`
      if (!Number.isSafeInteger(entry[2])) throw new RangeError(`${entry[2]} is not an instant`)
      if (entry[0] === 'reset') return reset(entry, isIncluded, undo)
      if (entry.length === 5) return admit(entry, isIncluded, undo)
      const [kind, id, atMs] = entry
      const known = byId[kind].get(id)
      if (known === undefined || isIncluded(known.chunk)) return
      undo?.push(saveState(known))
      removeAdmission(known, atMs)
    },

    /** The keys with requests on a UTC day or later, and their number. */
    usedOn(day: number): [id: string, requests: number][] {
      const used: [string, number][] = []
      for (const key of byId.key.values()) {
        if (key.day >= day && key.requests > 0) used.push([key.id, key.requests])
      }
      return used
    },

    /** The text of a chunk. */
    save: (chunk: number): string => saveSubjects(inChunk(chunk)),
    /** Adds the subjects in the text of a chunk. */
    load(chunk: number, text: string): void {
      for (const [kind, id, requests, gaps, latest] of JSON.parse(text) as Saved[]) {
        const admissions = fromGaps(gaps)
        const latestMs = latest ?? admissions.at(-1) ?? 0
        add({ kind, id, chunk, admissions, day: utcDay(latestMs), requests, latestMs })
      }
    },

    /** Removes old subjects from a chunk, and returns them. */
    forget(chunk: number, timeMs: number, keepMs: KeepMs, undo?: UndoList): readonly Known[] {
      const before = byChunk[chunk] ?? []
      const isOld = ({ kind, latestMs }: Known): boolean => latestMs < timeMs - keepMs[kind]
      const old = before.filter(isOld)
      if (old.length === 0) return old
      byChunk[chunk] = before.filter(known => !isOld(known))
      for (const { kind, id } of old) byId[kind].delete(id)
      undo?.push(() => {
        byChunk[chunk] = before
        for (const known of old) byId[known.kind].set(known.id, known)
      })
      return old
    },

    clear(): void {
      for (const known of Object.values(byId)) known.clear()
      byChunk = byChunk.map(() => [])
    },
  }
}
