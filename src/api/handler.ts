/**
 * The one endpoint, `/api`: the steps of a request from top to bottom, in the order of
 * contract A2. Knows nothing of HTTP; every request ends with an `Outcome`.
 */
import type { Access } from '../access/access.ts'
import {
  type Entitlements,
  entitlementsOf,
  hasNetworkQuota,
  isCountedByAddress,
  tenantOf,
} from '../access/entitlements.ts'
import type { Caller } from '../access/key.ts'
import type { Decision, LimitStatus } from '../access/rate-limit.ts'
import type { Waits } from '../access/store-timeout.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { StoreError } from '../lib/errors.ts'
import type { Answer, AnswerStream } from './answer.ts'
import { ApiError, invalidKey, networkRefusal, rateLimitRefusal, toApiError } from './errors.ts'
import type { Query, QueryReader } from './query.ts'
import type { ResponseCache } from './response-cache.ts'

/** A request: its key, its query string, and where to find the client's address if it counts. */
type ApiRequest = { key: string; queryString: string; ip: () => string; nowMs: number }

/** The public id of the key and the status of its limits, as far as they are known. */
type Known = { keyId: string | null; limits: readonly LimitStatus[] }

type Answered = Known & { kind: 'answered'; query: Query; answer: Answer | AnswerStream }
/** `cause`: what was thrown, for the operator. */
export type Refused = Known & { kind: 'refused'; error: ApiError; cause: unknown }
export type Outcome = Answered | Refused

/** The outcome of a request that failed with `cause`; `known`: of its key. */
export const refused = (cause: unknown, { keyId, limits }: Known = UNKNOWN): Refused => {
  return { kind: 'refused', keyId, limits, error: toApiError(cause), cause }
}
const UNKNOWN: Known = { keyId: null, limits: [] }

export type Handler = ReturnType<typeof createHandler>
/** Admitted requests by kind of key, and those of them that were given back. */
export type AdmissionCounts = { [kind in Caller['kind']]: number } & { givenBack: number }
export const createAdmissionCounts = (): AdmissionCounts => {
  return { regular: 0, temp: 0, demo: 0, givenBack: 0 }
}

type HandlerParts = {
  access: Access
  readQuery: QueryReader
  cache: ResponseCache
  clock: Clock
  /** Counted here, for the metrics. */
  admissions: AdmissionCounts
}

/** An admitted request, and the instants at which it counts. */
type AdmittedRequest = {
  caller: Caller
  ip: string
  nowMs: number
  decision: Extract<Decision, { kind: 'admitted' }>
}
type Found = Answer | AnswerStream | null
type LaterLimits = Promise<readonly LimitStatus[] | null>

/** How far a request has come. */
type Progress = Waits & {
  known: Known
  /** The request if it was admitted and not given back. */
  sent: AdmittedRequest | null
  /** The caller whose network quotas are missing in `known`. */
  missing: Caller | null
}

export function createHandler({ access, readQuery, cache, clock, admissions }: HandlerParts) {
  const { timeout } = access

  /**
   * Handles a request; returns what `reply` returns for its outcome, refused for every failure. The usual
   * request costs one promise, that of its admission: the batch resolves it with what `reply` returns.
   */
  return function handle<T>(
    { key, queryString, ip: findIp, nowMs }: ApiRequest,
    reply: (outcome: Outcome) => Awaitable<T>,
  ): Awaitable<T> {
    const progress: Progress = { known: UNKNOWN, sent: null, missing: null, waitedMs: 0 }
    const fail = (cause: unknown): Awaitable<T> => {
      const outcome = refused(cause, progress.known)
      const after = limitsAfter(progress, outcome.error, nowMs)
      if (after === null) return reply(outcome)
      return after.then(limits => reply(limits === null ? outcome : { ...outcome, limits }))
    }
    try {
      const caller = access.find(key, nowMs)?.caller
      if (caller === undefined) return fail(invalidKey(key))
      progress.known = { keyId: caller.id, limits: [] }
      const ip = isCountedByAddress(caller) ? findIp() : ''

      const query = orApiError(() => readQuery(queryString, key, entitlementsOf(caller)))
      if (query instanceof ApiError) {
        const failWith = (limits: readonly LimitStatus[]): Awaitable<T> => {
          progress.known = { keyId: caller.id, limits }
          return fail(query)
        }
        const limits = timeout.within(progress, access.limits(caller, ip, nowMs))
        return limits.catch(noLimits).then(failWith).catch(fail)
      }

      const askedMs = timeout.begin()
      const find = (decision: Decision): Awaitable<T> => {
        progress.waitedMs = timeout.since(askedMs)
        progress.known = { keyId: caller.id, limits: decision.limits }
        const hasQuota = hasNetworkQuota(caller)
        if (hasQuota) progress.missing = caller
        if (decision.kind === 'refused') return fail(rateLimitRefusal(caller, decision))
        admissions[caller.kind] += 1
        progress.sent = { caller, ip, nowMs, decision }
        const finding = cache.find(query, nowMs, hasQuota, () => tenantOf(caller, ip))
        if (hasQuota) return consume(progress, progress.sent, finding).then(replyWith).catch(fail)
        return finding instanceof Promise ? finding.then(replyWith).catch(fail) : replyWith(finding)
      }
      const replyWith = (answer: Found): Awaitable<T> => {
        if (answer === null) return fail(cache.notFound(query, nowMs))
        const { keyId, limits } = progress.known
        const replied = reply({ kind: 'answered', keyId, limits, query, answer })
        return replied instanceof Promise ? replied.catch(fail) : replied
      }
      return access.admit(caller, ip, nowMs, find, fail)
    } catch (thrown) {
      const isOfKeys = thrown instanceof StoreError && progress.known.keyId === null
      return fail(isOfKeys ? malformedOr(thrown, queryString, key) : thrown)
    }
  }

  /** Keys cannot be read: what is wrong with the query string, if anything (contract I3), else that failure. */
  function malformedOr(failure: StoreError, queryString: string, key: string): unknown {
    const query = orApiError(() => readQuery(queryString, key, ANYONE))
    return query instanceof ApiError ? query : failure
  }

  /**
   * Consumes the network quotas of what was found, if anything was.
   * @throws ApiError SUBNET_LIMIT_REACHED; a stream is cancelled.
   */
  async function consume(
    progress: Progress,
    { caller, ip, nowMs, decision: { atMs } }: AdmittedRequest,
    finding: Awaitable<Found>,
  ): Promise<Found> {
    const found = await finding
    if (found === null) return null
    try {
      const served = { ip, nowMs, atMs, subnets: subnetsOf(found) }
      const decision = await timeout.within(progress, access.consume(caller, served))
      progress.known = withLimits(progress.known, decision.limits)
      progress.missing = null
      if (decision.kind === 'refused') throw networkRefusal(decision)
      return found
    } catch (thrown) {
      if (found.kind === 'stream') await found.cancel()
      throw thrown
    }
  }

  /**
   * The limits of a request that is refused for `error`, and given back for some errors: `null` when `known`
   * has them already. Resolves to `null` while the store fails, which gives it back later.
   */
  function limitsAfter(progress: Progress, error: ApiError, nowMs: number): LaterLimits | null {
    const { sent, missing, known } = progress
    progress.missing = null
    // Given back (A2, B9) are our failures, and long answers without a turn.
    if (sent !== null && (error.status >= 500 || error.code === 'RATE_LIMIT_EXCEEDED')) {
      progress.sent = null
      return timeout.within(progress, refund(sent)).catch(() => null)
    }
    if (missing === null) return null
    return timeout.within(progress, access.networkLimits(missing, nowMs)).then(
      more => withLimits(known, more).limits,
      () => null,
    )
  }

  /** Gives a request back; returns the status of its limits then. */
  async function refund({
    caller,
    ip,
    decision,
  }: AdmittedRequest): Promise<readonly LimitStatus[]> {
    admissions.givenBack += 1
    await access.refund(caller, ip, decision.instants)
    return access.limits(caller, ip, clock()) // it may have waited long
  }
}

/** No limits, where the store fails while a malformed request is refused. */
function noLimits(thrown: unknown): readonly LimitStatus[] {
  if (thrown instanceof StoreError) return []
  throw thrown
}

/** The entitlements by which a query string is read whose key is not known. */
const ANYONE: Entitlements = {
  countMax: null,
  worksDefault: null,
  addressBits: 16,
  downloads: null,
}

const withLimits = ({ keyId, limits }: Known, more: readonly LimitStatus[]): Known => {
  return { keyId, limits: [...limits, ...more] }
}

function orApiError<T>(work: () => T): T | ApiError {
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
