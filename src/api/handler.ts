/**
 * Owns the one endpoint, `/api`: the steps of a request from top to bottom, in the order of
 * contract A2. Knows nothing of HTTP; every request ends with an `Outcome`.
 */
import type { Access } from '../access/access.ts'
import {
  entitlementsOf,
  hasNetworkQuota,
  isCountedByAddress,
  shareOf,
} from '../access/entitlements.ts'
import type { Caller } from '../access/key.ts'
import type { Decision, LimitStatus } from '../access/rate-limit.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import type { Answer } from './answer.ts'
import { ApiError, toApiError } from './errors.ts'
import type { Query, QueryReader } from './query.ts'
import { invalidKey, networkRefusal, rateLimitRefusal } from './refusals.ts'
import type { ResponseCache } from './response-cache.ts'
import type { AnswerStream } from './streaming.ts'

/** A request: its key, its query string, and where to find the client's address if it counts. */
export type ApiRequest = { key: string; queryString: string; ip: () => string; nowMs: number }

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

/** An admitted request, and the instants at which it counts. */
type Sent = {
  caller: Caller
  ip: string
  nowMs: number
  decision: Extract<Decision, { kind: 'admitted' }>
}
type Found = Answer | AnswerStream | null

/** Creates the handler of `/api`. */
export function createHandler({ access, readQuery, cache }: HandlerParts) {
  const consume = createConsumer(access)

  /**
   * Handles a request; returns what `reply` returns for its outcome, which is a refused one for
   * every failure. The usual request waits only for its admission, so it costs one promise: the
   * batch of admissions resolves it with what `reply` returns.
   */
  return function handle<T>(
    { key, queryString, ip: findIp, nowMs }: ApiRequest,
    reply: (outcome: Outcome) => Awaitable<T>,
  ): Awaitable<T> {
    let known = UNKNOWN
    /** The request if it was admitted and not given back. */
    let sent: Sent | null = null
    const fail = (cause: unknown): Awaitable<T> => {
      const outcome = refused(cause, known)
      if (sent === null || !isGivenBack(outcome.error)) return reply(outcome)
      const back = giveBack(access, sent)
      sent = null
      return back.then(limits => reply(limits === null ? outcome : { ...outcome, limits }))
    }
    try {
      const caller = access.authenticate(key, nowMs)
      if (caller === null) return fail(invalidKey(key))
      known = { keyId: caller.id, limits: [] }
      const ip = isCountedByAddress(caller) ? findIp() : ''

      const query = attempt(() => readQuery(queryString, key, entitlementsOf(caller)))
      if (query instanceof ApiError) {
        const failWith = (limits: readonly LimitStatus[]): Awaitable<T> => {
          known = { keyId: caller.id, limits }
          return fail(query)
        }
        return access.limits(caller, ip, nowMs).then(failWith).catch(fail)
      }

      const end = (answer: Found): Awaitable<T> => {
        if (answer === null) {
          const error = cache.notFound(query, nowMs)
          return error instanceof Promise ? error.then(fail).catch(fail) : fail(error)
        }
        const { keyId, limits } = known
        const replied = reply({ kind: 'answered', keyId, limits, query, answer })
        return replied instanceof Promise ? replied.catch(fail) : replied
      }
      const answer = (decision: Decision): Awaitable<T> => {
        const { limits } = decision
        known = { keyId: caller.id, limits }
        if (decision.kind === 'refused') return fail(rateLimitRefusal(caller, decision))
        sent = { caller, ip, nowMs, decision }
        const hasQuota = hasNetworkQuota(caller)
        const finding = cache.find(query, nowMs, hasQuota, () => shareOf(caller, ip))
        if (!hasQuota)
          return finding instanceof Promise ? finding.then(end).catch(fail) : end(finding)
        const addLimits = (more: readonly LimitStatus[]): void => {
          known = { keyId: caller.id, limits: [...limits, ...more] }
        }
        return consume(sent, finding, addLimits).then(end).catch(fail)
      }
      return access.admit(caller, ip, nowMs, answer, fail)
    } catch (thrown) {
      return fail(thrown)
    }
  }
}

/** Returns a function that consumes the network quotas of what was found, if anything was. */
function createConsumer(access: Access) {
  /**
   * Calls `addLimits` with the status of the quotas.
   * @throws ApiError SUBNET_LIMIT_REACHED; a stream is cancelled.
   */
  return async function consume(
    { caller, ip, nowMs, decision: { atMs } }: Sent,
    finding: Awaitable<Found>,
    addLimits: (limits: readonly LimitStatus[]) => void,
  ): Promise<Found> {
    const found = await finding
    if (found === null) return null
    try {
      const decision = await access.consume(caller, { ip, nowMs, atMs, subnets: subnetsOf(found) })
      addLimits(decision.limits)
      if (decision.kind === 'refused') throw networkRefusal(decision)
      return found
    } catch (thrown) {
      if (found.kind === 'stream') await found.cancel()
      throw thrown
    }
  }
}

/** Gives a request back; returns the status of its limits then, `null` when that has failed. */
async function giveBack(access: Access, { caller, ip, nowMs, decision }: Sent) {
  try {
    await access.giveBack(caller, ip, decision.instants)
    return await access.limits(caller, ip, nowMs)
  } catch {
    return null // it is tried again
  }
}

/**
 * Whether a request that was admitted is given back for this error (contract A2, B9): for failures
 * of ours, and for a long answer that did not get its turn.
 */
const isGivenBack = ({ status, code }: ApiError): boolean =>
  status >= 500 || code === 'RATE_LIMIT_EXCEEDED'

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
