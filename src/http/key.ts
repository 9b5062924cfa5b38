/** The route /key, for the owner of a key (contract F3). It reads the key from the header only, and counts nothing. */
import type { Access } from '../access/access.ts'
import type { UsageStore } from '../access/ports.ts'
import { type ApiError, invalidKey } from '../api/errors.ts'
import { ownReport } from '../api/key-report.ts'
import { invalid } from '../api/query.ts'
import { StoreError } from '../lib/errors.ts'
import { queryStringOf, splitQueryString } from '../lib/query-string.ts'
import { bearerOf, findKey, missing, type RequestHeaders } from './credentials.ts'
import { HEADERS, type IpOf, type Route } from './reply.ts'

export type KeyRouteParts = { access: Access; usage: Pick<UsageStore, 'history'>; ipOf: IpOf }

const IN_HEADER = 'send the key in the header Authorization: Bearer KEY'

/** @throws ApiError KEY_MISSING; INVALID_PARAMETER when the URL holds a key, even beside the header. */
function keyOf(queryString: string, headers: RequestHeaders): string {
  if (splitQueryString(queryString).some(({ name }) => name === 'key')) {
    throw invalid(`a key in the URL ends up in logs: ${IN_HEADER}`)
  }
  const key = bearerOf(headers)
  if (key === undefined) throw missing('key is required', IN_HEADER)
  return key
}

const noParameters = (): ApiError => invalid('/key has no parameters')

export function keyRoute({ access, usage, ipOf }: KeyRouteParts): Route {
  return async r => {
    const { request, nowMs } = r
    const queryString = queryStringOf(request.url)
    try {
      const ip = ipOf(r)
      const key = keyOf(queryString, request.headers)
      const record = findKey(access, key, r, ipOf)
      if (record === null) return invalidKey(key)
      const { caller } = record
      r.keyId = caller.id
      r.limits = await access.limits(r, caller, ip, nowMs)
      if (queryString !== '') return noParameters()
      const quotas = await access.quotas(r, caller, nowMs)
      const report = await access.within(
        r,
        ownReport(record, [...r.limits, ...quotas], usage, nowMs),
      )
      const body = { kind: 'whole', content: JSON.stringify(report) } as const
      return { status: 200, headers: HEADERS.json, body, records: 0 }
    } catch (thrown) {
      // A malformed request gets a 400 even while keys cannot be read (contract I3).
      if (thrown instanceof StoreError && queryString !== '') return noParameters()
      throw thrown
    }
  }
}
