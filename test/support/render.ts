/** Rendering given proxies as the program does. */
import { expect } from 'bun:test'
import { createWriters, encodeByteText, type Output, renderChunks } from '../../src/api/render.ts'
import { formatInstant } from '../../src/lib/time.ts'
import type { Filter } from '../../src/proxies/filter.ts'
import { maskEndpoint, maskRow } from '../../src/proxies/mask.ts'
import type { Proxy } from '../../src/proxies/proxy.ts'
import { foundOf } from './rows.ts'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Renders whole answers for one name of the provider's service. `nowMs` dates the envelope. */
export function createRenderer(provider: string) {
  const writers = createWriters(provider)
  return (
    proxies: readonly Proxy[],
    filter: Filter,
    output: Output,
    nowMs: number,
    isMasked = false,
  ): string => {
    const { rows, cityNames } = foundOf(proxies)
    const txt = () =>
      renderChunks(writers.txt(filter, output), isMasked ? rows.map(maskEndpoint) : rows)
    const shown = isMasked ? rows.map(maskRow) : rows
    const records = (areKept: boolean) =>
      renderChunks(writers.records(filter, output, rows.length, { cityNames, areKept }), shown)
    const chunks = output.kind === 'txt' ? txt() : records(false)
    if (output.kind !== 'txt') {
      // The same rows again, whose text is kept the first time.
      for (const _ of [1, 2]) expect(records(true)).toEqual(chunks)
    }
    return decoder.decode(encodeByteText(chunks.join(formatInstant(nowMs))))
  }
}

/** What a query without parameters of the output asks for. */
export const TXT: Output = {
  ...{ kind: 'txt', isDownload: false, line: null, fields: null },
  ...{ splitIp: false, shape: 'array', wrap: false, pretty: true },
}
