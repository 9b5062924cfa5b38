/**
 * Owns answers that are rendered whole: finding their proxies, and their bodies. `render.ts` writes
 * their text; answers too large to be held in memory are in `streaming.ts`.
 */
import { subnetOf } from '../lib/ip.ts'
import { formatInstant } from '../lib/time.ts'
import type { Filter } from '../proxies/filter.ts'
import { maskEndpoint, maskProxy } from '../proxies/mask.ts'
import type { Endpoint, Proxy } from '../proxies/proxy.ts'
import type { FindOptions } from '../proxies/store.ts'
import type { Query } from './query.ts'
import { createWriters, renderChunks, type Writer } from './render.ts'

/** Number of records, and the /16 networks shown, each once as a 16-bit number (`subnetOf`). */
export type Totals = { records: number; subnets: readonly number[] }

/** One answer, ready to be sent. */
export type Answer = Totals & {
  kind: 'answer'
  /** The body. The time of the response (the envelope's) goes between the chunks, if two. */
  chunks: readonly Uint8Array[]
}

/** A rendered answer. `oldestSeconds`: its oldest check, Unix seconds; without one, `Infinity`. */
export type Rendered = { answer: Answer; oldestSeconds: number }

const encoder = new TextEncoder()

/** Renders all proxies of an answer, which are already masked where they have to be. */
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

/** Finds proxies, or returns that they are too many: `Large` is `never` if it finds all. */
type Finder<Large extends string> = {
  find(filter: Filter, options: FindOptions): Proxy[] | Large
  findEndpoints(filter: Filter, options: FindOptions): Endpoint[] | Large
}

/** Finds and renders answers for one name of the provider's service. */
export function createAnswerFinder<Large extends string>(reader: Finder<Large>, provider: string) {
  const writers = createWriters(provider)

  /** The answer to a query, perhaps without records, or what the reader returns for large ones. */
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
