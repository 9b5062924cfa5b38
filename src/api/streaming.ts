/**
 * Owns streaming: answers too large to be held in memory, which are rendered while they are sent.
 * SQLite's implementation, a worker thread, is in `sqlite/proxies/stream.ts`.
 */
import type { Share } from '../access/entitlements.ts'
import type { Matches } from '../proxies/draw.ts'
import type { ProxyType } from '../proxies/proxy.ts'
import type { Rendered, Totals } from './answer.ts'
import type { Query } from './query.ts'

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
  /** Opens the body; `onEnd` is called once, when it ends or is cancelled. */
  open: (onEnd: (sent: Sent) => void) => ReadableStream<Uint8Array>
  /** Ends a stream, whether its body was opened or not. */
  cancel: () => Promise<void>
}

/** Finds answers that would make other requests wait. */
export interface AnswerStreamer {
  /**
   * The whole answer if it turns out small, else a stream, with its totals if they are needed. It
   * waits until `share` may have another long answer.
   * @throws ApiError RATE_LIMIT_EXCEEDED or DB_EXECUTE_FAILED when it has waited too long.
   */
  stream(
    query: Query,
    nowMs: number,
    needsTotals: boolean,
    share: Share,
  ): Promise<({ kind: 'rendered' } & Rendered) | AnswerStream>
  /** All matches of a query, whatever its order and `count`. This is no long answer of `share`. */
  matches(query: Query, nowMs: number, share: Share): Promise<Matches>
  /** Whether any proxy of the list has one of these types. */
  hasType(types: readonly ProxyType[]): Promise<boolean>
  /** Refuses what waits for its turn, and what would wait from now on: the server is stopping. */
  refuseWaiting(): void
}
