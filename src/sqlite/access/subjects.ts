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

/** A server of schema 1 logs these, too, for charts, and may still run beside this one. */
const OF_SCHEMA_1: ReadonlySet<string> = new Set(['use', 'moved'])

/** A change of usage as a batch of the log holds it, in JSON. */
export type LogEntry = AdmissionEntry | RefundEntry | ResetEntry

export const isAdmission = (entry: LogEntry): entry is AdmissionEntry =>
  entry.length === 5 && entry[0] !== 'reset'

/** True if the snapshot of a chunk includes an entry already. */
type IsIncluded = (chunk: number) => boolean

/** How long the usage of each kind of subject is kept after its last admission, in milliseconds. */
export type KeepMs = { readonly [kind in Kind]: number }

/**
 * A subject in the text of a chunk. `gaps` are the instant of its first admission and the milliseconds
 * from each admission to the next: half as long as the instants, and parsed in half the time.
 * `latestMs` is left out when it equals the last admission.
 */
type Saved = readonly [Kind, id: string, requests: number, gaps: number[], latestMs?: number]

function fromGaps(gaps: number[]): number[] {
  for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? 0)
  return gaps
}

function toSaved(kind: Kind, id: string, { admissions, requests, latestMs }: Usage): Saved {
  const gaps = admissions.map((ms, i) => ms - (admissions[i - 1] ?? 0))
  const isLast = latestMs === admissions.at(-1)
  return isLast ? [kind, id, requests, gaps] : [kind, id, requests, gaps, latestMs]
}

export const saveSubjects = (subjects: readonly (Subject & Usage)[]): string =>
  JSON.stringify(subjects.map(subject => toSaved(subject.kind, subject.id, subject)))

/** The chunk of a subject (FNV-1a). Files depend on it: another hash needs a migration. */
export function chunkOf(id: string, chunks: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193)
  return ((hash ^ (hash >>> 16)) >>> 0) % chunks
}

function addAdmission(usage: Usage, [, , atMs, requests, kept]: AdmissionEntry): void {
  const { admissions } = usage
  admissions.push(atMs)
  while (admissions.length > kept) admissions.shift() // usually one: faster than splice
  usage.requests = requests
  usage.latestMs = atMs
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

type Known = Usage & { readonly id: string }
const KINDS = ['key', 'demo', 'temp'] as const

/** The usage of subjects, in `count` chunks; empty at first. */
export function createSubjects(count: number) {
  const emptyChunks = (): Known[][] => Array.from({ length: count }, () => [])
  const createKind = () => ({ byId: new Map<string, Known>(), chunks: emptyChunks() })
  const kinds = { key: createKind(), demo: createKind(), temp: createKind() }
  const inChunk = (kind: Kind, chunk: number): readonly Known[] => kinds[kind].chunks[chunk] ?? []

  function add(kind: Kind, chunk: number, known: Known): void {
    kinds[kind].byId.set(known.id, known)
    kinds[kind].chunks[chunk]?.push(known)
  }

  function admit(entry: AdmissionEntry): void {
    const [kind, id] = entry
    let known = kinds[kind].byId.get(id)
    if (known === undefined) {
      known = { id, admissions: [], requests: 0, latestMs: 0 }
      add(kind, chunkOf(id, count), known)
    }
    addAdmission(known, entry)
  }

  function reset(entry: ResetEntry, isIncluded?: IsIncluded): void {
    const [, id, , kind] = entry
    const { byId } = kinds[kind]
    for (const each of id === '' ? byId.keys() : [id]) {
      const known = byId.get(each)
      if (known !== undefined && !isIncluded?.(chunkOf(each, count))) resetUsage(known, entry)
    }
  }

  return {
    clear(): void {
      for (const kind of KINDS) Object.assign(kinds[kind], createKind())
    },
    all: (): (Subject & Usage)[] =>
      KINDS.flatMap(kind => kinds[kind].chunks.flat().map(known => ({ kind, ...known }))),
    read: ({ kind, id }: Subject): Usage | null => kinds[kind].byId.get(id) ?? null,

    /** Applies an entry of the log, except to chunks whose snapshot includes it already. */
    apply(entry: LogEntry, isIncluded?: IsIncluded): void {
      const [name, id, atMs] = entry
      if (OF_SCHEMA_1.has(name)) return
      // JSON has no form for an instant like `NaN`
      if (!Number.isSafeInteger(atMs)) throw new RangeError(`${atMs} is not an instant`)
      if (name === 'reset') reset(entry, isIncluded)
      else if (isIncluded?.(chunkOf(id, count))) return
      else if (isAdmission(entry)) admit(entry)
      else {
        const known = kinds[name].byId.get(id)
        if (known !== undefined) removeAdmission(known, atMs)
      }
    },

    /** How many keys have sent requests on a UTC day or later. */
    countKeysUsed: (day: number): number =>
      kinds.key.byId
        .values()
        .filter(({ requests, latestMs }) => requests > 0 && utcDay(latestMs) >= day)
        .reduce(n => n + 1, 0),

    save: (chunk: number): string =>
      JSON.stringify(
        KINDS.flatMap(kind => inChunk(kind, chunk).map(known => toSaved(kind, known.id, known))),
      ),
    load(chunk: number, text: string): void {
      for (const [kind, id, requests, gaps, latest] of JSON.parse(text) as Saved[]) {
        const admissions = fromGaps(gaps)
        const latestMs = latest ?? admissions.at(-1) ?? 0
        add(kind, chunk, { id, admissions, requests, latestMs })
      }
    },

    forget: (chunk: number, timeMs: number, keepMs: KeepMs): (Subject & Usage)[] =>
      KINDS.flatMap(kind => {
        const { byId, chunks } = kinds[kind]
        const before = inChunk(kind, chunk)
        const isOld = ({ latestMs }: Known): boolean => latestMs < timeMs - keepMs[kind]
        const old = before.filter(isOld)
        if (old.length === 0) return []
        chunks[chunk] = before.filter(known => !isOld(known))
        for (const { id } of old) byId.delete(id)
        return old.map(known => ({ kind, ...known }))
      }),
  }
}
