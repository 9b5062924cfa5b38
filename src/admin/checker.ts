/** What the overview shows of the checker. */
import type { CheckerStatus } from '../checker/ports.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { formatInstant } from '../lib/time.ts'

const describe = ({ at, startedMs, judgeProblem, ...status }: CheckerStatus) => ({
  at: formatInstant(at),
  started: formatInstant(startedMs),
  judge_problem: judgeProblem?.sentence ?? null,
  queues: status.queues,
  ...{ checked: status.checked, alive: status.alive, deferred: status.deferred },
  failures: status.failures,
  ...{ per_second: status.rate, needed_per_second: status.neededRate },
  ...{ coverage: status.coverage, lag_seconds: status.lagSeconds, bytes: status.bytes },
})

/** `null` where none ever ran, and where that cannot be read, which is reported elsewhere. */
export const readChecker = (read: () => Awaitable<CheckerStatus | null>) =>
  Promise.try(read).then(
    status => status && describe(status),
    () => null,
  )
