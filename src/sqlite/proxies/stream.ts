/** The server's side of streams. It pulls a chunk as fast as the client reads, while the worker renders the next. */
import type { Tenant } from '../../access/entitlements.ts'
import type { AnswerStream, AnswerStreamer, Rendered, Sent, Totals } from '../../api/answer.ts'
import { ApiError } from '../../api/errors.ts'
import type { Query } from '../../api/query.ts'
import { stopwatch, timerLater, withTimeout } from '../../lib/clock.ts'
import { startTasks, type Tasks } from '../../lib/worker.ts'
import type { Matches } from '../../proxies/draw.ts'
import { toStoreError } from '../errors.ts'
import { createStreamSlots, type Release, type SlotLimits } from './stream-slots.ts'

export type StreamSetup = { file: string; provider: string }

export type ToWorker =
  /** Finds an answer; a stream of it gets this id. */
  | { kind: 'find'; id: number; query: Query; nowMs: number; needsTotals: boolean }
  /** Finds all matches of a query, to draw from. */
  | { kind: 'match'; query: Query; nowMs: number }
  | { kind: 'pull'; id: number }
  /** Ends a stream, if it has begun. */
  | { kind: 'cancel'; id: number }

export type FromWorker =
  /** A whole answer: it took long to find, but is small. */
  | ({ kind: 'rendered' } & Rendered)
  /** A stream begins; `totals` if the query needs them. */
  | { kind: 'begun'; totals: Totals | null }
  | ({ kind: 'matched' } & Matches)
  /** `records`: in the stream up to the end of this chunk. */
  | { kind: 'chunk'; bytes: Uint8Array<ArrayBuffer>; records: number }
  | { kind: 'end' }

/**
 * A stream that takes longer, in milliseconds, is ended. The listener ends one that its client does not read, with
 * its connection (`IDLE_TIMEOUT_SECONDS` in http/listen.ts).
 */
const STREAM_MS_MAX = 600_000
/** A query gets 503 after so long, its wait for a slot included: Bun closes a connection that is idle for 24 s. */
const ANSWER_MS_MAX = 22_000

export type StreamHooks = {
  verify: () => void
  /** Called with the failure of an answer that could not be found, or was interrupted. */
  onFailure: (error: unknown) => void
}

/** Streams answers from the list in `setup.file`; queries that wait for a slot stay on the main thread. */
export function createStreamer(
  setup: StreamSetup,
  { verify, onFailure }: StreamHooks,
  limits: Partial<SlotLimits> = {},
): AnswerStreamer & { close(): void } {
  const { later = timerLater } = limits
  const slots = createStreamSlots(limits)
  let worker: Tasks<StreamSetup & ToWorker, FromWorker | null> | null = null
  let lastId = 0

  async function send(message: ToWorker): Promise<FromWorker> {
    try {
      worker ??= startTasks('sqlite/proxies/stream.worker.ts', () => {
        worker = null
      })
      const reply = await worker.run({ ...setup, ...message })
      verify()
      if (reply === null) throw new Error('the stream has ended')
      return reply
    } catch (error) {
      onFailure(error)
      if ('id' in message) cancel(message.id)
      throw toStoreError(setup.file, error)
    }
  }

  function cancel(id: number): void {
    worker?.run({ ...setup, kind: 'cancel', id }).catch(() => {})
  }

  /** Finds something. @throws ApiError DB_EXECUTE_FAILED when that takes too long. */
  async function find(message: ToWorker, waitedMs = 0): Promise<FromWorker> {
    const reply = await withTimeout(send(message), ANSWER_MS_MAX - waitedMs, later)
    if (reply !== null) return reply
    if ('id' in message) cancel(message.id)
    const sentence = 'the answer takes too long to find; try again shortly'
    throw new ApiError('DB_EXECUTE_FAILED', sentence, { retryAfterSeconds: 1 })
  }

  /** A stream that has begun in the worker, and keeps its slot until it ends. */
  function createStream(id: number, totals: Totals | null, release: Release): AnswerStream {
    const cancelTimer = later(end, STREAM_MS_MAX)
    const sent: Sent = { records: 0, bytes: 0, isTruncated: true }
    let onEnd: ((sent: Sent) => void) | null = null
    let next: Promise<FromWorker> | null = null
    let isOver = false

    function request(): Promise<FromWorker> {
      const reply = send({ kind: 'pull', id })
      reply.catch(() => {}) // a failure is handled when the reader wants the chunk
      return reply
    }
    function finish(): void {
      if (isOver) return
      isOver = true
      release()
      cancelTimer()
      onEnd?.(sent)
    }
    function end(): void {
      if (!isOver) cancel(id)
      finish()
    }
    async function pull(
      controller: ReadableStreamDefaultController<Uint8Array>,
      isStillAllowed: () => boolean,
    ): Promise<void> {
      const reply = isOver ? null : await (next ?? request())
      if (isOver || reply === null) throw new Error('the stream was ended')
      if (reply.kind === 'chunk') {
        if (!isStillAllowed()) throw new Error('this answer must not go on')
        next = request() // rendered while this one is sent
        sent.bytes += reply.bytes.length
        sent.records = reply.records
        controller.enqueue(reply.bytes)
      } else {
        sent.isTruncated = false
        finish()
        controller.close()
      }
    }

    return {
      kind: 'stream',
      totals,
      cancel: async () => end(),
      open(callback: (sent: Sent) => void, isStillAllowed = () => true) {
        if (isOver) callback(sent)
        else onEnd = callback
        return new ReadableStream(
          {
            pull: controller =>
              pull(controller, isStillAllowed).catch((error: unknown) => {
                end()
                throw error
              }),
            cancel: end,
          },
          { highWaterMark: 0 },
        )
      },
    }
  }

  return {
    async stream(query, nowMs, needsTotals, tenant) {
      const waitedMs = stopwatch()
      const release = await slots.acquire(slotKey(tenant), tenant.streamsMax)
      lastId += 1
      const id = lastId
      try {
        const reply = await find({ kind: 'find', id, query, nowMs, needsTotals }, waitedMs())
        if (reply.kind === 'begun') return createStream(id, reply.totals, release)
        release()
        return reply as Extract<FromWorker, { kind: 'rendered' }> // the only other reply
      } catch (error) {
        release()
        throw error
      }
    },
    async matches(query, nowMs) {
      const reply = await find({ kind: 'match', query, nowMs })
      return reply as Extract<FromWorker, { kind: 'matched' }> // the only reply
    },
    refuseWaiting: slots.refuseWaiting,
    close(): void {
      worker?.end()
      worker = null
    },
  }
}

const slotKey = ({ id, isTrial }: Tenant): string => `${isTrial ? 'address' : 'key'} ${id}`
