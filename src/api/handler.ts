/**
 * Owns the one endpoint, `/api`: the steps of a request from top to bottom, in the order of
 * contract A2. Knows nothing of HTTP; every request ends with an `Outcome`.
 */
import type { Access } from '../access/access.ts'
import { entitlementsOf, hasNetworkQuota } from '../access/entitlements.ts'
import type { Caller } from '../access/key.ts'
import type { LimitStatus } from '../access/rate-limit.ts'
import type { Answer } from './answer.ts'
import { ApiError, toApiError } from './errors.ts'
import type { Query, QueryReader } from './query.ts'
import { invalidKey, networkRefusal, rateLimitRefusal } from './refusals.ts'
import type { ResponseCache } from './response-cache.ts'
import type { AnswerStream } from './streaming.ts'

/** A request: its key, its query string, and the client's address. */
export type ApiRequest = { key: string; queryString: string; ip: string; nowMs: number }

/** The public id of the key and the status of its limits, as far as they are known. */
type Known = { keyId: string | null; limits: readonly LimitStatus[] }

export type Answered = Known & { kind: 'answered'; query: Query; answer: Answer | AnswerStream }
/** `cause`: what was thrown, for the operator. */
export type Refused = Known & { kind: 'refused'; error: ApiError; cause: unknown }
export type Outcome = Answered | Refused

/** The outcome of a request that failed with `cause`; `known`: of its key. */
export const refused = (cause: unknown, { keyId, limits }: Known = UNKNOWN): Refused => ({
  kind: 'refused',
  keyId,
  limits,
  error: toApiError(cause),
  cause,
})
const UNKNOWN: Known = { keyId: null, limits: [] }

export type Handler = ReturnType<typeof createHandler>
export type HandlerParts = { access: Access; readQuery: QueryReader; cache: ResponseCache }

/** Creates the handler of `/api`. It never rejects: every failure becomes a refused outcome. */
export function createHandler({ access, readQuery, cache }: HandlerParts) {
  return async function handle(request: ApiRequest): Promise<Outcome> {
    const { key, queryString, ip, nowMs } = request
    let known = UNKNOWN
    try {
      const caller = access.authenticate(key, nowMs)
      if (caller === null) return refused(invalidKey(key))
      known = { keyId: caller.id, limits: [] }

      const query = attempt(() => readQuery(queryString, key, entitlementsOf(caller)))
      if (query instanceof ApiError) {
        const limits = await access.limits(caller, ip, nowMs)
        return refused(query, { keyId: caller.id, limits })
      }

      const decision = await access.admit(caller, ip, nowMs)
      known = { keyId: caller.id, limits: decision.limits }
      if (decision.kind === 'refused') return refused(rateLimitRefusal(caller, decision), known)

      const needsSubnets = hasNetworkQuota(caller)
      const answer = await cache.find(query, nowMs, needsSubnets)
      if (answer === null) return refused(notFound(), known)
      if (needsSubnets) await consume(caller, answer, { ip, nowMs, atMs: decision.atMs })

      return { kind: 'answered', keyId: caller.id, limits: decision.limits, query, answer }
    } catch (thrown) {
      return refused(thrown, known)
    }
  }

  /** Consumes the network quotas. @throws ApiError SUBNET_LIMIT_REACHED; a stream is cancelled. */
  async function consume(
    caller: Caller,
    answer: Answer | AnswerStream,
    at: { ip: string; nowMs: number; atMs: number },
  ): Promise<void> {
    try {
      const decision = await access.consume(caller, { ...at, subnets: subnetsOf(answer) })
      if (decision.kind === 'refused') throw networkRefusal(decision)
    } catch (thrown) {
      if (answer.kind === 'stream') await answer.cancel()
      throw thrown
    }
  }
}

const notFound = (): ApiError => new ApiError('PROXIES_NOT_FOUND', 'no proxies match the filters')

/** What `work` returns, or the `ApiError` that it throws. */
function attempt<T>(work: () => T): T | ApiError {
  try {
    return work()
  } catch (thrown) {
    if (thrown instanceof ApiError) return thrown
    throw thrown
  }
}

function subnetsOf(answer: Answer | AnswerStream): readonly number[] {
  const totals = answer.kind === 'stream' ? answer.totals : answer
  if (totals === null) throw new Error('a stream lacks the totals it was asked for')
  return totals.subnets
}
