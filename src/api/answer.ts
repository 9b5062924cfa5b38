/** Answers are held in memory as a whole, or streamed: workers render a stream while it is sent (contract B9). */
import type { Tenant } from '../access/entitlements.ts'
import { formatInstant } from '../lib/time.ts'
import type { Matches } from '../proxies/draw.ts'
import { maskRow } from '../proxies/mask.ts'
import { AT, type EndpointRow, type Found, subnetOf } from '../proxies/row.ts'
import type { Query } from './query.ts'
import { createWriters, encodeByteText, renderChunks, type Writer } from './render.ts'

/** The number of records, and the distinct /16 networks among them, as 16-bit numbers (`subnetOf`). */
export type Totals = { records: number; subnets: readonly number[] }

export type Answer = Totals & {
  kind: 'answer'
  /** The body. With two chunks, the time of the envelope goes between them. */
  chunks: readonly Content[]
  /** The body compressed, once a client has asked for it. */
  zstd?: Uint8Array
  gzip?: Uint8Array
  /** A hash of the body, while the response cache holds the answer. */
  hash?: string
}

/** A body or a part of it. Short ASCII is text, because a `Response` takes text faster than bytes. */
export type Content = string | Uint8Array
/** Content of this length or more is sent as bytes, see `http/reply.ts`. */
export const SENT_AS_BYTES_MIN = 14 * 1024

function contentOf(byteText: string): Content {
  const isText =
    byteText.length < SENT_AS_BYTES_MIN && Buffer.byteLength(byteText) === byteText.length
  return isText ? byteText : encodeByteText(byteText)
}

/** `oldestSeconds`: the oldest check in the answer, in Unix seconds; `Infinity` without records. */
export type Rendered = { answer: Answer; oldestSeconds: number }

/** The subnets of the answer that is being rendered. Faster than a new set for each answer. */
const seen = new Uint8Array(65_536)

/** Renders the rows of an answer. They are in order, and masked if the key needs that. */
export function renderAnswer<R extends EndpointRow>(
  writer: Writer<R>,
  rows: readonly R[],
): Rendered {
  const subnets: number[] = []
  let oldestSeconds = Infinity
  for (const row of rows) {
    const subnet = subnetOf(row[AT.id])
    if (seen[subnet] === 0) subnets.push(subnet)
    seen[subnet] = 1
    if (row[AT.checkedAt] < oldestSeconds) oldestSeconds = row[AT.checkedAt]
  }
  for (const subnet of subnets) seen[subnet] = 0
  const chunks = renderChunks(writer, rows).map(contentOf)
  return { answer: { kind: 'answer', records: rows.length, subnets, chunks }, oldestSeconds }
}

/** Creates a function that renders rows. It masks them if the query has `addressBits` 16. */
export function createAnswerRenderer(provider: string) {
  const writers = createWriters(provider)
  return (
    { filter, output, addressBits }: Pick<Query, 'filter' | 'output' | 'addressBits'>,
    { rows, ...foundIn }: Found,
  ): Rendered => {
    const shown = addressBits === 16 ? rows.map(maskRow) : rows
    return output.kind === 'txt'
      ? renderAnswer(writers.txt(filter, output), shown)
      : renderAnswer(writers.records(filter, output, rows.length, foundIn), shown)
  }
}

export const nullIfEmpty = (answer: Answer): Answer | null => (answer.records === 0 ? null : answer)

const INSTANT_LENGTH = '1970-01-01T00:00:00.000Z'.length

/** In bytes. */
export const bodyLength = ({ chunks }: Answer): number =>
  chunks.reduce((sum, { length }) => sum + length, (chunks.length - 1) * INSTANT_LENGTH)

export function bodyOf({ chunks }: Answer, nowMs: number): Content {
  const [first = '', second] = chunks
  if (second === undefined) return first
  return Buffer.concat([first, formatInstant(nowMs), second].map(part => Buffer.from(part)))
}

/** The part of a stream that a connection took: whole records, and bytes before compression. */
export type Sent = { records: number; bytes: number; isTruncated: boolean }

export type AnswerStream = {
  kind: 'stream'
  /** `null` unless `stream` was called with `needsTotals`. */
  totals: Totals | null
  /** Opens the body. It fails when `isStillAllowed` is false. `onEnd` is called once, however the body ends. */
  open: (onEnd: (sent: Sent) => void, isStillAllowed?: () => boolean) => ReadableStream<Uint8Array>
  /** Ends the stream. Its body need not have been opened. */
  cancel: () => Promise<void>
}

/** Finds the answers that would block other requests. Worker threads do the work. */
export interface AnswerStreamer {
  /** Finds a whole answer or a stream, which waits for a slot of `tenant`. @throws ApiError after waiting too long */
  stream(
    query: Query,
    nowMs: number,
    needsTotals: boolean,
    tenant: Tenant,
  ): Promise<({ kind: 'rendered' } & Rendered) | AnswerStream>
  /** Finds all matches of a query, to draw from. @throws ApiError DB_EXECUTE_FAILED when it takes too long. */
  matches(query: Query, nowMs: number): Promise<Matches>
  /** Refuses the requests in the queue, and all later ones that would join it. Called when the server stops. */
  refuseWaiting(): void
}
