/** When a list that is replaced as a whole is kept (contract C). */
import { expect, test } from 'bun:test'
import { emptyProblem, shrinkProblem } from '../../src/import/guard.ts'

test.each([
  [0, 'holds no row, and would remove the whole list'],
  [1, null],
] as const)('a source of %d rows: %p', (read, problem) => {
  expect(emptyProblem(read)).toBe(problem)
})

test.each([
  [0, 0, false],
  [99, 0, false],
  [99, 1, false],
  [100, 50, false],
  [100, 49, true],
  [101, 51, false],
  [101, 50, true],
  [3000, 1, true],
  [3000, 6000, false],
] as const)('a list of %d rows that would have %d is refused: %p', (before, after, isRefused) => {
  expect(shrinkProblem({ before, after }) !== null).toBe(isRefused)
})

test('the problem says both sizes', () => {
  expect(shrinkProblem({ before: 3000, after: 1 })).toBe(
    'would shrink the list from 3,000 rows to 1',
  )
})
