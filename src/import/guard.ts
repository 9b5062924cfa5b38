/**
 * Owns what protects a list that is replaced as a whole, by `import --replace` or by a feed: from a
 * source without rows, and from one that would shrink it (contract C, G1). Pure.
 */
import type { ListSizes } from '../proxies/store.ts'

/** A list of fewer rows may shrink to any size. */
const GUARDED_ROWS_MIN = 100
/** A guarded list keeps at least this share of its rows. */
const KEPT_SHARE_MIN = 1 / 2

const number = (n: number): string => n.toLocaleString('en-US')

/** Why a source of `read` rows must not replace the list, as a predicate of it; `null`: it may. */
export const emptyProblem = (read: number): string | null =>
  read === 0 ? 'holds no row, and would remove the whole list' : null

/** Why a list must not be replaced by one of this size, as a predicate; `null`: it may. */
export const shrinkProblem = ({ before, after }: ListSizes): string | null =>
  before >= GUARDED_ROWS_MIN && after < before * KEPT_SHARE_MIN
    ? `would shrink the list from ${number(before)} rows to ${number(after)}`
    : null
