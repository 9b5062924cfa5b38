/**
 * Owns answers kept in memory, and how long each stays exactly right. With the list unchanged an
 * answer changes only when a row in it grows older than the filter allows, or when the clock
 * steps back to where a row left out was young enough. So there is no time to live to tune.
 */
import { subnetOf } from './ip.ts'
import { createLru } from './lru.ts'
import type { Filter, Proxy } from './proxy.ts'
import type { Question } from './question.ts'
import { createWriters, maskProxy, renderPieces } from './render.ts'
import { formatInstant, toSeconds } from './time.ts'

export type Encoding = 'zstd' | 'gzip'

/** One answer, ready to be sent. */
export type Answer = {
  records: number
  /** The /16 networks shown. */
  subnets: readonly number[]
  /** The body; two pieces have the time of the response between them (the envelope's). */
  pieces: readonly Uint8Array[]
  /** Compressed bodies that were asked for; never of a body that holds the time. */
  compressed: Map<Encoding, Uint8Array>
}

type Kept = {
  answer: Answer | null
  listVersion: number
  /** Unix seconds between which the answer is right, both included. */
  fromSeconds: number
  toSeconds: number
}

export type AnswerParts = {
  select: (filter: Filter, masked: boolean, nowMs: number) => Proxy[]
  /** A number that changes with the list. */
  listVersion: () => number
  provider: string
  /** Most bytes kept; 0 keeps nothing. */
  bytesMax: number
}

/** What keeping an answer costs beside its bytes. */
const OVERHEAD_BYTES = 1024

const weightOf = ({ answer }: Kept): number => {
  if (answer === null) return OVERHEAD_BYTES
  const bodies = [...answer.pieces, ...answer.compressed.values()]
  return bodies.reduce(
    (sum, { length }) => sum + length,
    OVERHEAD_BYTES + answer.subnets.length * 8,
  )
}

export function createAnswers({ select, listVersion, provider, bytesMax }: AnswerParts) {
  const writerOf = createWriters(provider)
  const kept = createLru<string, Kept>(bytesMax, weightOf)
  const encoder = new TextEncoder()

  function work({ filter, output, masked }: Question, nowMs: number): Kept {
    const version = listVersion()
    const proxies = select(filter, masked, nowMs)
    const oldest = proxies.reduce((least, { checkedAt }) => Math.min(least, checkedAt), Infinity)
    const shown = masked ? proxies.map(maskProxy) : proxies
    const writer = writerOf(filter, output, shown.length)
    const answer: Answer = {
      records: shown.length,
      subnets: [...new Set(shown.map(({ ip }) => subnetOf(ip)))],
      pieces: renderPieces(writer, shown).map(piece => encoder.encode(piece)),
      compressed: new Map(),
    }
    return {
      answer: proxies.length === 0 ? null : answer,
      listVersion: version,
      fromSeconds: toSeconds(nowMs),
      toSeconds: oldest + filter.ageMaxSeconds,
    }
  }

  return {
    /** The answer to a question at `nowMs`; `null` when no proxy matches. */
    find(question: Question, nowMs: number): Answer | null {
      const now = toSeconds(nowMs)
      const found = kept.get(question.id)
      if (
        found?.listVersion === listVersion() &&
        found.fromSeconds <= now &&
        now <= found.toSeconds
      ) {
        return found.answer
      }
      const fresh = work(question, nowMs)
      kept.set(question.id, fresh)
      return fresh.answer
    },

    /** Keeps a compressed body with its answer. */
    keep(question: Question, answer: Answer, encoding: Encoding, body: Uint8Array): void {
      const found = kept.get(question.id)
      if (found?.answer !== answer) return
      kept.delete(question.id)
      answer.compressed.set(encoding, body)
      kept.set(question.id, found)
    },
  }
}

export type Answers = ReturnType<typeof createAnswers>

/** The body of an answer at `nowMs`. */
export function bodyOf({ pieces }: Answer, nowMs: number): Uint8Array {
  const [first, second] = pieces
  if (second === undefined) return first ?? new Uint8Array()
  return Buffer.concat([first ?? '', formatInstant(nowMs), second].map(part => Buffer.from(part)))
}
