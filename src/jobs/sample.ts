/** The built-in sample list (contract D7). The age of its checks stays the same. */
import sampleFile from '../../data/sample.ndjson' with { type: 'file' }
import { isRecord, parseJson } from '../import/reader.ts'
import { readRow } from '../import/row.ts'
import type { Clock } from '../lib/clock.ts'
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { type Job, repeat } from './runner.ts'

type SampleList = Pick<ProxyWriter, 'begin'> & {
  proxies: { shiftChecks(seconds: number): void }
}

/** Loads the sample, with its newest check now. Then moves all checks forward every second. */
export async function keepSampleFresh(list: SampleList, clock: Clock): Promise<Job> {
  let freshAtMs = clock()
  const defaults = { type: undefined, nowMs: freshAtMs, provider: 'the service' }
  const ndjson = await Bun.file(sampleFile).text()
  const proxies = ndjson
    .split('\n')
    .map(parseJson)
    .filter(isRecord)
    .map(row => {
      const result = readRow(row, defaults)
      if (result.kind !== 'good') throw new Error(`sample: ${result.reason}`)
      return result.proxy
    })
  const shift = toSeconds(freshAtMs) - Math.max(...proxies.map(({ checkedAt }) => checkedAt))
  const importTx = list.begin('merge')
  for (const proxy of proxies) importTx.add({ ...proxy, checkedAt: proxy.checkedAt + shift })
  await importTx.commit()
  return repeat(() => {
    const seconds = Math.floor((clock() - freshAtMs) / SECOND_MS)
    freshAtMs += seconds * SECOND_MS
    if (seconds !== 0) list.proxies.shiftChecks(seconds)
  }, SECOND_MS)
}
