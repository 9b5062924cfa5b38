/**
 * The server's side of the worker that finds and renders answers too large for the main thread. The server
 * pulls one chunk at a time, as fast as the client reads, and the worker renders the next one meanwhile: a
 * stream uses the memory of two or three chunks.
 */
import type { Tenant } from '../../access/entitlements.ts'
import type { AnswerStream, AnswerStreamer, Rendered, Sent, Totals } from '../../api/answer.ts'
import { ApiError } from '../../api/errors.ts'
import type { Query } from '../../api/query.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import { orAfter, stopwatch, timerLater } from '../../lib/clock.ts'
import { type ErrorMessage, startWorker, toError } from '../../lib/worker.ts'
import type { Matches } from '../../proxies/draw.ts'
import { toStoreError } from '../errors.ts'
import { createStreamSlots, type Release, type SlotLimits } from './stream-slots.ts'

export type StreamSetup = { file: string; provider: string }

export type ToWorker =
  | ({ kind: 'setup' } & StreamSetup)
  | { kind: 'find'; id: number; query: Query; nowMs: number; needsTotals: boolean }
  /** Requests all matches of a query, to draw from. */
  | { kind: 'match'; id: number; query: Query; nowMs: number }
  /** Requests the next chunk of a stream. */
  | { kind: 'pull'; id: number }
  /** Ends a query or a stream. The only message without a reply. */
  | { kind: 'cancel'; id: number }

export type FromWorker =
  /** A whole answer that took long to find. */
  | { kind: 'rendered'; id: number; rendered: Rendered }
  | { kind: 'matched'; id: number; matches: Matches }
  /** A stream begins; `totals` if the query needs them. */
  | { kind: 'begun'; id: number; totals: Totals | null }
  /** `records`: in the stream up to the end of this chunk. */
  | { kind: 'chunk'; id: number; bytes: Uint8Array<ArrayBuffer>; records: number }
  | { kind: 'end'; id: number }
  | { kind: 'failed'; id: number; error: ErrorMessage }

type Waiting = { resolve: (message: FromWorker) => void; reject: (error: Error) => void }
type Request = Exclude<ToWorker, { kind: 'setup' | 'cancel' }>
/** A query for the worker, which gets an id when it is sent. */
type Task<M = Extract<Request, { kind: 'find' | 'match' }>> = M extends unknown
  ? Omit<M, 'id'>
  : never

/** Why a reply never comes: the server does not want it any more. */
const CANCELLED = new Error('the long answer was ended')

/** Sends requests to the worker, at most one of each id at a time. */
function workerRpc(setup: StreamSetup) {
  const waiting = new Map<number, Waiting>()
  let worker: Worker | null = null

  function start(): Worker {
    const fresh = startWorker('sqlite/proxies/stream.worker.ts')
    fresh.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      const waiter = waiting.get(data.id)
      waiting.delete(data.id)
      if (data.kind === 'failed') waiter?.reject(toError(data.error))
      else waiter?.resolve(data)
    }
    fresh.onerror = ({ message }) => {
      fresh.terminate()
      worker = null
      const all = [...waiting.values()]
      waiting.clear()
      for (const { reject } of all) reject(new Error(`the stream worker failed: ${message}`))
    }
    fresh.unref()
    fresh.postMessage({ kind: 'setup', ...setup } satisfies ToWorker)
    return fresh
  }

  return {
    send(message: Request): Promise<FromWorker> {
      worker ??= start()
      worker.postMessage(message)
      const { promise, resolve, reject } = Promise.withResolvers<FromWorker>()
      waiting.set(message.id, { resolve, reject })
      return promise
    },
    /** Ends a query or a stream; a reply that is awaited rejects with `CANCELLED`. */
    cancel(id: number): void {
      worker?.postMessage({ kind: 'cancel', id } satisfies ToWorker)
      waiting.get(id)?.reject(CANCELLED)
      waiting.delete(id)
    },
    close(): void {
      worker?.terminate()
      worker = null
    },
  }
}

/**
 * A stream that takes longer, in milliseconds, is ended. The listener ends one that its client does not read, with
 * its connection (`IDLE_TIMEOUT_SECONDS` in http/listen.ts).
 */
const STREAM_MS_MAX = 600_000
/** A query gets 503 after so long, its wait for a slot included: Bun closes a connection that is idle for 24 s. */
const ANSWER_MS_MAX = 22_000

export type StreamHooks = {
  /** Throws when the list must not be shown any more. */
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
  const { send, cancel, close } = workerRpc(setup)
  const slots = createStreamSlots(limits)
  let lastId = 0

  /** Awaits a reply with content of the list; a failure ends its stream. */
  async function verified(id: number, reply: Promise<FromWorker>): Promise<FromWorker> {
    try {
      const message = await reply
      verify()
      return message
    } catch (error) {
      if (error !== CANCELLED) {
        onFailure(error)
        cancel(id)
      }
      throw toStoreError(setup.file, error)
    }
  }

  /**
   * Sends a query that has waited for so long to the worker, which replies to it in one of these ways.
   * @throws ApiError DB_EXECUTE_FAILED when that takes too long: the worker forgets it.
   */
  async function ask<Kind extends FromWorker['kind']>(message: Task, waitedMs: number) {
    const id = ++lastId
    const found = verified(id, send({ ...message, id }))
    const reply = await orAfter(found, ANSWER_MS_MAX - waitedMs, later)
    if (reply === null) {
      cancel(id)
      const sentence = 'the answer takes too long to find; try again shortly'
      throw new ApiError('DB_EXECUTE_FAILED', sentence, { retryAfterSeconds: 1 })
    }
    return reply as Extract<FromWorker, { kind: Kind }> // see `workFor`
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
      if (isOver) return
      finish()
      cancel(id)
    }
    return {
      kind: 'stream',
      totals,
      cancel: async () => end(),
      open(callback: (sent: Sent) => void, mayGoOn = () => true) {
        if (isOver) callback(sent)
        else onEnd = callback
        const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
          if (isOver) throw CANCELLED
          const message = await verified(id, next ?? request()).catch((error: unknown) => {
            finish()
            throw error
          })
          if (message.kind === 'chunk') {
            if (!mayGoOn()) {
              end()
              throw new Error('this answer must not go on')
            }
            next = request() // rendered while this one is sent
            sent.bytes += message.bytes.length
            sent.records = message.records
            controller.enqueue(message.bytes)
          } else if (message.kind === 'end') {
            sent.isTruncated = false
            finish()
            controller.close()
          }
        }
        return new ReadableStream({ pull, cancel: end }, { highWaterMark: 0 })
      },
    }
  }

  /** Works in a slot, which `work` releases unless it fails. */
  async function inSlot<T>(
    acquired: Awaitable<Release>,
    onBegin: () => void,
    work: (release: Release, waitedMs: number) => Promise<T>,
  ): Promise<T> {
    const waitedMs = stopwatch()
    const release = acquired instanceof Promise ? await acquired : acquired
    onBegin()
    try {
      return await work(release, waitedMs())
    } catch (error) {
      release()
      throw error
    }
  }

  return {
    stream: async (query, nowMs, needsTotals, tenant, onBegin) =>
      inSlot(
        slots.acquire(slotKey(tenant), tenant.downloads),
        onBegin,
        async (release, waitedMs) => {
          const find: Task = { kind: 'find', query, nowMs, needsTotals }
          const reply = await ask<'begun' | 'rendered'>(find, waitedMs)
          if (reply.kind === 'begun') return createStream(reply.id, reply.totals, release)
          release()
          return { kind: 'rendered', ...reply.rendered }
        },
      ),
    // A client that downloads may still draw: draws have a slot of their own, which takes one of all slots.
    matches: async (query, nowMs, tenant, onBegin) =>
      inSlot(
        slots.acquire(`draw ${slotKey(tenant)}`, 1, 'long draw'),
        onBegin,
        async (release, waitedMs) => {
          const { matches } = await ask<'matched'>({ kind: 'match', query, nowMs }, waitedMs)
          release()
          return matches
        },
      ),
    refuseWaiting: slots.refuseWaiting,
    close,
  }
}

const slotKey = ({ id, isTrial }: Tenant): string => `${isTrial ? 'address' : 'key'} ${id}`
