/**
 * Owns answers that are rendered whole: finding their proxies, and their bodies. How they look is in
 * `render.ts`; answers too large to be held are in `streaming.ts`.
 */
import { subnetOf } from '../lib/ip.ts'
import { formatInstant } from '../lib/time.ts'
import type { Filter } from '../proxies/filter.ts'
import { maskEndpoint, maskProxy } from '../proxies/mask.ts'
import type { Endpoint, Proxy } from '../proxies/proxy.ts'
import type { FindOptions } from '../proxies/store.ts'
import type { Query } from './query.ts'
import { createWriters, renderChunks, type Writer } from './render.ts'

/** Number of records, and the /16 networks shown. */
export type Totals = { records: number; subnets: readonly number[] }

/** One answer, ready to be sent. */
export type Answer = Totals & {
  kind: 'answer'
  /** The body; between two chunks stands the time of the response (the envelope's). */
  chunks: readonly Uint8Array[]
}

/** An answer as it was rendered. `oldestSeconds`: its oldest check, Unix seconds. */
export type Rendered = { answer: Answer; oldestSeconds: number }

const encoder = new TextEncoder()

/** Renders all proxies of an answer, masked already where they have to be. */
export function renderAnswer<T extends Endpoint>(writer: Writer<T>, shown: readonly T[]): Rendered {
  const answer: Answer = {
    kind: 'answer',
    records: shown.length,
    subnets: [...new Set(shown.map(({ ip }) => subnetOf(ip)))],
    chunks: renderChunks(writer, shown).map(text => encoder.encode(text)),
  }
  const oldestSeconds = shown.reduce((least, { checkedAt }) => Math.min(least, checkedAt), Infinity)
  return { answer, oldestSeconds }
}

/** Finds proxies, or says that they are too many: `Large` is `never` where it finds all. */
type Finder<Large extends string> = {
  find(filter: Filter, options: FindOptions): Proxy[] | Large
  findEndpoints(filter: Filter, options: FindOptions): Endpoint[] | Large
}

/** Finds and renders answers for one name of the provider's service. */
export function createAnswerFinder<Large extends string>(reader: Finder<Large>, provider: string) {
  const writers = createWriters(provider)

  /** The answer to a query, also when it has no record; what the reader says of large ones. */
  return ({ filter, output, addressBits }: Omit<Query, 'id'>, nowMs: number): Rendered | Large => {
    const isMasked = addressBits === 16
    const options = { nowMs, addressBits }
    if (output.kind === 'txt') {
      const found = reader.findEndpoints(filter, options)
      if (typeof found === 'string') return found
      return renderAnswer(writers.txt(output), isMasked ? found.map(maskEndpoint) : found)
    }
    const found = reader.find(filter, options)
    if (typeof found === 'string') return found
    const writer = writers.json(filter, output, found.length)
    return renderAnswer(writer, isMasked ? found.map(maskProxy) : found)
  }
}

/** The body of an answer at `nowMs`. */
export function bodyOf({ chunks }: Answer, nowMs: number): Uint8Array {
  const [first = new Uint8Array(), second] = chunks
  if (second === undefined) return first
  return Buffer.concat([first, Buffer.from(formatInstant(nowMs)), second])
}
