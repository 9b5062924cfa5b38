/** Importing from memory, for the tests: what an import passes on and what it reports. */
import {
  type ImportOptions,
  importSources,
  type Source,
  type Totals,
} from '../../src/import/import.ts'
import type { IncomingProxy } from '../../src/proxies/proxy.ts'
import { T0 } from '../support/fixtures.ts'

export const PROVIDER = 'the service'
export const DEFAULTS = { type: undefined, nowMs: T0, provider: PROVIDER }

/** Bytes in chunks of `size`. */
async function* bytesOf(bytes: Uint8Array, size: number): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
export const sourceOf = (name: string, data: string | Uint8Array, size = 4096): Source => ({
  name,
  bytes: bytesOf(typeof data === 'string' ? new TextEncoder().encode(data) : data, size),
})

type Report = readonly [file: string, line: number, field: string, reason: string]
export type Imported = {
  proxies: IncomingProxy[]
  rejected: Report[]
  totals: Totals
  progress: (readonly [rows: number, bytes: number])[]
  empty: string[]
}

export async function imported(
  sources: readonly Source[],
  options: Partial<ImportOptions> = {},
): Promise<Imported> {
  const proxies: IncomingProxy[] = []
  const rejected: Report[] = []
  const progress: Imported['progress'] = []
  const empty: string[] = []
  const totals = await importSources(
    sources,
    { format: 'auto', defaults: DEFAULTS, strict: false, ...options },
    proxy => proxies.push(proxy),
    {
      progress: (...now) => progress.push(now),
      rejected: (...report) => rejected.push(report),
      empty: file => empty.push(file),
    },
  )
  return { proxies, rejected, totals, progress, empty }
}
