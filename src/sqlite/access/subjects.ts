/** The usage of all subjects in memory, and its form in the log and the snapshot. Independent of SQL. */
import type { Subject, Usage, UsagePart } from '../../access/rate-limit.ts'
import { utcDay } from '../../lib/time.ts'

type Kind = Subject['kind']

/**
 * An admission of a subject at `atMs`, its `requests`-th of that UTC day. From then on, only this one and
 * the `kept - 1` before it count.
 */
type AdmissionEntry = readonly [Kind, id: string, atMs: number, requests: number, kept: number]

type RefundEntry = readonly [Kind, id: string, atMs: number]

/** Resets the usage of a subject at `atMs`, or of all of its kind when `id` is empty. */
type ResetEntry = readonly ['reset', id: string, atMs: number, Kind, UsagePart]

/** A change of usage as a batch of the log holds it, in JSON. */
export type LogEntry = AdmissionEntry | RefundEntry | ResetEntry

/** True if the snapshot of a chunk includes an entry already. */
type IsIncluded = (chunk: number) => boolean
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
function fromGaps(gaps: number[]): number[] {
  for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? 0)
  return gaps
}

function toSaved(kind: Kind, id: string, { admissions, requests, latestMs }: Usage): Saved {
  const gaps = admissions.map((ms, i) => ms - (admissions[i - 1] ?? 0))
  const isLast = latestMs === admissions.at(-1)
  return isLast ? [kind, id, requests, gaps] : [kind, id, requests, gaps, latestMs]
}

/** The text of a chunk with these subjects. */
export const saveSubjects = (subjects: readonly (Subject & Usage)[]): string =>
  JSON.stringify(subjects.map(subject => toSaved(subject.kind, subject.id, subject)))

/** The chunk of a subject (FNV-1a). Files depend on it: another hash needs a migration. */
export function chunkOf(id: string, chunks: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193)
  return ((hash ^ (hash >>> 16)) >>> 0) % chunks
}

/** Adds an admission; returns those that no limit counts any more. */
function addAdmission(usage: Usage, [, , atMs, requests, kept]: AdmissionEntry): number[] {
  const { admissions } = usage
  const dropped: number[] = []
  admissions.push(atMs)
  while (admissions.length > kept) {
    const first = admissions.shift() // usually one: faster than splice
    if (first !== undefined) dropped.push(first)
  }
  usage.requests = requests
  usage.latestMs = atMs
  return dropped
}

/** Removes an admission, if a limit still counts it. */
function removeAdmission(usage: Usage, atMs: number): void {
  const at = usage.admissions.lastIndexOf(atMs)
  if (at >= 0) usage.admissions.splice(at, 1)
  if (utcDay(atMs) === utcDay(usage.latestMs)) usage.requests = Math.max(0, usage.requests - 1)
}

/** Resets usage. Instants in the future no longer count either. */
function resetUsage(usage: Usage, [, , atMs, , part]: ResetEntry): void {
  if (part !== 'window') usage.requests = 0
  if (part === 'day') return
  const latestMs = Math.min(usage.latestMs, atMs)
  if (utcDay(latestMs) !== utcDay(usage.latestMs)) usage.requests = 0
  usage.admissions = []
  usage.latestMs = latestMs
}

/** Returns a function that restores usage to its present state. */
function saveState(usage: Usage): () => void {
  const before = { ...usage, admissions: [...usage.admissions] }
  return () => void Object.assign(usage, before)
}

type ById = Map<string, Usage>
/** The subjects of a chunk. */
type Chunk = { readonly [kind in Kind]: ById }
const KINDS = ['key', 'demo', 'temp'] as const
const emptyChunk = (): Chunk => ({ key: new Map(), demo: new Map(), temp: new Map() })

/** The usage of subjects, in `count` chunks; empty at first. */
export function createSubjects(count: number) {
  let chunks: readonly Chunk[] = []
  const at = (chunk: number) => chunks[chunk] as Chunk // `chunkOf` is below `count`
  function clear(): void {
    chunks = Array.from({ length: count }, emptyChunk)
  }
  clear()

  function admit(byId: ById, entry: AdmissionEntry, undo?: UndoList): void {
    const [, id] = entry
    const usage = byId.get(id)
    if (usage === undefined) {
      const added: Usage = { admissions: [], requests: 0, latestMs: 0 }
      addAdmission(added, entry)
      byId.set(id, added)
      undo?.push(() => void byId.delete(id))
      return
    }
    // Copying the usage, as `saveState` does, would make each admission a tenth slower.
    const { requests, latestMs } = usage
    const dropped = addAdmission(usage, entry)
    undo?.push(() => {
      const admissions = [...dropped, ...usage.admissions.slice(0, -1)]
      Object.assign(usage, { admissions, requests, latestMs })
    })
  }

  function change(byId: ById, id: string, work: (usage: Usage) => void, undo?: UndoList): void {
    const usage = byId.get(id)
    if (usage === undefined) return
    undo?.push(saveState(usage))
    work(usage)
  }

  function reset(entry: ResetEntry, isIncluded: IsIncluded, undo?: UndoList): void {
    const [, id, , kind] = entry
    for (const chunk of id === '' ? chunks.keys() : [chunkOf(id, count)]) {
      if (isIncluded(chunk)) continue
      const byId = at(chunk)[kind]
      for (const each of id === '' ? byId.keys() : [id]) {
        change(byId, each, usage => resetUsage(usage, entry), undo)
      }
    }
  }

  return {
    clear,
    /** All subjects and their usage. */
    all: (): (Subject & Usage)[] =>
      chunks.flatMap(chunk =>
        KINDS.flatMap(kind => [...chunk[kind]].map(([id, usage]) => ({ kind, id, ...usage }))),
      ),
    read: ({ kind, id }: Subject): Usage | null => at(chunkOf(id, count))[kind].get(id) ?? null,

    /** Applies an entry of the log, except to chunks whose snapshot includes it already. */
    apply(entry: LogEntry, isIncluded: IsIncluded = never, undo?: UndoList): void {
      // JSON has no form for an instant like `NaN`
      if (!Number.isSafeInteger(entry[2])) throw new RangeError(`${entry[2]} is not an instant`)
      if (entry[0] === 'reset') return reset(entry, isIncluded, undo)
      const [kind, id, atMs] = entry
      const chunk = chunkOf(id, count)
      if (isIncluded(chunk)) return
      const byId = at(chunk)[kind]
      if (entry.length === 5) admit(byId, entry, undo)
      else change(byId, id, usage => removeAdmission(usage, atMs), undo)
    },

    /** How many keys have sent requests on a UTC day or later. */
    countKeysUsed: (day: number): number =>
      chunks
        .values()
        .flatMap(({ key }) => key.values())
        .filter(({ requests, latestMs }) => requests > 0 && utcDay(latestMs) >= day)
        .reduce(n => n + 1, 0),

    /** The text of a chunk. */
    save(chunk: number): string {
      const saved: Saved[] = []
      for (const kind of KINDS) {
        for (const [id, usage] of at(chunk)[kind]) saved.push(toSaved(kind, id, usage))
      }
      return JSON.stringify(saved)
    },
    /** Adds the subjects in the text of a chunk. */
    load(chunk: number, text: string): void {
      const byKind = at(chunk)
      for (const [kind, id, requests, gaps, latest] of JSON.parse(text) as Saved[]) {
        const admissions = fromGaps(gaps)
        byKind[kind].set(id, { admissions, requests, latestMs: latest ?? admissions.at(-1) ?? 0 })
      }
    },

    /** Removes old subjects from a chunk, and returns them. */
    forget(chunk: number, timeMs: number, keepMs: KeepMs, undo?: UndoList): (Subject & Usage)[] {
      const removed: (Subject & Usage)[] = []
      for (const kind of KINDS) {
        const byId = at(chunk)[kind]
        for (const [id, usage] of byId) {
          if (usage.latestMs >= timeMs - keepMs[kind]) continue
          byId.delete(id)
          undo?.push(() => void byId.set(id, usage))
          removed.push({ kind, id, ...usage })
        }
      }
      return removed
    },
  }
}
