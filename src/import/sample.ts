/** Owns loading the built-in sample list, its newest check moved to now (contract D7). */
import { toSeconds } from '../lib/time.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { parseJson } from './reader.ts'
import { isRecord, readRow } from './row.ts'

/**
 * Fills `list` from NDJSON text. Ages are kept: the newest check becomes `nowMs`.
 * @throws Error when a row is bad: the sample is part of the program.
 */
export async function loadSample(
  list: Pick<ProxyWriter, 'begin'>,
  ndjson: string,
  nowMs: number,
): Promise<void> {
  const defaults = { type: undefined, nowMs, provider: 'the service' }
  const rows = ndjson.split('\n').map(parseJson).filter(isRecord)
  const proxies = rows.map(row => {
    const result = readRow(row, defaults)
    if (!result.ok) throw new Error(`sample: ${result.field} ${result.reason}`)
    return result.proxy
  })
  const newest = Math.max(...proxies.map(({ checkedAt }) => checkedAt))
  const shift = toSeconds(nowMs) - newest
  const importTx = list.begin('merge')
  for (const proxy of proxies) importTx.add({ ...proxy, checkedAt: proxy.checkedAt + shift })
  await importTx.commit()
}
