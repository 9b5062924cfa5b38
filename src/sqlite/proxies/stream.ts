/**
 * Owns the server's side of bulk answers: starts their thread when it is first needed, and turns
 * its messages into answers and streams. Pieces are asked for one by one, as fast as the client
 * takes them, so a long answer takes the memory of a piece or two.
 */

import { ApiError } from '../../api/errors.ts'
import type { Question } from '../../api/query.ts'
import type { BulkAnswers, LargeAnswer, SmallAnswer } from '../../api/response-cache.ts'
import { stopwatch } from '../../lib/time.ts'
import { startWorker } from '../../lib/worker.ts'

/** What the thread works with from its start. */
export type BulkSetUp = { file: string; provider: string; log: LogBound }

/**
 * How far long answers may keep the list's write-ahead log from being emptied: while it is larger
 * than `bytesMax`, those older than `oldMs` are given up, and none begins beside another.
 */
export type LogBound = { bytesMax: number; oldMs: number }
export const LOG_BOUND: LogBound = { bytesMax: 256 * 1024 * 1024, oldMs: 60_000 }

export type ToThread =
  | { kind: 'ask'; id: number; question: Question; nowMs: number; needsTotals: boolean }
  /** Asks for the next piece of an answer; `cancel` for none any more. */
  | { kind: 'pull' | 'cancel'; id: number }

export type FromThread =
  /** A whole answer that took long to find; no pieces when nothing matches. */
  | { kind: 'small'; id: number; small: SmallAnswer }
  /** A long answer begins; totals are 0 and empty unless they were needed. */
  | { kind: 'large'; id: number; records: number; subnets: readonly number[] }
  /** A long answer would keep the log from being emptied. */
  | { kind: 'refused'; id: number }
  | { kind: 'piece'; id: number; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'end'; id: number; records: number }
  | { kind: 'failed'; id: number; name: string; message: string; code: string }

/** Long answers under way at once; each holds a snapshot of the list. Further ones are refused. */
const STREAMS_MAX = 64
/** A client that takes longer for its answer is cut off, in milliseconds. */
const STREAM_MS_MAX = 600_000
/** Questions before the thread at once: so many a piece of an answer may have to wait for. */
const ASKS_MAX = 4
/** A question that has waited longer for its turn is refused, before its connection counts as idle. */
const WAIT_MS_MAX = 20_000

type Waiting = { resolve: (message: FromThread) => void; reject: (error: Error) => void }

/** An error of the thread, as the error it was. */
const revived = ({ name, message, code }: { name: string; message: string; code: string }): Error =>
  Object.assign(new Error(message), { name, code })

/**
 * Exchanges messages with the thread: one reply for each message. Replies about an answer come in
 * the order of its messages, so that a `cancel` does not take the reply of a `pull` before it.
 */
function createExchange(setUp: BulkSetUp) {
  const waiting = new Map<number, Waiting[]>()
  let worker: Worker | null = null

  function start(): Worker {
    const fresh = startWorker('sqlite/proxies/stream.worker.ts')
    fresh.onmessage = ({ data }: MessageEvent<FromThread>) => {
      const waiters = waiting.get(data.id) ?? []
      const waiter = waiters.shift()
      if (waiters.length === 0) waiting.delete(data.id)
      if (data.kind === 'failed') waiter?.reject(revived(data))
      else waiter?.resolve(data)
    }
    fresh.onerror = ({ message }) => {
      fresh.terminate()
      worker = null
      const all = [...waiting.values()].flat()
      waiting.clear()
      for (const { reject } of all) reject(new Error(`bulk answers: ${message}`))
    }
    fresh.unref()
    fresh.postMessage(setUp)
    return fresh
  }

  return {
    send(message: ToThread): Promise<FromThread> {
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

export type BulkWatch = {
  /** Throws when the list must not be shown any more. */
  look: () => void
  /** Told of an answer that could not be found, or broke off on its way. */
  failed: (error: unknown) => void
}

/** Exchanges messages of which the reply shows the list; the answer ends when it fails. */
function watched(
  { send }: ReturnType<typeof createExchange>,
  { look, failed }: BulkWatch,
): (message: ToThread) => Promise<FromThread> {
  return async message => {
    try {
      const reply = await send(message)
      look()
      return reply
    } catch (error) {
      failed(error)
      await send({ kind: 'cancel', id: message.id }).catch(() => {})
      throw error
    }
  }
}

/** Runs at most so many works at a time; further ones wait for their turn. */
function createTurns(most: number) {
  const waiting: (() => void)[] = []
  let running = 0
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running < most) running += 1
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running -= 1
    }
  }
}

const refuse = (message: string): never => {
  throw new ApiError('DB_EXECUTE_FAILED', message, { retryAfterSeconds: 1 })
}

/**
 * Bulk answers from the list in `file`. Few questions are put to the thread at a time, so that
 * pieces of answers under way come between.
 */
export function createBulk(
  setUp: BulkSetUp,
  watch: BulkWatch,
  waitMsMax = WAIT_MS_MAX,
): BulkAnswers & { close(): void } {
  const exchange = createExchange(setUp)
  const show = watched(exchange, watch)
  const inTurn = createTurns(ASKS_MAX)
  let lastId = 0
  let open = 0

  function largeAnswer(id: number, totals: Pick<LargeAnswer, 'records' | 'subnets'>): LargeAnswer {
    open += 1
    const timer = setTimeout(() => void cancel(), STREAM_MS_MAX)
    let isOver = false
    const finish = (): boolean => {
      if (isOver) return false
      isOver = true
      open -= 1
      clearTimeout(timer)
      return true
    }
    const cancel = async (): Promise<void> => {
      if (finish()) await exchange.send({ kind: 'cancel', id }).catch(() => {})
    }
    return {
      ...totals,
      cancel,
      open(ended) {
        let bytes = 0
        const stop = (records: number): void => {
          finish()
          ended({ records, bytes })
        }
        const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
          // After a cancel the thread knows of no such answer, and says so.
          const message = await show({ kind: 'pull', id }).catch((error: unknown) => {
            stop(0)
            throw error
          })
          if (message.kind === 'piece') {
            bytes += message.bytes.length
            controller.enqueue(message.bytes)
          } else if (message.kind === 'end') {
            stop(message.records)
            controller.close()
          }
        }
        const abandon = async (): Promise<void> => {
          await cancel()
          ended({ records: 0, bytes })
        }
        return new ReadableStream({ pull, cancel: abandon }, { highWaterMark: 0 })
      },
    }
  }

  return {
    async ask(question: Question, nowMs: number, needsTotals: boolean) {
      const id = ++lastId
      const waitedMs = stopwatch()
      const first = await inTurn(async () => {
        if (waitedMs() > waitMsMax) refuse('too many long answers are asked for; ask for fewer')
        return show({ kind: 'ask', id, question, nowMs, needsTotals })
      })
      if (first.kind === 'small') return { small: first.small }
      if (first.kind === 'refused') refuse('older long answers must end first')
      if (first.kind !== 'large') throw new Error(`bulk answers: unexpected ${first.kind}`)
      const large = largeAnswer(id, first)
      if (open <= STREAMS_MAX) return { large }
      await large.cancel()
      return refuse('too many long answers are under way; ask for fewer')
    },
    close: exchange.close,
  }
}
