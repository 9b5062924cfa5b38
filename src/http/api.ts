/** GET and HEAD /api from top to bottom, in the order of contract A2. */
import type { Access } from '../access/access.ts'
import {
  type Entitlements,
  entitlementsOf,
  hasNetworkQuota,
  isCountedByAddress,
  tenantOf,
} from '../access/entitlements.ts'
import type { Caller } from '../access/key.ts'
import type { Decision } from '../access/rate-limit.ts'
import { type Answer, type AnswerStream, bodyLength, bodyOf, type Sent } from '../api/answer.ts'
import {
  type ApiError,
  invalidKey,
  networkRefusal,
  rateLimitRefusal,
  toApiError,
} from '../api/errors.ts'
import type { Query, QueryReader } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import type { Clock } from '../lib/clock.ts'
import { COMPRESS_MIN_BYTES, chooseEncoding } from '../lib/encoding.ts'
import { StoreError } from '../lib/errors.ts'
import { compressStream, createCompressor } from './compression.ts'
import { readCredentials } from './credentials.ts'
import {
  bodyHeaders,
  type Coding,
  type IpOf,
  type Reply,
  type RequestContext,
  type Route,
} from './reply.ts'

/** Admitted requests by kind of key, and those that were refunded. */
export type AdmissionCounts = { [kind in Caller['kind']]: number } & { refunded: number }

export type ApiRouteParts = {
  access: Access
  readQuery: QueryReader
  cache: ResponseCache
  clock: Clock
  /** Counted here, for the metrics. */
  admissions: AdmissionCounts
  ipOf: IpOf
}

type Admitted = Extract<Decision, { kind: 'admitted' }>

export function apiRoute(parts: ApiRouteParts): Route {
  const { access, readQuery, cache, clock, admissions, ipOf } = parts
  const compress = createCompressor(cache)

  return async r => {
    const { key, queryString } = readCredentials(r.request.url, r.request.headers)
    const caller = findCaller(key, queryString, r.nowMs)
    if (caller === null) return invalidKey(key)
    r.keyId = caller.id
    const ip = isCountedByAddress(caller) ? ipOf(r) : ''
    let admitted: Admitted | null = null
    let stream: AnswerStream | null = null
    try {
      const query = readQuery(queryString, key, entitlementsOf(caller))
      const decision = await access.admit(r, caller, ip, r.nowMs)
      r.limits = decision.limits
      if (decision.kind === 'refused') return rateLimitRefusal(caller, decision)
      admitted = decision
      admissions[caller.kind] += 1

      const hasQuota = hasNetworkQuota(caller)
      const finding = cache.find(query, r.nowMs, hasQuota, () => tenantOf(caller, ip))
      const found = finding instanceof Promise ? await finding : finding
      if (found === null) return cache.notFound(query, r.nowMs)
      if (found.kind === 'stream') stream = found
      if (hasQuota) {
        const served = { ip, nowMs: r.nowMs, atMs: admitted.atMs, subnets: subnetsOf(found) }
        const consumed = await access.consume(r, caller, served)
        if (consumed.kind === 'refused') return networkRefusal(consumed)
      }
      if (found.kind === 'stream') {
        if (!r.isHead) stream = null // its reader ends it
        return streamReply(r, key, query, found)
      }
      const coding = codingFor(found, r.request.headers)
      const encoded =
        coding === 'fixed' || coding === 'identity'
          ? bodyOf(found, clock())
          : compress(query, found, coding, clock())
      const content = encoded instanceof Promise ? await encoded : encoded
      const headers = bodyHeaders(query.output, coding)
      return { status: 200, headers, body: { kind: 'whole', content }, records: found.records }
    } catch (failure) {
      await updateLimits(r, caller, ip, admitted, toApiError(failure))
      throw failure
    } finally {
      if (stream !== null) await stream.cancel()
    }
  }

  /** Who sent a request, `null` for a key that is not valid. A bad query is refused even while keys cannot be read (I3). */
  function findCaller(key: string, queryString: string, nowMs: number): Caller | null {
    try {
      return access.find(key, nowMs)?.caller ?? null
    } catch (failure) {
      if (failure instanceof StoreError) readQuery(queryString, key, ANYONE)
      throw failure
    }
  }

  /** Refunds a request that fails by our fault (A2) or gets no slot for a long answer (B9), then reads its limits. */
  async function updateLimits(
    r: RequestContext,
    caller: Caller,
    ip: string,
    admitted: Admitted | null,
    { status, code }: ApiError,
  ): Promise<void> {
    try {
      if (admitted !== null) {
        if (status < 500 && code !== 'RATE_LIMIT_EXCEEDED') return
        admissions.refunded += 1
        await access.refund(r, caller, ip, admitted.instants)
      }
      r.limits = await access.limits(r, caller, ip, clock())
    } catch {
      // The store fails, too: the request stays counted.
    }
  }

  function streamReply(
    { request, isHead, nowMs }: RequestContext,
    key: string,
    query: Query,
    stream: AnswerStream,
  ): Reply {
    const encoding = chooseEncoding(request.headers.get('accept-encoding'))
    const headers = bodyHeaders(query.output, encoding ?? 'identity')
    const records = stream.totals?.records ?? 0
    if (isHead) return { status: 200, headers, body: { kind: 'unsent-stream' }, records }
    const { promise: sent, resolve } = Promise.withResolvers<Sent>()
    const plain = stream.open(resolve, () => isStillValid(key, nowMs))
    const body = encoding === null ? plain : compressStream(plain, encoding)
    return { status: 200, headers, body: { kind: 'stream', stream: body, sent }, records }
  }

  /** Revoking a key ends its streams. One that began before its key expired goes on. */
  function isStillValid(key: string, nowMs: number): boolean {
    try {
      return access.find(key, nowMs) !== null
    } catch {
      return true // keys cannot be read at the moment
    }
  }
}

/** The entitlements for a query string whose key cannot be looked up. */
const ANYONE: Entitlements = {
  countMax: null,
  worksDefault: null,
  addressBits: 16,
  downloads: null,
}

/** The /16 networks of an answer. */
function subnetsOf(found: Answer | AnswerStream): readonly number[] {
  const totals = found.kind === 'stream' ? found.totals : found
  if (totals === null) throw new Error('a stream lacks the totals it was asked for')
  return totals.subnets
}

function codingFor(answer: Answer, headers: Headers): Coding {
  if (bodyLength(answer) < COMPRESS_MIN_BYTES) return 'fixed'
  return chooseEncoding(headers.get('accept-encoding')) ?? 'identity'
}
