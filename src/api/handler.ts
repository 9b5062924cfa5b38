/**
 * Owns the one endpoint, `/api`: the steps of a request from top to bottom, in the order of
 * contract A2. Every refusal ends it by throwing an `ApiError`.
 */
import { type Access, refusalOf, termsOf } from '../access/access.ts'
import type { Gauge } from '../access/rate-limit.ts'
import { ApiError } from './errors.ts'
import { createQuestions, type Question } from './query.ts'
import type { Answer, Answers, LargeAnswer } from './response-cache.ts'

/** What a request left behind, also when it was refused: for headers and the access log. */
export type Trace = { keyId: string | null; gauges: readonly Gauge[]; records: number }

/** A request as the endpoint sees it. */
export type ApiRequest = { url: string; authorization: string | null; ip: string; nowMs: number }

export type ApiParts = {
  access: Access
  answers: Answers
  /** What the provider's own service is called on the wire. */
  provider: string
}

export function createApi({ access, answers, provider }: ApiParts) {
  const read = createQuestions(provider)

  return async function answer(
    { url, authorization, ip, nowMs }: ApiRequest,
    trace: Trace,
  ): Promise<{ question: Question; answer: Answer | LargeAnswer }> {
    const { key, ask } = read(url, authorization)
    const caller = access.authenticate(key, nowMs)
    trace.keyId = caller.id

    let question: Question
    try {
      question = ask(termsOf(caller))
    } catch (refusal) {
      trace.gauges = access.gauges(caller, ip, nowMs)
      throw refusal
    }

    const verdict = await access.admit(caller, ip, nowMs)
    trace.gauges = verdict.gauges
    if (verdict.refused) throw refusalOf(caller, verdict)

    const isCharged = access.countsNetworks(caller)
    const found = await answers.find(question, nowMs, isCharged)
    if (found === null) throw new ApiError('PROXIES_NOT_FOUND', 'no proxies match the filters')

    if (isCharged) {
      const { subnets } = found
      await access.charge({ caller, ip, subnets, verdict }, nowMs).catch(async refusal => {
        if ('cancel' in found) await found.cancel()
        throw refusal
      })
    }
    trace.records = found.records
    return { question, answer: found }
  }
}
