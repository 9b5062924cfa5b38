/** Holds how much room an import needs: its pages are in the WAL first, and then in the file. */
import { expect, test } from 'bun:test'
import { missingBytes } from '../../../src/sqlite/wal.ts'

test.each([
  ['nothing is missing where the list does not grow', [0, 0, 0], 0],
  ['nor where it becomes smaller', [-1600, 0, 0], 0],
  ['new pages are written twice, with a margin', [1600, 0, 0], 3400],
  ['once, where they are in the WAL already', [1600, 1600, 0], 1700],
  ['pages that were written to the WAL twice need no less', [1600, 9999, 0], 1700],
  ['what is free is enough', [1600, 0, 3400], 0],
  ['or not, by one byte', [1600, 0, 3399], 1],
  ['some file systems do not count', [1600, 0, Number.POSITIVE_INFINITY], -Infinity],
] as const)('%s', (_, [growth, written, free], missing) => {
  expect(missingBytes({ growth, written, free })).toBe(missing)
})
