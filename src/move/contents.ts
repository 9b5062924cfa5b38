/**
 * What is moved from one store to another: all that an installation holds besides its settings, in
 * parts, as values that are the same in every store. Instants are Unix milliseconds. Knows no store.
 *
 * A move writes what it has read, and reads it again from the other store: the sums of hashes of both
 * must agree. So a value that one store cannot hold stops the move, and no part can be forgotten by
 * one side only.
 */

import type { DayUse } from '../access/history.ts'
import type { StoredKey } from '../access/key.ts'
import type { NetworkSet } from '../access/network-quota.ts'
import { BUILT_IN_PLANS, type Plan } from '../access/plan.ts'
import type { Subject, Usage } from '../access/rate-limit.ts'
import type { StoredFeed } from '../feeds/store.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { counted } from '../lib/counted.ts'
import { nextTurn, StoreError } from '../lib/errors.ts'
import type { City, Row } from '../proxies/row.ts'

/** A row of each part. */
export type Contents = {
  plans: Plan
  keys: StoredKey
  /** When a key was last seen; keys that never were are left out. */
  seen: { keyId: string; lastSeenMs: number }
  usage: Subject & Usage
  /** All networks that a subject has on a UTC day. */
  networks: { subject: Subject; set: NetworkSet; day: number; networks: readonly string[] }
  /** The use of a key on a UTC day, today included. */
  days: DayUse & { keyId: string }
  cities: City
  proxies: Row
  /** The states of feeds, without leases. */
  feeds: StoredFeed
  /** Lines of the feeds of the console. */
  feedLines: string
}
export type Part = keyof Contents

export type Counts = { readonly [part in Part]: number }

type Pages<Row> = AsyncIterable<readonly Row[]> | Iterable<readonly Row[]>

/** Reads a store, as of one moment, in pages of bounded size. */
export type Reader = { readonly [P in Part]: () => Pages<Contents[P]> }
/** Writes into a store that holds none of these rows. */
export type Writer = { readonly [P in Part]: (page: readonly Contents[P][]) => Awaitable<void> }

/**
 * The values of a row in one order, so that rows of two stores can be compared. Parts are in the order in
 * which they are moved: a key needs its plan.
 */
export const VALUES: { readonly [P in Part]: (row: Contents[P]) => unknown } = {
  plans: ({ name, burst, daily, subnets, clients, count, downloads, enabled }) => [
    ...[name, burst?.requests, burst?.seconds, daily, subnets, clients, count, downloads, enabled],
  ],
  keys: ({ id, hash, prefix, label, note, plan, createdAt, expiresAt, revokedAt, oldSecrets }) => [
    ...[id, hash.toHex(), prefix, label, note, plan, createdAt, expiresAt, revokedAt],
    oldSecrets.map(old => `${old.hash.toHex()} ${old.expiresAt}`).sort(),
  ],
  seen: ({ keyId, lastSeenMs }) => [keyId, lastSeenMs],
  usage: ({ kind, id, admissions, latestMs, day, requests }) => [
    ...[kind, id, admissions, latestMs, day, requests],
  ],
  networks: ({ subject: { kind, id }, set, day, networks }) => [
    ...[kind, id, set, day, [...networks].sort()],
  ],
  days: ({ keyId, day, requests, records, refused, hours }) => [
    ...[keyId, day, requests, records, refused, hours],
  ],
  cities: ({ id, name, nameEn }) => [id, name, nameEn],
  proxies: row => row,
  feeds: ({ id, source, lastSuccessAt, rows, rejected, error, failures, ...more }) => [
    ...[id, source, lastSuccessAt, rows, rejected, error, failures],
    ...[more.nextTryAt, more.attempts, more.options, more.missing, more.history],
    ...[more.validators.etag, more.validators.lastModified, more.validators.digest],
  ],
  feedLines: line => line,
}

export const PARTS = Object.keys(VALUES) as readonly Part[] // each has its values

const valuesOf = (plan: Plan): string => JSON.stringify(VALUES.plans(plan))
const BUILT_IN = new Set(BUILT_IN_PLANS.map(valuesOf))

/** Whether a plan is one that every installation starts with, unchanged. */
export const isBuiltIn = (plan: Plan): boolean => BUILT_IN.has(valuesOf(plan))

/** The lines of the feeds of the console, and their text. */
export const linesOf = (text: string): string[] => text.split('\n').filter(line => line !== '')
export const textOf = (lines: readonly string[]): string => lines.map(line => `${line}\n`).join('')

/** How operators name the rows of a part; parts that say nothing to them are left out. */
const NOUNS: readonly (readonly [part: Part, one: string, many: string])[] = [
  ['keys', 'key', 'keys'],
  ['plans', 'plan', 'plans'],
  ['usage', 'subject', 'subjects'],
  ['networks', 'set of networks', 'sets of networks'],
  ['days', 'day of use', 'days of use'],
  ['proxies', 'proxy', 'proxies'],
  ['feeds', 'feed', 'feeds'],
  ['feedLines', 'feed of the console', 'feeds of the console'],
]

/** Whether there is no data; names of cities remain of an earlier list. */
export const isNothing = (counts: Counts): boolean => NOUNS.every(([part]) => counts[part] === 0)

/** The rows of some parts, for the operator: `12 keys, 1 plan, 3,201 subjects`. */
export const describeCounts = (
  counts: Counts,
  some: (part: Part) => boolean = part => counts[part] > 0,
): string =>
  NOUNS.filter(([part]) => some(part))
    .map(([part, one, many]) => `${counted(counts[part])} ${counts[part] === 1 ? one : many}`)
    .join(', ')

// -----------------------------------------------------------------------------------------------
// Copying and comparing

export type Work = {
  /** Ends it early: what was begun is to be undone. */
  signal: AbortSignal
  /** Called with the rows that are done since the last call. */
  onRows: (rows: number) => void
}

/** The rows of a part, and the sum of their hashes, which does not depend on their order. */
type Sum = { rows: number; hashes: bigint }
export type Sums = { readonly [part in Part]: Sum }

/** Reads a part to its end; `take` is called with each page. */
async function readPart<P extends Part>(
  part: P,
  from: Reader,
  { signal, onRows }: Work,
  take: Writer[P] | null,
): Promise<Sum> {
  const sum: Sum = { rows: 0, hashes: 0n }
  for await (const page of from[part]()) {
    await nextTurn(signal)
    await take?.(page)
    for (const row of page) sum.hashes += Bun.hash.xxHash64(JSON.stringify(VALUES[part](row)))
    sum.rows += page.length
    onRows(page.length)
  }
  return sum
}

/** Reads all of a store, into another where one is given; returns what it holds. */
export async function readAll(from: Reader, to: Writer | null, work: Work): Promise<Sums> {
  const sums: { [part in Part]?: Sum } = {}
  for (const part of PARTS) sums[part] = await readPart(part, from, work, to?.[part] ?? null)
  return sums as Sums // each part has been read
}

export const differences = (one: Sums, two: Sums): Part[] =>
  PARTS.filter(part => one[part].rows !== two[part].rows || one[part].hashes !== two[part].hashes)

/** @throws StoreError when a store does not hold what was copied into it. */
export function requireSame(copied: Sums, found: Sums): void {
  const differing = differences(copied, found)
  if (differing.length === 0) return
  throw new StoreError(`what was written is not what was read (${differing.join(', ')})`)
}

export const countsOf = (sums: Sums): Counts =>
  Object.fromEntries(PARTS.map(part => [part, sums[part].rows])) as Counts // as PARTS has all
