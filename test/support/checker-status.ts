/** The status of a checker that does well, as of T0. */
import type { CheckerStatus } from '../../src/checker/ports.ts'
import { T0 } from './fixtures.ts'

export const CHECKER_STATUS: CheckerStatus = {
  ...{ at: T0, startedMs: T0 - 86_400_000, once: false, judgeProblem: null },
  queues: { living: 5_120, down: 700, raw: 94_000 },
  ...{ checked: 1_500_000, alive: 900_000, deferred: 12 },
  failures: { timeout: 400_000, refused: 150_000, forged: 3 },
  ...{ rate: 19.8, coverage: 0.97, lagSeconds: 0.4, bytes: 1_234_567, neededRate: null },
}
