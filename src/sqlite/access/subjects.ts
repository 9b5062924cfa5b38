/**
 * The usage of all subjects in memory, divided into chunks by a hash of their ids, and the forms in
 * which a file holds it: an entry for each admission, a text for each chunk. Knows nothing of SQL.
 */
import { type Subject, UNUSED, type Usage, type UsagePart } from '../../access/rate-limit.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../lib/time.ts'

/** Usage is removed this long after the last admission: longer than any window. */
export const KEEP_MS = 2 * DAY_MS
/** Client addresses are forgotten earlier, unless their plan counts longer: they are many. */
export const KEEP_ADDRESSES_MS = 2 * HOUR_MS

type Kind = Subject['kind']

/**
 * An admission of a subject at `atMs`, its `requests`-th of that UTC day. Only it and the
 * `kept - 1` before it count from now on.
 */
export type Entry = readonly [Kind, id: string, atMs: number, requests: number, kept: number]

export type GivenBack = readonly [Kind, id: string, atMs: number]

/** A fresh start of a subject at `atMs`, or of all of its kind when `id` is empty. */
export type ResetEntry = readonly ['reset', id: string, atMs: number, Kind, UsagePart]

/** Whether an entry counts for a chunk already, because the snapshot includes it. */
export type IsIncluded = (chunk: number) => boolean
export const never: IsIncluded = () => false

/** How long the usage of each kind of subject is kept after its last admission, in milliseconds. */
export type KeepMs = { readonly [kind in Subject['kind']]: number }

/**
 * A subject in the text of a chunk. `gaps` are the instant of its first admission and the
 * milliseconds from each to the next: half as long as the instants, and read in half the time.
 * `latestMs` is left out when it is that of the last admission.
 */
type Saved = readonly [Kind, id: string, requests: number, gaps: number[], latestMs?: number]

/** The instants again, in the same array. */
export function fromGaps(gaps: number[]): number[] {
  for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? 0)
  return gaps
}

/**
 * A subject and its usage. What each admission of a key changes is in this one object: with thousands of
 * keys, each further one would cost a tenth of a microsecond or more.
 */
export type Known = Subject &
  Usage & {
    readonly chunk: number
    /** Admissions in the hour from `hourMs` on that the history (`history.ts`) does not have yet. */
    hourRequests: number
    hourMs: number
  }

/** The text of a chunk that holds these subjects. */
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

/** Gives a subject a fresh start. An instant that lies ahead counts no more, either. */
export function resetUsage(usage: Usage, [, , atMs, , part]: ResetEntry): void {
  if (part !== 'window') usage.requests = 0
  if (part === 'day') return
  usage.admissions.length = 0
  usage.latestMs = Math.min(usage.latestMs, atMs)
  const day = utcDay(usage.latestMs)
  if (day !== usage.day) usage.requests = 0
  usage.day = day
}

function addAdmission(usage: Usage, atMs: number, requests: number, kept: number): void {
  const { admissions } = usage
  admissions.push(atMs)
  while (admissions.length > kept) admissions.shift() // nearly always one: faster than splice
  usage.day = utcDay(atMs)
  usage.requests = requests
  usage.latestMs = atMs
}

/** Removes an admission; does nothing if no limit counts it any more. */
function removeAdmission(usage: Usage, atMs: number): void {
  const at = usage.admissions.lastIndexOf(atMs)
  if (at >= 0) usage.admissions.splice(at, 1)
  if (utcDay(atMs) === usage.day) usage.requests = Math.max(0, usage.requests - 1)
}

export type Subjects = ReturnType<typeof createSubjects>

/** The usage of subjects in so many chunks; none at first. */
export function createSubjects(chunks: number) {
  type ById = { readonly [kind in Kind]: Map<string, Known> }
  const byId: ById = { key: new Map(), demo: new Map(), temp: new Map() }
  let byChunk: Known[][] = Array.from({ length: chunks }, () => [])
  const inChunk = (chunk: number): readonly Known[] => byChunk[chunk] ?? []

  function add(kind: Subject['kind'], id: string, chunk: number, usage: Usage): Known {
    const known = { kind, id, chunk, ...usage, hourRequests: 0, hourMs: 0 }
    byId[kind].set(id, known)
    byChunk[chunk]?.push(known)
    return known
  }

  return {
    inChunk,
    all: (): readonly (readonly Known[])[] => byChunk,

    read: ({ kind, id }: Subject): Usage | null => byId[kind].get(id) ?? null,

    key: (id: string): Known | null => byId.key.get(id) ?? null,

    /**
     * Adds an admission and returns its subject; `null`, and nothing is added, when its chunk
     * `isIncluded` in a snapshot that has it already.
     */
    apply([kind, id, atMs, requests, kept]: Entry, isIncluded = never): Known | null {
      let known = byId[kind].get(id)
      const chunk = known?.chunk ?? chunkOf(id, chunks)
      if (isIncluded(chunk)) return null
      known ??= add(kind, id, chunk, { ...UNUSED, admissions: [] })
      addAdmission(known, atMs, requests, kept)
      return known
    },

    giveBack([kind, id, atMs]: GivenBack, isIncluded = never): void {
      const known = byId[kind].get(id)
      if (known && !isIncluded(known.chunk)) removeAdmission(known, atMs)
    },

    ofReset: ([, id, , kind]: ResetEntry): Known[] =>
      (id === '' ? [...byId[kind].values()] : [byId[kind].get(id)]).filter(known => known != null),

    /** The keys that have sent requests on a UTC day or later, and how many those are. */
    usedOn(day: number): [id: string, requests: number][] {
      const used: [string, number][] = []
      for (const key of byId.key.values()) {
        if (key.day >= day && key.requests > 0) used.push([key.id, key.requests])
      }
      return used
    },

    /** The earliest of the last admissions of subjects, or `nowMs` if that is earlier. */
    oldest: (nowMs: number): number =>
      byChunk.flat().reduce((ms, { latestMs }) => Math.min(ms, latestMs), nowMs),

    /** Subjects whose last admission lies after `timeMs`. */
    after: (timeMs: number): Subject[] =>
      Object.values(byId).flatMap(known =>
        [...known.values()]
          .filter(({ latestMs }) => latestMs > timeMs)
          .map(({ kind, id }) => ({ kind, id })),
      ),

    /** The text of a chunk, and adding what such a text holds. */
    save: (chunk: number): string => saveSubjects(inChunk(chunk)),
    load(chunk: number, text: string): void {
      for (const [kind, id, requests, gaps, latest] of JSON.parse(text) as Saved[]) {
        const admissions = fromGaps(gaps)
        const latestMs = latest ?? admissions.at(-1) ?? 0
        add(kind, id, chunk, { admissions, day: utcDay(latestMs), requests, latestMs })
      }
    },

    /** Forgets old subjects of a chunk; returns those. */
    forget(chunk: number, timeMs: number, keepMs: KeepMs): readonly Known[] {
      const [kept, old]: [Known[], Known[]] = [[], []]
      for (const known of inChunk(chunk)) {
        const isOld = known.latestMs < timeMs - keepMs[known.kind]
        ;(isOld ? old : kept).push(known)
      }
      for (const { kind, id } of old) byId[kind].delete(id)
      if (old.length > 0) byChunk[chunk] = kept
      return old
    },

    clear(): void {
      for (const known of Object.values(byId)) known.clear()
      byChunk = byChunk.map(() => [])
    },
  }
}
