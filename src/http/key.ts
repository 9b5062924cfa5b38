/**
 * The route of a key's owner, /key (contract F3): the key comes in the header only, and asking
 * counts for nothing.
 */

import type { Access } from '../access/access.ts'
import type { UsageStore } from '../access/ports.ts'
import type { Waits } from '../access/store-timeout.ts'
import { type ApiError, invalidKey } from '../api/errors.ts'
import { refused } from '../api/handler.ts'
import { ownReport } from '../api/key-report.ts'
import { invalid } from '../api/query.ts'
import { StoreError } from '../lib/errors.ts'
import { queryStringOf, splitQueryString } from '../lib/query-string.ts'
import { bearerOf, missing, type RequestHeaders } from './credentials.ts'
import { HEADERS, type Reply, type Route } from './reply.ts'

export type KeyRouteParts = { access: Access; usage: Pick<UsageStore, 'history'> }

const IN_HEADER = 'send the key in the header Authorization: Bearer KEY'

/** @throws ApiError KEY_MISSING; INVALID_PARAMETER when the URL holds a key, even besides the header. */
function keyOf(queryString: string, headers: RequestHeaders): string {
  if (splitQueryString(queryString).some(({ name }) => name === 'key')) {
    throw invalid(`a key in the URL ends up in logs: ${IN_HEADER}`)
  }
  const key = bearerOf(headers)
  if (key === undefined) throw missing('key is required', headers, IN_HEADER)
  return key
}

const noParameters = (): ApiError => invalid('/key has no parameters')

export function keyRoute({ access, usage }: KeyRouteParts): Route {
  const { within } = access.timeout
  return async ({ request, ip: findIp, nowMs }, end) => {
    let known: { keyId: string | null; limits: Reply['limits'] } = { keyId: null, limits: [] }
    const queryString = queryStringOf(request.url)
    try {
      const ip = findIp()
      const key = keyOf(queryString, request.headers)
      const record = access.find(key, nowMs)
      if (record === null) throw invalidKey(key)
      known = { keyId: record.caller.id, limits: [] }
      const waits: Waits = { waitedMs: 0 }
      const limits = await within(waits, access.limits(record.caller, ip, nowMs))
      known = { ...known, limits }
      if (queryString !== '') throw noParameters()
      const report = await within(waits, ownReport(record, limits, usage, nowMs))
      const content = JSON.stringify(report)
      const body = { kind: 'whole', content } as const
      return end({ ...known, kind: 'reply', status: 200, headers: HEADERS.json, body, records: 0 })
    } catch (thrown) {
      // It is refused for what is wrong with it also where keys cannot be read (contract I3).
      const isMalformed = thrown instanceof StoreError && queryString !== ''
      return end(refused(isMalformed ? noParameters() : thrown, known))
    }
  }
}
