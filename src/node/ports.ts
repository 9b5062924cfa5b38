/** What a node moves between the database and its copy of the list, and their positions. */
import type { CityName, Row } from '../proxies/row.ts'

/** A version of a list. `mark` tells it from one of the same number that a failover lost. */
export type Position = { version: number; mark: string }

export const isSamePosition = (a: Position, b: Position): boolean =>
  a.version === b.version && a.mark === b.mark

/** A version of a list with the number of changed rows and a random mark of the last import that no feed made. */
export type Version = Position & { changed: number; imported: string }

/** The list before its first change. */
export const BEGINNING: Version = { version: 0, mark: '', changed: 0, imported: '' }

/** Rows of a list, or a part of them. The city of a row is its position in `cities`. */
type Rows = { cities: readonly CityName[]; rows: readonly Row[] }

/** What changed in a list: written rows, and the ids of removed rows. A snapshot writes every row. */
export type Change = Rows & { removed: readonly number[] }

/** Rows of an import as they came. */
export type Incoming = Rows & {
  stated: readonly number[]
  lowered: readonly (readonly [id: number, works: number])[]
}

export type Stale = { retainMs: number; nowMs: number }

/** Rows of a `Change` or of an `Incoming`: a million rows pass through memory part by part. */
export const PART_ROWS = 16_384

export function createCityList() {
  const cities: CityName[] = []
  const positions = new Map<string, number>()
  return {
    cities,
    positionOf({ name, nameEn }: CityName): number {
      const pair = `${name}\0${nameEn}`
      const known = positions.get(pair)
      if (known !== undefined) return known
      const position = cities.push({ name, nameEn }) - 1
      positions.set(pair, position)
      return position
    },
  }
}
