/** GET and HEAD /api: key, query, rate limit, answer, network quota, reply, in the order of contract A2. */
import type { Access } from '../access/access.ts'
import {
  type Entitlements,
  entitlementsOf,
  hasNetworkQuota,
  isCountedByAddress,
  type Regular,
  tenantOf,
} from '../access/entitlements.ts'
import type { Caller } from '../access/key.ts'
import type { Decision } from '../access/rate-limit.ts'
import {
  type Answer,
  type AnswerStream,
  bodyLength,
  bodyOf,
  type Content,
  type Sent,
} from '../api/answer.ts'
import {
  type ApiError,
  invalidKey,
  networkRefusal,
  rateLimitRefusal,
  toApiError,
} from '../api/errors.ts'
import type { Query, QueryReader } from '../api/query.ts'
import type { ResponseCache } from '../api/response-cache.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Clock } from '../lib/clock.ts'
import { COMPRESS_MIN_BYTES, chooseEncoding, compressStream } from '../lib/compression.ts'
import { StoreError } from '../lib/errors.ts'
import type { AdmissionCounts } from '../metrics/traffic.ts'
import { findKey, readCredentials } from './credentials.ts'
import { etagOf, isKnown } from './etag.ts'
import { bodyHeaders, type IpOf, type Reply, type RequestContext, type Route } from './reply.ts'

export type ApiRouteParts = {
  access: Access
  readQuery: QueryReader
  cache: ResponseCache
  clock: Clock
  admissions: AdmissionCounts
  ipOf: IpOf
}

type AdmittedDecision = Extract<Decision, { kind: 'admitted' }>

export function apiRoute(parts: ApiRouteParts): Route {
  const { access, readQuery, cache, clock, admissions, ipOf } = parts

  return async r => {
    const { key, queryString } = readCredentials(r.request.url, r.request.headers)
    const caller = findCaller(r, key, queryString)
    if (caller === null) return invalidKey(key)
    r.keyId = caller.id
    const ip = isCountedByAddress(caller) ? ipOf(r) : ''
    let admitted: AdmittedDecision | null = null
    try {
      const query = readQuery(queryString, key, entitlementsOf(caller))
      const decision = await access.admit(r, caller, ip, r.nowMs)
      r.limits = decision.limits
      if (decision.kind === 'refused') return rateLimitRefusal(caller, decision)
      admitted = decision
      admissions[caller.kind] += 1

      const hasQuota = hasNetworkQuota(caller)
      const pending = cache.find(query, r.nowMs, hasQuota, () => tenantOf(caller, ip))
      const found = pending instanceof Promise ? await pending : pending
      if (found === null) return cache.notFound(query, r.nowMs)
      const refusal = hasQuota ? await consumeNetworks(r, caller, ip, admitted, found) : null
      if (refusal !== null) return refusal
      if (found.kind === 'stream') return await streamReply(r, key, query, found)
      const reply = wholeReply(r, query, found)
      return reply instanceof Promise ? await reply : reply
    } catch (failure) {
      await refundAndReadLimits(r, caller, ip, admitted, toApiError(failure))
      throw failure
    }
  }

  /** The client of a key; `null`: the key is not valid. If keys cannot be read, a bad query still gets a 400 (I3). */
  function findCaller(r: RequestContext, key: string, queryString: string): Caller | null {
    try {
      return findKey(access, key, r, ipOf)?.caller ?? null
    } catch (failure) {
      if (failure instanceof StoreError) readQuery(queryString, key, UNKNOWN_ENTITLEMENTS)
      throw failure
    }
  }

  /** Refunds a 5xx (A2) and a request that waited in vain for a stream slot (B9). Then it reads the limits. */
  async function refundAndReadLimits(
    r: RequestContext,
    caller: Caller,
    ip: string,
    admitted: AdmittedDecision | null,
    { status, code }: ApiError,
  ): Promise<void> {
    try {
      if (admitted !== null) {
        if (status < 500 && code !== 'RATE_LIMIT_EXCEEDED') return
        await access.refund(r, caller, ip, admitted.instants)
        admissions.refunded += 1
      }
      r.limits = await access.limits(r, caller, ip, clock())
    } catch {
      // The store fails, too: the request stays counted.
    }
  }

  async function consumeNetworks(
    r: RequestContext,
    caller: Regular,
    ip: string,
    { atMs }: AdmittedDecision,
    found: Answer | AnswerStream,
  ): Promise<ApiError | null> {
    let isConsumed = false
    try {
      const totals = found.kind === 'stream' ? found.totals : found
      if (totals === null) throw new Error('the stream has no totals')
      const served = { ip, nowMs: r.nowMs, atMs, subnets: totals.subnets }
      const decision = await access.consume(r, caller, served)
      isConsumed = decision.kind === 'consumed'
      return decision.kind === 'consumed' ? null : networkRefusal(decision)
    } finally {
      if (!isConsumed && found.kind === 'stream') await found.cancel()
    }
  }

  function wholeReply(r: RequestContext, query: Query, answer: Answer): Awaitable<Reply> {
    const isShort = bodyLength(answer) < COMPRESS_MIN_BYTES
    const encoding = isShort ? null : chooseEncoding(r.request.headers.get('accept-encoding'))
    const headers = bodyHeaders(query.output, isShort ? 'fixed' : (encoding ?? 'identity'))
    const etag = etagOf(answer, encoding)
    if (etag !== '' && isKnown(r.request.headers.get('if-none-match'), etag)) {
      const fields = bodyHeaders(query.output, 'identity')
      return { status: 304, headers: fields, etag, body: { kind: 'none' }, records: 0 }
    }
    const reply = (content: Content): Reply => {
      return {
        status: 200,
        headers,
        etag,
        body: { kind: 'whole', content },
        records: answer.records,
      }
    }
    if (encoding === null) return reply(bodyOf(answer, clock()))
    const content = cache.compressed(query, answer, encoding, clock())
    return content instanceof Promise ? content.then(reply) : reply(content)
  }

  async function streamReply(
    { request, isHead, nowMs }: RequestContext,
    key: string,
    query: Query,
    stream: AnswerStream,
  ): Promise<Reply> {
    const encoding = chooseEncoding(request.headers.get('accept-encoding'))
    const headers = bodyHeaders(query.output, encoding ?? 'identity')
    const records = stream.totals?.records ?? 0
    if (isHead) {
      await stream.cancel()
      return { status: 200, headers, etag: '', body: { kind: 'unsent-stream' }, records }
    }
    const { promise: sent, resolve } = Promise.withResolvers<Sent>()
    const plain = stream.open(resolve, () => isStillValid(key, nowMs))
    const body = encoding === null ? plain : compressStream(plain, encoding)
    return { status: 200, headers, etag: '', body: { kind: 'stream', stream: body, sent }, records }
  }

  /** Revoking a key ends its streams. Its expiry and other networks do not. */
  function isStillValid(key: string, nowMs: number): boolean {
    try {
      return access.find(key, nowMs) !== null
    } catch {
      return true // keys cannot be read at the moment
    }
  }
}

/** For a query string whose key cannot be looked up. */
const UNKNOWN_ENTITLEMENTS: Entitlements = {
  countMax: null,
  worksDefault: null,
  addressBits: 16,
  streamsMax: null,
}
