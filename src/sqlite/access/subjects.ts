/**
 * Owns the usage of all subjects in memory, divided into chunks by a hash of their ids, and the
 * forms in which a file holds it: an entry for each admission, a text for each chunk. Knows nothing
 * of SQL.
 */
import type { Subject, Usage } from '../../access/rate-limit.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../lib/time.ts'

/** Usage is removed this long after the last admission: longer than any window. */
export const KEEP_MS = 2 * DAY_MS
/** Client addresses are forgotten earlier: they are many, and their windows are an hour at most. */
export const KEEP_ADDRESSES_MS = 2 * HOUR_MS

/**
 * An admission of a subject at `atMs`, its `requests`-th of that UTC day. Only it and the
 * `kept - 1` before it count from now on.
 */
export type Entry = readonly [
  kind: Subject['kind'],
  id: string,
  atMs: number,
  requests: number,
  kept: number,
]

/**
 * A subject in the text of a chunk. `gaps` are the instant of its first admission and the
 * milliseconds from each to the next: half as long as the instants, and read in half the time.
 */
type Saved = readonly [kind: Subject['kind'], id: string, requests: number, gaps: number[]]

const toGaps = (instants: readonly number[]): number[] =>
  instants.map((ms, i) => ms - (instants[i - 1] ?? 0))

/** The instants again, in the same array. */
function fromGaps(gaps: number[]): number[] {
  for (let i = 1; i < gaps.length; i += 1) gaps[i] = (gaps[i] ?? 0) + (gaps[i - 1] ?? 0)
  return gaps
}

type Known = Subject & { readonly chunk: number; readonly usage: Usage }

/** The chunk of a subject (FNV-1a). Files depend on it: another hash needs a migration. */
function chunkOf(id: string, chunks: number): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193)
  return ((hash ^ (hash >>> 16)) >>> 0) % chunks
}

/** Whether no limit counts the usage of a subject any more at `timeMs`. */
const isOld = ({ kind, usage }: Known, timeMs: number): boolean =>
  (usage.admissions.at(-1) ?? 0) < timeMs - (kind === 'key' ? KEEP_MS : KEEP_ADDRESSES_MS)

export type Subjects = ReturnType<typeof createSubjects>

/** The usage of subjects in so many chunks; none at first. */
export function createSubjects(chunks: number) {
  const byId: { readonly [kind in Subject['kind']]: Map<string, Known> } = {
    key: new Map(),
    demo: new Map(),
    temp: new Map(),
  }
  let byChunk: Known[][] = Array.from({ length: chunks }, () => [])

  function add(kind: Subject['kind'], id: string, chunk: number, usage: Usage): Known {
    const known = { kind, id, chunk, usage }
    byId[kind].set(id, known)
    byChunk[chunk]?.push(known)
    return known
  }

  return {
    read: ({ kind, id }: Subject): Usage | null => byId[kind].get(id)?.usage ?? null,

    /** Adds an admission, unless its chunk `isIncluded` in a snapshot that has it already. */
    apply(
      [kind, id, atMs, requests, kept]: Entry,
      isIncluded: (chunk: number) => boolean = () => false,
    ): void {
      let known = byId[kind].get(id)
      const chunk = known?.chunk ?? chunkOf(id, chunks)
      if (isIncluded(chunk)) return
      known ??= add(kind, id, chunk, { admissions: [], day: 0, requests: 0 })
      const { usage } = known
      const { admissions } = usage
      admissions.push(atMs)
      while (admissions.length > kept) admissions.shift() // nearly always one: faster than splice
      usage.day = utcDay(atMs)
      usage.requests = requests
    },

    /** The text of a chunk, and adding what such a text holds. */
    save: (chunk: number): string =>
      JSON.stringify(
        byChunk[chunk]?.map(
          ({ kind, id, usage }): Saved => [
            ...([kind, id, usage.requests, toGaps(usage.admissions)] as const),
          ],
        ),
      ),
    load(chunk: number, text: string): void {
      for (const [kind, id, requests, gaps] of JSON.parse(text) as Saved[]) {
        const admissions = fromGaps(gaps)
        const day = utcDay(admissions.at(-1) ?? 0)
        add(kind, id, chunk, { admissions, day, requests })
      }
    },

    count: (chunk: number): number => byChunk[chunk]?.length ?? 0,

    /** Forgets old subjects of a chunk; returns whether there were any. */
    forget(chunk: number, timeMs: number): boolean {
      const all = byChunk[chunk] ?? []
      const old = all.filter(known => isOld(known, timeMs))
      if (old.length === 0) return false
      for (const { kind, id } of old) byId[kind].delete(id)
      byChunk[chunk] = all.filter(known => !isOld(known, timeMs))
      return true
    },

    clear(): void {
      for (const known of Object.values(byId)) known.clear()
      byChunk = byChunk.map(() => [])
    },
  }
}
