/** Rows of an import as they wait: they come out complete, in the order of the table. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Row } from '../../../src/proxies/row.ts'
import { type BatchRow, createBatch } from '../../../src/sqlite/proxies/import.ts'

const MAX = 2 ** 48 - 1
const upTo = (max: number) => fc.integer({ min: 0, max })

/** Rows of few ids, so that some are the same, and of the smallest and largest values. */
const someRow = (): fc.Arbitrary<Row> =>
  fc.tuple(
    fc.oneof(fc.constantFrom(65_537, 65_538, 2 ** 40, MAX), upTo(MAX)),
    upTo(2 ** 33),
    fc.constantFrom(0, 532, Number.MAX_SAFE_INTEGER),
    upTo(3),
    upTo(3),
    fc.integer({ min: -1, max: 100 }),
    fc.constantFrom(-1, 0, 999_999_999_999_999),
    upTo(31),
    upTo(1023),
    upTo(100_000),
    fc.oneof(fc.constantFrom('', '2001:db8::1', '::1'), upTo(2 ** 32 - 1)),
  )
const someRows = fc.array(fc.tuple(someRow(), upTo(31)), { maxLength: 60 })

const drained = (batch: ReturnType<typeof createBatch>): BatchRow[] => {
  const rows: BatchRow[] = []
  batch.drain(row => rows.push([...row]))
  return rows
}

describe('a batch', () => {
  test('property: returns every row once, by address, the same address in its order', () => {
    const batch = createBatch()
    fc.assert(
      fc.property(someRows, rows => {
        for (const [row, stated] of rows) batch.add(row, stated)
        const added = rows.map(([row, stated]): BatchRow => [...row, stated])
        const ip = (row: BatchRow): number => Math.floor(row[0] / 65_536)
        const out = drained(batch)
        expect(out.map(ip)).toEqual(added.map(ip).sort((a, b) => a - b))
        for (const id of new Set(added.map(([id]) => id))) {
          const of = (list: readonly BatchRow[]) => list.filter(row => row[0] === id)
          expect(of(out)).toEqual(of(added))
        }
        expect(drained(batch)).toEqual([])
      }),
      { numRuns: 300 },
    )
  })
  test('says when it is full, keeps the order of as many rows of one address, and begins again', () => {
    const batch = createBatch()
    const checkedAt = (at: number): Row => [MAX, at, 0, 0, 0, 0, 0, 0, 0, 0, '']
    for (let round = 0; round < 2; round += 1) {
      let rows = 0
      while (!batch.isFull()) batch.add(checkedAt(rows++), 0)
      expect(rows).toBe(2 ** 17)
      expect(drained(batch).every((taken, i) => taken[1] === i)).toBeTrue()
    }
  })
})
