/** What a node moves between the database and its copy of the list, and their positions. */
import type { City, CityName, Row } from '../proxies/row.ts'

/** A version of a list. `mark` tells it from one of the same number that a failover lost. */
export type Position = { version: number; mark: string }

/** The list before its first change. */
export const BEGINNING: Position = { version: 0, mark: '' }

export const isSamePosition = (a: Position, b: Position): boolean =>
  a.version === b.version && a.mark === b.mark

/** What changed in a list, or a part of it. A snapshot holds every row and city. */
export type Change = {
  cities?: readonly City[]
  /** The last id of a city that was ever used: none is used again. */
  lastCity?: number
  /** A random mark of the last import that no feed made. */
  imported?: string
  rows?: readonly Row[]
  /** The ids of removed rows. */
  removed?: readonly number[]
}

/** Rows of an import as they came, or a part of them. The city of a row is its position in `cities`. */
export type Incoming = {
  cities: readonly CityName[]
  rows: readonly Row[]
  /** The services that each row states, as bits. */
  stated: readonly number[]
  /** Success rates of stored rows. */
  lowered: readonly (readonly [id: number, works: number])[]
}

/** Which rows are stale, see `ProxyWriter`. */
export type Stale = { retainMs: number; nowMs: number }

/** Rows of a `Change` or of an `Incoming`: a million rows pass through memory part by part. */
export const PART_ROWS = 16_384
