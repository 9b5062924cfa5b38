/**
 * Owns the server's side of bulk answers: starts their thread when it is first needed, and turns
 * its messages into answers and streams. Pieces are asked for one by one, as fast as the client
 * takes them, so a long answer takes the memory of a piece or two.
 */
import type { BulkAnswers, LargeAnswer, SmallAnswer } from './answers.ts'
import type { Question } from './question.ts'

/** What the thread works with from its start. */
export type BulkSetUp = { file: string; provider: string }

export type ToThread =
  | { kind: 'ask'; id: number; question: Question; nowMs: number; needsTotals: boolean }
  /** Asks for the next piece of an answer; `cancel` for none any more. */
  | { kind: 'pull' | 'cancel'; id: number }

export type FromThread =
  /** A whole answer that took long to find; no pieces when nothing matches. */
  | { kind: 'small'; id: number; small: SmallAnswer }
  /** A long answer begins; totals are 0 and empty unless they were needed. */
  | { kind: 'large'; id: number; records: number; subnets: readonly number[] }
  | { kind: 'piece'; id: number; bytes: Uint8Array<ArrayBuffer> }
  | { kind: 'end'; id: number; records: number }
  | { kind: 'failed'; id: number; name: string; message: string }

/** Bulk answers under way at once; further ones wait for their turn. */
const ANSWERS_MAX = 32

type Waiting = { resolve: (message: FromThread) => void; reject: (error: Error) => void }

/** An error of the thread, as the error it was. */
const revived = ({ name, message }: { name: string; message: string }): Error =>
  Object.assign(new Error(message), { name })

/** Exchanges messages with the thread: one reply for each message. */
function createExchange(setUp: BulkSetUp) {
  const waiting = new Map<number, Waiting>()
  let worker: Worker | null = null

  function start(): Worker {
    const fresh = new Worker(new URL('./bulk-thread.ts', import.meta.url))
    fresh.onmessage = ({ data }: MessageEvent<FromThread>) => {
      const waiter = waiting.get(data.id)
      waiting.delete(data.id)
      if (data.kind === 'failed') waiter?.reject(revived(data))
      else waiter?.resolve(data)
    }
    fresh.onerror = ({ message }) => {
      worker = null
      for (const { reject } of waiting.values()) reject(new Error(`bulk answers: ${message}`))
      waiting.clear()
    }
    fresh.unref()
    fresh.postMessage(setUp)
    return fresh
  }

  return {
    send(message: ToThread): Promise<FromThread> {
      worker ??= start()
      worker.postMessage(message)
      return new Promise((resolve, reject) => waiting.set(message.id, { resolve, reject }))
    },
    close(): void {
      worker?.terminate()
      worker = null
    },
  }
}

/** Lets at most `most` hold a place at once; the others wait in order. */
function createPlaces(most: number) {
  let taken = 0
  const queue: (() => void)[] = []
  return {
    async take(): Promise<void> {
      if (taken >= most) await new Promise<void>(resolve => queue.push(resolve))
      else taken += 1
    },
    give(): void {
      const next = queue.shift()
      if (next) next()
      else taken -= 1
    },
  }
}

/** Bulk answers from the list in `file`; `failed` is told of one that broke off on its way. */
export function createBulk(
  setUp: BulkSetUp,
  failed: (error: unknown) => void,
): BulkAnswers & { close(): void } {
  const exchange = createExchange(setUp)
  const places = createPlaces(ANSWERS_MAX)
  let lastId = 0

  function largeAnswer(id: number, totals: Pick<LargeAnswer, 'records' | 'subnets'>): LargeAnswer {
    let isOver = false
    const finish = (): void => {
      if (!isOver) places.give()
      isOver = true
    }
    const cancel = async (): Promise<void> => {
      if (isOver) return
      finish()
      await exchange.send({ kind: 'cancel', id })
    }
    const open: LargeAnswer['open'] = ended => {
      let bytes = 0
      const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
        const message = await exchange.send({ kind: 'pull', id }).catch((error: unknown) => {
          finish()
          failed(error)
          ended({ records: 0, bytes })
          throw error
        })
        if (message.kind === 'piece') {
          bytes += message.bytes.length
          controller.enqueue(message.bytes)
        } else if (message.kind === 'end') {
          finish()
          ended({ records: message.records, bytes })
          controller.close()
        }
      }
      const abandon = async (): Promise<void> => {
        ended({ records: 0, bytes })
        await cancel()
      }
      return new ReadableStream({ pull, cancel: abandon }, { highWaterMark: 0 })
    }
    return { ...totals, open, cancel }
  }

  return {
    async ask(question: Question, nowMs: number, needsTotals: boolean) {
      await places.take()
      const id = ++lastId
      try {
        const first = await exchange.send({ kind: 'ask', id, question, nowMs, needsTotals })
        if (first.kind === 'large') return { large: largeAnswer(id, first) }
        if (first.kind !== 'small') throw new Error(`bulk answers: unexpected ${first.kind}`)
        places.give()
        return { small: first.small }
      } catch (error) {
        places.give()
        throw error
      }
    },
    close: exchange.close,
  }
}
