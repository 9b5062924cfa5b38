/**
 * Answers that are rendered whole, and the port of streaming, for answers too large to be held in memory
 * (SQLite's worker thread implements it).
 */

import type { Tenant } from '../access/entitlements.ts'
import { formatInstant } from '../lib/time.ts'
import type { Matches } from '../proxies/draw.ts'
import { maskRow } from '../proxies/mask.ts'
import { AT, type EndpointRow, type Found, subnetOf } from '../proxies/row.ts'
import type { Query } from './query.ts'
import { createWriters, encodeByteText, renderChunks, type Writer } from './render.ts'

/** Number of records, and the /16 networks shown, each once as a 16-bit number (`subnetOf`). */
export type Totals = { records: number; subnets: readonly number[] }

/** One answer, ready to be sent. */
export type Answer = Totals & {
  kind: 'answer'
  /** The body. The time of the response (the envelope's) goes between the chunks, if two. */
  chunks: readonly Content[]
  /** The body compressed, once a client has asked for it. */
  zstd?: Uint8Array
  gzip?: Uint8Array
}

/** A body or a part of one: short ASCII as text, which a `Response` takes in less time than bytes. */
export type Content = string | Uint8Array
/** Contents of this length or more are sent as bytes, see `http/reply.ts`. */
export const SENT_AS_BYTES_MIN = 14 * 1024

function contentOf(byteText: string): Content {
  const isText =
    byteText.length < SENT_AS_BYTES_MIN && Buffer.byteLength(byteText) === byteText.length
  return isText ? byteText : encodeByteText(byteText)
}

/** A rendered answer. `oldestSeconds`: its oldest check, Unix seconds; without one, `Infinity`. */
export type Rendered = { answer: Answer; oldestSeconds: number }

/** Subnets already seen by `renderAnswer`: faster than a set of them for each answer. */
const seen = new Uint8Array(65_536)

/** Renders all rows of an answer, in order and already masked where they have to be. */
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

/** Creates a renderer of rows, which masks them where the query asks for that. */
export function createAnswerRenderer(provider: string) {
  const writers = createWriters(provider)
  return (
    { filter, output, addressBits }: Pick<Query, 'filter' | 'output' | 'addressBits'>,
    { rows, ...foundIn }: Found,
  ): Rendered => {
    const shown = addressBits === 16 ? rows.map(maskRow) : rows
    return output.kind === 'txt'
      ? renderAnswer(writers.txt(output), shown)
      : renderAnswer(writers.records(filter, output, rows.length, foundIn), shown)
  }
}

export const nullIfEmpty = (answer: Answer): Answer | null => (answer.records === 0 ? null : answer)

const INSTANT_LENGTH = '1970-01-01T00:00:00.000Z'.length

/** The length of a body, in bytes. */
export const bodyLength = ({ chunks }: Answer): number =>
  chunks.reduce((sum, { length }) => sum + length, (chunks.length - 1) * INSTANT_LENGTH)

export function bodyOf({ chunks }: Answer, nowMs: number): Content {
  const [first = '', second] = chunks
  if (second === undefined) return first
  return Buffer.concat([first, formatInstant(nowMs), second].map(part => Buffer.from(part)))
}

/**
 * What was given to the connection of a stream: whole records, `bytes` before compression, and
 * whether it ended before its last record.
 */
export type Sent = { records: number; bytes: number; isTruncated: boolean }

/** An answer too large to be held in memory: it is rendered while it is sent. */
export type AnswerStream = {
  kind: 'stream'
  /** `null` unless they were requested. */
  totals: Totals | null
  /**
   * Opens the body, which fails at the first chunk for which `isStillAllowed` is false; `onEnd` is called once,
   * when it ends, fails or is cancelled.
   */
  open: (onEnd: (sent: Sent) => void, isStillAllowed?: () => boolean) => ReadableStream<Uint8Array>
  /** Ends a stream, whether its body was opened or not. */
  cancel: () => Promise<void>
}

/** Finds answers that would make other requests wait. */
export interface AnswerStreamer {
  /**
   * The whole answer if it turns out small, else a stream, with its totals if they are needed. Waits for a slot
   * of `tenant`.
   * @throws ApiError RATE_LIMIT_EXCEEDED or DB_EXECUTE_FAILED when it has waited too long.
   */
  stream(
    query: Query,
    nowMs: number,
    needsTotals: boolean,
    tenant: Tenant,
  ): Promise<({ kind: 'rendered' } & Rendered) | AnswerStream>
  /** All matches of a query, to draw from. @throws ApiError DB_EXECUTE_FAILED when that takes too long. */
  matches(query: Query, nowMs: number): Promise<Matches>
  /** Refuses the requests in the queue and all later ones that would join it. A server calls it when it stops. */
  refuseWaiting(): void
}
