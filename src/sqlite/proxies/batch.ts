/**
 * Collecting the rows of an import, and returning them in the order of the table. In that
 * order SQLite writes each page of the table once; in any other one it reads and writes the same
 * pages many times as soon as the table is larger than its cache.
 */
import { AT, ROW_COLUMNS, type Row } from '../../proxies/row.ts'

/**
 * Bits of the position of a row in its batch: 2^17 rows take 14 MB. With 2^18, imports take 60 MB
 * more in all; with 2^16, they go through the table twice as often.
 */
const POSITION_BITS = 17
const POSITIONS = 2 ** POSITION_BITS
/** An id has 48 bits, and a key below has room for 53 less those of the position. */
const ID_STEP = 2 ** (48 + POSITION_BITS - 53)

/** The columns of a row, then the services that it states, as bits. */
export type BatchRow = [...row: Row, stated: number]

const WIDTH = ROW_COLUMNS.length + 1
const IP_OUT = ROW_COLUMNS.indexOf('ip_out')

/** Rows that wait to be written. */
export function createBatch() {
  // Numbers in typed arrays cost the garbage collector nothing; memory is used as they fill.
  const numbers = new Float64Array(POSITIONS * WIDTH)
  const keys = new Float64Array(POSITIONS)
  /** The texts in `ip_out`; `numbers` holds -1 less their position here. */
  const texts: string[] = []
  let size = 0
  const current: (number | string)[] = []

  /** The row at a position, in an array that the next call fills again. */
  function rowAt(position: number): BatchRow {
    const at = position * WIDTH
    for (let i = 0; i < WIDTH; i++) current[i] = numbers[at + i] ?? 0
    const out = numbers[at + IP_OUT] ?? 0
    if (out < 0) current[IP_OUT] = texts[-1 - out] ?? ''
    return current as BatchRow // as `add` took it
  }

  return {
    isFull: (): boolean => size === POSITIONS,

    add(row: Row, stated: number): void {
      const at = size * WIDTH
      for (let i = 0; i < WIDTH - 1; i++) {
        const value = row[i] ?? 0
        numbers[at + i] = typeof value === 'number' ? value : -texts.push(value)
      }
      numbers[at + WIDTH - 1] = stated
      keys[size] = Math.floor(row[AT.id] / ID_STEP) * POSITIONS + size
      size += 1
    },

    /**
     * Passes every row to `take`, nearly in the order of ids, and empties the batch. Rows with the
     * same id keep their order: a key is the upper bits of an id, and below them a position.
     * `take` must not keep the array.
     */
    drain(take: (row: BatchRow) => void): void {
      for (const key of keys.subarray(0, size).sort()) take(rowAt(key % POSITIONS))
      texts.length = 0
      size = 0
    },
  }
}
