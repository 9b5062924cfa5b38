/** Alerts (contract G3b): a POST when a reason for attention has held for a minute, and when it is over. */
import type { Clock } from '../lib/clock.ts'
import { codeOf } from '../lib/errors.ts'
import { formatInstant, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { type Attention, REASONS } from '../metrics/attention.ts'

const HOLDS_MS = MINUTE_MS
const TRIES = 3
const RETRY_MS = 10 * SECOND_MS
const ANSWER_MS_MAX = 10 * SECOND_MS

/** The body of an alert, in JSON. `site` is the name of the service; `at` is a UTC instant. */
export type Alert = {
  text: string
  reason: string
  state: 'begun' | 'over'
  site: string
  at: string
}

type AlertsOptions = {
  url: string
  site: string
  attention: () => Promise<readonly Attention[]>
  clock: Clock
  /** Resolves after so many milliseconds. */
  pause: (ms: number) => Promise<unknown>
  say: (sentence: string) => void
}

/** A sentence of `metrics/attention.ts` up to its first semicolon, which advice follows. */
const withoutAdvice = (sentence: string): string => sentence.split('; ', 1)[0] ?? ''

/** Call `tick` every few seconds. */
export function createAlerts({ url, site, attention, clock, pause, say }: AlertsOptions) {
  /** The reported sentences by reason, without advice. */
  const begun = new Map<string, string>()
  /** Since when a reason differs from its last report, Unix milliseconds. */
  const changedMs = new Map<string, number>()

  async function send(alert: Alert): Promise<void> {
    let failure = ''
    for (let n = 0; n < TRIES; n += 1) {
      if (n > 0) await pause(RETRY_MS)
      try {
        const { status } = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(alert),
          redirect: 'manual',
          signal: AbortSignal.timeout(ANSWER_MS_MAX),
        })
        if (status >= 200 && status < 300) return
        failure = `status ${status}`
      } catch (error) {
        failure = codeOf(error) || 'no answer'
      }
    }
    // Not the URL: it may hold a secret.
    say(`the alert ${alert.reason} (${alert.state}) was not taken by --alert-url: ${failure}`)
  }

  function report(reason: string, sentences: readonly string[], nowMs: number): void {
    const state = sentences.length === 0 ? 'over' : 'begun'
    const text = state === 'begun' ? sentences.join('; ') : `over: ${begun.get(reason) ?? reason}`
    if (state === 'begun') begun.set(reason, sentences.map(withoutAdvice).join('; '))
    else begun.delete(reason)
    void send({ text, reason, state, site, at: formatInstant(nowMs) })
  }

  return {
    async tick(): Promise<void> {
      const nowMs = clock()
      const found = await attention()
      for (const reason of REASONS) {
        const sentences = found.filter(each => each.reason === reason).map(each => each.sentence)
        if (sentences.length > 0 === begun.has(reason)) {
          changedMs.delete(reason)
          continue
        }
        const sinceMs = changedMs.get(reason) ?? nowMs
        changedMs.set(reason, sinceMs)
        if (nowMs - sinceMs >= HOLDS_MS) report(reason, sentences, nowMs)
      }
    },
  }
}
