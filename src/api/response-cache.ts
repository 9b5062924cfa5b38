/**
 * Owns answers kept in memory, and how long each stays exactly right. With the list unchanged an
 * answer changes only when a row in it grows older than the filter allows, or when the clock
 * steps back to where a row left out was young enough. So there is no time to live to tune.
 */
import { subnetOf } from '../lib/ip.ts'
import { createLru } from '../lib/lru.ts'
import { formatInstant, toSeconds } from '../lib/time.ts'
import type { Filter, Output, Proxy } from '../proxies/proxy.ts'
import type { Question } from './query.ts'
import { createWriters, maskProxy, renderPieces } from './render.ts'

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

/** An answer too long to be held: it is sent while it is found. */
export type LargeAnswer = {
  /** Known only when they were needed; else 0 and empty. */
  records: number
  subnets: readonly number[]
  /** Opens the body; `ended` is told what was sent, once, when it ends or is given up. */
  open: (ended: (sent: { records: number; bytes: number }) => void) => ReadableStream<Uint8Array>
  /** Gives up a body that was never opened. */
  cancel: () => Promise<void>
}

/** What finds answers that would hold everybody up. */
export type BulkAnswers = {
  ask: (
    question: Question,
    nowMs: number,
    needsTotals: boolean,
  ) => Promise<{ small: SmallAnswer } | { large: LargeAnswer }>
}

/** An answer as it was written, and the oldest check in it (Unix seconds). */
export type SmallAnswer = Pick<Answer, 'records' | 'subnets' | 'pieces'> & { oldest: number }

type Kept = {
  /** `slow`: it cannot be found quickly while the list stays as it is. */
  answer: Answer | 'slow' | null
  listVersion: number
  /** Unix seconds between which the answer is right, both included. */
  fromSeconds: number
  toSeconds: number
}

export type AnswerParts = {
  /** The proxies that match, or `null` when finding them would hold everybody up. */
  select: (
    filter: Filter,
    masked: boolean,
    nowMs: number,
    detail: 'all' | 'address',
  ) => Proxy[] | null
  /** Asked when `select` gives `null`. */
  bulk?: BulkAnswers
  /** A number that changes with the list. */
  listVersion: () => number
  provider: string
  /** Most bytes kept; 0 keeps nothing. */
  bytesMax: number
}

/** What keeping an answer costs beside its bytes. */
const OVERHEAD_BYTES = 1024

const weightOf = ({ answer }: Kept): number => {
  if (answer === null || answer === 'slow') return OVERHEAD_BYTES
  const bodies = [...answer.pieces, ...answer.compressed.values()]
  return bodies.reduce(
    (sum, { length }) => sum + length,
    OVERHEAD_BYTES + answer.subnets.length * 8,
  )
}

const encoder = new TextEncoder()

/** How much of each proxy an answer shows: bare addresses need no more than the type. */
export const detailOf = ({ kind }: Output): 'all' | 'address' =>
  kind === 'txt' ? 'address' : 'all'

/** Writes the proxies that answer a question, as they are to be shown. */
export function writeAnswer(
  writerOf: ReturnType<typeof createWriters>,
  { filter, output }: Question,
  shown: readonly Proxy[],
): SmallAnswer {
  const writer = writerOf(filter, output, shown.length)
  return {
    records: shown.length,
    subnets: [...new Set(shown.map(({ ip }) => subnetOf(ip)))],
    pieces: renderPieces(writer, shown).map(piece => encoder.encode(piece)),
    oldest: shown.reduce((least, { checkedAt }) => Math.min(least, checkedAt), Infinity),
  }
}

const answerOf = (found: SmallAnswer): Answer | null =>
  found.records === 0 ? null : { ...found, compressed: new Map() }

/** Keeps answers, and says which questions are slow while the list stays as it is. */
function createShelf(bytesMax: number, listVersion: () => number) {
  const kept = createLru<string, Kept>(bytesMax, { weightOf })
  return {
    /** What is kept and right at `nowMs`. */
    find({ id }: Question, nowMs: number): Kept['answer'] | undefined {
      const found = kept.get(id)
      const now = toSeconds(nowMs)
      const isRight =
        found?.listVersion === listVersion() && found.fromSeconds <= now && now <= found.toSeconds
      return isRight ? found.answer : undefined
    },
    /** Keeps an answer of the list's `version` for as long as it is right. */
    keep({ id, filter }: Question, nowMs: number, version: number, found: SmallAnswer) {
      const answer = answerOf(found)
      const until = found.oldest + filter.ageMaxSeconds
      kept.set(id, {
        answer,
        listVersion: version,
        fromSeconds: toSeconds(nowMs),
        toSeconds: until,
      })
      return answer
    },
    markSlow({ id }: Question): void {
      const always = { fromSeconds: -Infinity, toSeconds: Infinity }
      kept.set(id, { answer: 'slow', listVersion: listVersion(), ...always })
    },
    /** Keeps a compressed body with its answer. */
    keepCompressed({ id }: Question, answer: Answer, encoding: Encoding, body: Uint8Array): void {
      const found = kept.get(id)
      if (found?.answer !== answer) return
      kept.delete(id)
      answer.compressed.set(encoding, body)
      kept.set(id, found)
    },
  }
}

export function createAnswers({ select, bulk, listVersion, provider, bytesMax }: AnswerParts) {
  const writerOf = createWriters(provider)
  const shelf = createShelf(bytesMax, listVersion)

  async function ask(question: Question, nowMs: number, needsSubnets: boolean) {
    const version = listVersion()
    const found = await bulk?.ask(question, nowMs, needsSubnets || question.output.wrap)
    if (found === undefined) throw new Error('a slow question, and nobody to ask')
    if ('large' in found) return found.large
    // The thread may have seen a newer list than `version`: then it is not kept.
    if (version !== listVersion()) return answerOf(found.small)
    return shelf.keep(question, nowMs, version, found.small)
  }

  return {
    /**
     * The answer to a question at `nowMs`; `null` when no proxy matches. At once when it is kept
     * or quickly found, else a promise. A long answer knows its subnets only when asked to.
     */
    find(
      question: Question,
      nowMs: number,
      needsSubnets = true,
    ): Answer | null | Promise<Answer | LargeAnswer | null> {
      const kept = shelf.find(question, nowMs)
      if (kept === 'slow') return ask(question, nowMs, needsSubnets)
      if (kept !== undefined) return kept
      const version = listVersion()
      const { filter, masked, output } = question
      const proxies = select(filter, masked, nowMs, detailOf(output))
      if (proxies === null) {
        shelf.markSlow(question)
        return ask(question, nowMs, needsSubnets)
      }
      const shown = masked ? proxies.map(maskProxy) : proxies
      return shelf.keep(question, nowMs, version, writeAnswer(writerOf, question, shown))
    },
    keepCompressed: shelf.keepCompressed,
  }
}

export type Answers = ReturnType<typeof createAnswers>

/** The body of an answer at `nowMs`. */
export function bodyOf({ pieces }: Answer, nowMs: number): Uint8Array {
  const [first, second] = pieces
  if (second === undefined) return first ?? new Uint8Array()
  return Buffer.concat([first ?? '', formatInstant(nowMs), second].map(part => Buffer.from(part)))
}
