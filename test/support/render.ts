/** Owns rendering given proxies as the program does. */
import { createWriters, type Output, renderChunks } from '../../src/api/render.ts'
import { formatInstant } from '../../src/lib/time.ts'
import type { Filter } from '../../src/proxies/filter.ts'
import type { Proxy } from '../../src/proxies/proxy.ts'

/** Renders whole answers for one name of the provider's service. `nowMs` dates the envelope. */
export function createRenderer(provider: string) {
  const writers = createWriters(provider)
  return (proxies: readonly Proxy[], filter: Filter, output: Output, nowMs: number): string => {
    const chunks =
      output.kind === 'json'
        ? renderChunks(writers.json(filter, output, proxies.length), proxies)
        : renderChunks(writers.txt(output), proxies)
    return chunks.join(formatInstant(nowMs))
  }
}
