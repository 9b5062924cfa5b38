/**
 * How many requests of keys limits refused in the last hour: counted in memory, of this process, as plain
 * numbers, a look-up for each request.
 */
import { MINUTE_MS } from '../lib/time.ts'
import type { AnswerUse } from './history.ts'
import { DEMO_KEY } from './key.ts'

/** Requests of a key, and those of them that a limit refused (429). */
export type KeyShare = { id: string; requests: number; refused: number }

/** An hour is the present span and those before it: up to 15 minutes more than an hour. */
const SPAN_MS = 15 * MINUTE_MS
const SPANS = 5

export type KeyWatch = ReturnType<typeof createKeyWatch>

export function createKeyWatch() {
  type Span = { at: number; shares: Map<string, KeyShare> }
  let spans: Span[] = []

  const within = (nowMs: number): Span[] => {
    const at = Math.floor(nowMs / SPAN_MS)
    return spans.filter(span => span.at <= at && span.at > at - SPANS) // the clock may step back
  }

  return {
    /** Counts a request whose reply is ready; `demo` is nobody's key. */
    note({ keyId: id, refused, nowMs }: AnswerUse): void {
      if (id === DEMO_KEY) return
      const at = Math.floor(nowMs / SPAN_MS)
      let span = spans.at(-1)
      if (span?.at !== at) {
        span = { at, shares: new Map() }
        spans = [...within(nowMs), span]
      }
      const share = span.shares.get(id) ?? { id, requests: 0, refused: 0 }
      share.requests += 1
      share.refused += refused
      span.shares.set(id, share)
    },

    /** The keys that a limit has refused, the most often refused first. */
    refused(nowMs: number): KeyShare[] {
      const sums = new Map<string, KeyShare>()
      const shares = within(nowMs).flatMap(span => [...span.shares.values()])
      for (const { id, requests, refused } of shares) {
        const sum = sums.get(id) ?? { id, requests: 0, refused: 0 }
        sum.requests += requests
        sum.refused += refused
        sums.set(id, sum)
      }
      return [...sums.values()].filter(sum => sum.refused > 0).sort((a, b) => b.refused - a.refused)
    },
  }
}
