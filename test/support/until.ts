/** Waiting in tests for what another process, thread or server does. */
import { stopwatch } from '../../src/lib/clock.ts'

/** After so long, what is waited for is taken never to happen: tests run on busy machines. */
const WAIT_MS_MAX = 120_000
const ASK_EVERY_MS = 5

/** Waits until `isSo` returns true; returns after how many milliseconds. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<number> {
  const elapsedMs = stopwatch()
  while (!(await isSo())) {
    if (elapsedMs() > WAIT_MS_MAX) throw new Error('it takes too long')
    await Bun.sleep(ASK_EVERY_MS)
  }
  return elapsedMs()
}
