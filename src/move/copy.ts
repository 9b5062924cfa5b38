/**
 * Owns moving contents from one store to another: part by part, in pages, and the proof that both
 * hold the same afterwards. Knows no store.
 */
import { nextTurn, StoreError } from '../lib/errors.ts'
import {
  type Contents,
  type Counts,
  PARTS,
  type Part,
  type Reader,
  VALUES,
  type Writer,
} from './contents.ts'

export type Work = {
  /** Ends it early: what was begun is to be undone. */
  signal: AbortSignal
  /** Called with the rows that are done since the last call. */
  onRows: (rows: number) => void
}

/** The rows of a part, and the sum of their hashes, which does not depend on their order. */
type Sum = { rows: number; hashes: bigint }
export type Sums = { readonly [part in Part]: Sum }

const NOTHING: Sum = { rows: 0, hashes: 0n }

function add<P extends Part>(sum: Sum, part: P, page: readonly Contents[P][]): Sum {
  let { hashes } = sum
  for (const row of page) hashes += Bun.hash.xxHash64(JSON.stringify(VALUES[part](row)))
  return { rows: sum.rows + page.length, hashes: BigInt.asUintN(64, hashes) }
}

/** Reads a part to its end; `take` is called with each page. */
async function readPart<P extends Part>(
  part: P,
  from: Reader,
  { signal, onRows }: Work,
  take: Writer[P] | null,
): Promise<Sum> {
  let sum = NOTHING
  for await (const page of from[part]()) {
    await nextTurn(signal)
    await take?.(page)
    sum = add(sum, part, page)
    onRows(page.length)
  }
  return sum
}

/** Reads all parts, into `to` where it is given. */
async function readAll(from: Reader, to: Writer | null, work: Work): Promise<Sums> {
  const sums: { [part in Part]?: Sum } = {}
  for (const part of PARTS) sums[part] = await readPart(part, from, work, to?.[part] ?? null)
  return sums as Sums // each part has been read
}

/** Copies all of a store; returns what was copied. */
export const copyContents = (from: Reader, to: Writer, work: Work): Promise<Sums> =>
  readAll(from, to, work)

/** What a store holds. */
export const sumContents = (from: Reader, work: Work): Promise<Sums> => readAll(from, null, work)

/** The parts in which two stores differ. */
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
