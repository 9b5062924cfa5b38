/** Owns loading the built-in sample list, its newest check moved to now (contract D7). */
import type { List } from '../app.ts'
import { toSeconds } from '../lib/time.ts'
import { readRow } from './row.ts'
import { isRecord, parseJson } from './sink.ts'

/**
 * Fills `list` from NDJSON text. Ages are kept: the newest check becomes `nowMs`.
 * @throws Error when a row is bad: the sample is part of the program.
 */
export function loadSample(list: List, ndjson: string, nowMs: number): void {
  const defaults = { type: undefined, nowMs, provider: 'the service' }
  const rows = ndjson.split('\n').map(parseJson).filter(isRecord)
  const proxies = rows.map(row => {
    const result = readRow(row, defaults)
    if (!result.ok) throw new Error(`sample: ${result.field} ${result.reason}`)
    return result.proxy
  })
  const newest = Math.max(...proxies.map(({ checkedAt }) => checkedAt))
  const shift = toSeconds(nowMs) - newest
  const target = list.beginImport(false)
  for (const proxy of proxies) target.add({ ...proxy, checkedAt: proxy.checkedAt + shift })
  target.commit()
}
