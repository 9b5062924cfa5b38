/**
 * The server's side of the worker that finds and renders answers too large for the main thread. Chunks are
 * pulled one by one, as fast as the client reads them, and only the next one is rendered in advance, so a
 * stream uses the memory of two or three chunks.
 */
import { dirname } from 'node:path'
import type { Tenant } from '../../access/entitlements.ts'
import type { AnswerStream, AnswerStreamer, Rendered, Sent, Totals } from '../../api/answer.ts'
import type { Query } from '../../api/query.ts'
import { type Later, orAfter, stopwatch, timerLater } from '../../lib/clock.ts'
import type { Owner } from '../../lib/fair-queue.ts'
import { type ErrorMessage, startWorker, toError } from '../../lib/worker.ts'
import type { Matches } from '../../proxies/draw.ts'
import type { ProxyType } from '../../proxies/proxy.ts'
import { toStoreError } from '../errors.ts'
import { createLeases, createSemaphore, refusal, type Slot, type TakeLease } from './downloads.ts'

export type StreamSetup = { file: string; provider: string; walBounds: WalBounds }

/**
 * While the WAL is larger, streams older than `oldMs` are ended. While it is full, none begins beside another, either:
 * that has to be over soon, because nobody else gets a long answer then.
 */
type WalBounds = { [is in 'large' | 'full']: { bytes: number; oldMs: number } }
export const WAL_BOUNDS: WalBounds = {
  large: { bytes: 256 * 1024 * 1024, oldMs: 60_000 },
  full: { bytes: 1024 * 1024 * 1024, oldMs: 10_000 },
}

export type ToWorker =
  | ({ kind: 'setup' } & StreamSetup)
  | {
      kind: 'find'
      id: number
      query: Query
      nowMs: number
      needsTotals: boolean
      /** Whose turn it has to be, also for the chunks. */
      owner: Owner
    }
  /** Requests all matches of a query, to draw from. */
  | { kind: 'match'; id: number; query: Query; nowMs: number; owner: Owner }
  /** Asks whether any row has one of these types. */
  | { kind: 'find-type'; id: number; types: readonly ProxyType[] }
  /** Requests the next chunk of a stream, or ends it. */
  | { kind: 'pull' | 'cancel'; id: number }

export type FromWorker =
  /** A whole answer that took long to find. */
  | { kind: 'rendered'; id: number; rendered: Rendered }
  | { kind: 'matched'; id: number; matches: Matches }
  | { kind: 'type'; id: number; isThere: boolean }
  /** A stream begins; `totals` if they were needed. */
  | { kind: 'begun'; id: number; totals: Totals | null }
  /** The stream would keep the WAL from being emptied. */
  | { kind: 'refused'; id: number }
  /** `records`: of the stream up to the end of this chunk. */
  | { kind: 'chunk'; id: number; bytes: Uint8Array<ArrayBuffer>; records: number }
  | { kind: 'end'; id: number }
  | { kind: 'failed'; id: number; error: ErrorMessage }

type Waiting = { resolve: (message: FromWorker) => void; reject: (error: Error) => void }
type Request = Exclude<ToWorker, { kind: 'setup' }>
/** A query for the worker, which gets an id when it is sent. */
type Task<M = Extract<Request, { kind: 'find' | 'match' | 'find-type' }>> = M extends unknown
  ? Omit<M, 'id'>
  : never

/** One reply for each message, on a stream in their order: a `cancel` does not get the reply of a `pull`. */
function createExchange(setup: StreamSetup) {
  const waiting = new Map<number, Waiting[]>()
  let worker: Worker | null = null

  function start(): Worker {
    const fresh = startWorker('sqlite/proxies/stream.worker.ts')
    fresh.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      const waiters = waiting.get(data.id) ?? []
      const waiter = waiters.shift()
      if (waiters.length === 0) waiting.delete(data.id)
      if (data.kind === 'failed') waiter?.reject(toError(data.error))
      else waiter?.resolve(data)
    }
    fresh.onerror = ({ message }) => {
      fresh.terminate()
      worker = null
      const all = [...waiting.values()].flat()
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
      return new Promise((resolve, reject) => {
        const waiters = waiting.get(message.id) ?? []
        waiters.push({ resolve, reject })
        waiting.set(message.id, waiters)
      })
    },
    close(): void {
      worker?.terminate()
      worker = null
    },
  }
}

/** Most long answers under way at once: for keys on plans, and for `demo` and temporary keys. */
const PLAN_SLOTS = 64
const TRIAL_SLOTS = 4
/** A stream that takes longer, in milliseconds, is ended. */
const STREAM_MS_MAX = 600_000
/** A query that has waited longer for a slot, in milliseconds, is refused. */
const WAIT_MS_MAX = 20_000
/** So is one that is not answered by then, its wait included: Bun closes a connection that is idle for 24 s. */
const ANSWER_MS_MAX = 22_000

export type StreamHooks = {
  /** Throws when the list must not be shown any more. */
  verify: () => void
  /** Called with the failure of an answer that could not be found, or was interrupted. */
  onFailure: (error: unknown) => void
}

/** How many streams there may be, and how long they wait. */
export type StreamLimits = { slots: number; trialSlots: number; waitMsMax: number; later: Later }

/** Streams answers from a list in turns between keys; what waits for a slot is not sent to the worker. */
export function createStreamer(
  setup: StreamSetup,
  { verify, onFailure }: StreamHooks,
  limits: Partial<StreamLimits> = {},
): AnswerStreamer & { close(): void } {
  const { slots = PLAN_SLOTS, trialSlots = TRIAL_SLOTS } = limits
  const { waitMsMax = WAIT_MS_MAX, later = timerLater } = limits
  const { send, close } = createExchange(setup)
  const leases = createLeases(dirname(setup.file))
  const semaphores = (what: string, takeLease: TakeLease) => {
    const options = { what, waitMsMax, later, elapsedMs: stopwatch(), takeLease }
    return {
      plan: createSemaphore({ ...options, slots }),
      trial: createSemaphore({ ...options, slots: trialSlots }),
    }
  }
  const answers = semaphores('long answer', leases.take)
  /** For scans of the list, which no reader can hold up: one of a tenant, not counted as a long answer. */
  const scans = semaphores('long draw', () => () => {})
  let lastId = 0

  const cancelInWorker = async (id: number): Promise<void> => {
    await send({ kind: 'cancel', id }).catch(() => {})
  }

  /** Awaits a reply that has content of the list; when that fails, its stream is ended. */
  async function verified(id: number, reply: Promise<FromWorker>): Promise<FromWorker> {
    try {
      const message = await reply
      verify()
      return message
    } catch (error) {
      onFailure(error)
      await cancelInWorker(id)
      throw toStoreError(setup.file, error)
    }
  }

  /**
   * Sends a query that has waited for so long to the worker, which replies to it in one of these ways.
   * @throws ApiError DB_EXECUTE_FAILED when that takes too long: the worker forgets it.
   */
  async function ask<Kind extends FromWorker['kind']>(message: Task, waitedMs = 0) {
    const id = ++lastId
    const found = verified(id, send({ ...message, id }))
    const reply = await orAfter(found, ANSWER_MS_MAX - waitedMs, later)
    if (reply === null) {
      void cancelInWorker(id)
      throw refusal('DB_EXECUTE_FAILED', 'the answer takes too long to find; try again shortly')
    }
    return reply as Extract<FromWorker, { kind: Kind }> // see `workFor`
  }

  /** A stream that has begun in the worker, and keeps `slot` until it ends. */
  function createStream(id: number, totals: Totals | null, slot: Slot): AnswerStream {
    const cancelTimer = later(() => void cancel(), STREAM_MS_MAX)
    const sent: Sent = { records: 0, bytes: 0, isTruncated: true }
    let onEnd: ((sent: Sent) => void) | null = null
    const ageMs = stopwatch()
    let ahead: Promise<FromWorker> | null = null
    /** Since when the reader has not asked for the next chunk; `null` while it waits for one. */
    let idleMs: (() => number) | null = ageMs
    let isOver = false
    function request(): Promise<FromWorker> {
      const reply = send({ kind: 'pull', id })
      reply.catch(() => {}) // a failure is handled when the reader wants the chunk
      return reply
    }
    function finish(): void {
      if (isOver) return
      isOver = true
      slot.release()
      cancelTimer()
      onEnd?.(sent)
    }
    async function cancel(): Promise<void> {
      if (isOver) return
      finish()
      await cancelInWorker(id)
    }
    slot.send({ ageMs, idleMs: () => idleMs?.() ?? 0, end: () => void cancel() })
    return {
      kind: 'stream',
      totals,
      cancel,
      open(callback: (sent: Sent) => void, mayGoOn = () => true) {
        if (isOver) callback(sent)
        else onEnd = callback
        const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
          idleMs = null
          // After a cancel the worker has no such stream any more, and replies with a failure.
          const message = await verified(id, ahead ?? request()).catch((error: unknown) => {
            finish()
            throw error
          })
          idleMs = stopwatch()
          if (message.kind === 'chunk') {
            if (!mayGoOn()) {
              await cancel()
              throw new Error('this answer must not go on')
            }
            ahead = request() // rendered while this one is sent
            sent.bytes += message.bytes.length
            sent.records = message.records
            controller.enqueue(message.bytes)
          } else if (message.kind === 'end') {
            sent.isTruncated = false
            finish()
            controller.close()
          }
        }
        return new ReadableStream({ pull, cancel }, { highWaterMark: 0 })
      },
    }
  }

  async function inSlot<T>(
    { plan, trial }: typeof answers,
    tenant: Tenant,
    onBegin: () => void,
    work: (slot: Slot, owner: Owner, waitedMs: number) => Promise<T>,
  ) {
    const { id, isTrial } = tenant
    const waitedMs = stopwatch()
    const acquired = (isTrial ? trial : plan).acquire(tenant)
    const slot = acquired instanceof Promise ? await acquired : acquired
    onBegin()
    try {
      return await work(slot, { id, isTrial }, waitedMs())
    } catch (error) {
      slot.release()
      throw error
    }
  }

  return {
    stream: (query, nowMs, needsTotals, tenant, onBegin) =>
      inSlot(answers, tenant, onBegin, async (slot, owner, waitedMs) => {
        const find: Task = { kind: 'find', query, nowMs, needsTotals, owner }
        const reply = await ask<'begun' | 'rendered' | 'refused'>(find, waitedMs)
        if (reply.kind === 'begun') return createStream(reply.id, reply.totals, slot)
        slot.release()
        if (reply.kind === 'rendered') return { kind: 'rendered', ...reply.rendered }
        throw refusal('DB_EXECUTE_FAILED', 'older long answers must end first')
      }),
    matches: (query, nowMs, tenant, onBegin) =>
      inSlot(scans, { ...tenant, downloads: 1 }, onBegin, async (slot, owner, waitedMs) => {
        const match: Task = { kind: 'match', query, nowMs, owner }
        const { matches } = await ask<'matched'>(match, waitedMs)
        slot.release()
        return matches
      }),
    hasType: async types => (await ask<'type'>({ kind: 'find-type', types })).isThere,
    refuseWaiting() {
      for (const { plan, trial } of [answers, scans]) {
        plan.refuseWaiting()
        trial.refuseWaiting()
      }
    },
    close() {
      close()
      leases.close()
    },
  }
}
