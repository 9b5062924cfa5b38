/** Owns keeping the sample list fresh: its checks keep the age that they have when it is loaded. */
import { loadSample } from '../import/sample.ts'
import type { Clock } from '../lib/clock.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { type Job, repeat } from './runner.ts'

/** A list whose checks can be made more recent. */
export type SampleList = Pick<ProxyWriter, 'begin'> & {
  proxies: { shiftChecks(seconds: number): void }
}

/** Loads the sample from NDJSON text, then makes its checks more recent every second. */
export async function keepSampleFresh(
  list: SampleList,
  ndjson: string,
  clock: Clock,
): Promise<Job> {
  let freshAtMs = clock()
  await loadSample(list, ndjson, freshAtMs)
  return repeat(() => {
    const seconds = Math.floor((clock() - freshAtMs) / SECOND_MS)
    freshAtMs += seconds * SECOND_MS
    if (seconds !== 0) list.proxies.shiftChecks(seconds)
  }, SECOND_MS)
}
