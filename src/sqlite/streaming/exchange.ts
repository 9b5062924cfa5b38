/**
 * The messages between the server and the worker that finds and renders long answers, and their
 * exchange.
 */
import type { Rendered, Totals } from '../../api/answer.ts'
import type { Query } from '../../api/query.ts'
import { type ErrorMessage, startWorker, toError } from '../../lib/worker.ts'
import type { Matches } from '../../proxies/draw.ts'
import type { ProxyType } from '../../proxies/proxy.ts'
import type { Owner } from './turns.ts'

/** What the worker is started with. */
export type StreamSetup = { file: string; provider: string; walBound: WalBound }

/**
 * How far streams may keep the list's write-ahead log from being emptied: while it is larger than
 * `bytesMax`, streams older than `oldMs` are ended, and none begins while another is open.
 */
export type WalBound = { bytesMax: number; oldMs: number }
export const WAL_BOUND: WalBound = { bytesMax: 256 * 1024 * 1024, oldMs: 60_000 }

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
export type Task = WithoutId<Extract<Request, { kind: 'find' | 'match' | 'find-type' }>>
type WithoutId<M> = M extends unknown ? Omit<M, 'id'> : never

/**
 * Exchanges messages with the worker, which is started when it is first needed: one reply for each
 * message. Replies on a stream come in the order of its messages, so that a `cancel` does not get
 * the reply of a `pull` before it.
 */
export function createExchange(setup: StreamSetup) {
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
