/**
 * Owns the one endpoint, `/api`: the steps of a request from top to bottom, in the order of
 * contract A2. Every refusal ends it by throwing an `ApiError`.
 */
import { type Access, refusalOf, type Terms, termsOf } from '../access.ts'
import { ApiError } from '../error.ts'
import { subnetOf } from '../ip.ts'
import type { Gauge } from '../limits.ts'
import type { Filter, Output, Proxy } from '../proxy.ts'
import { createQueryParser, keyOf, splitQuery } from '../query.ts'
import { createRenderer, maskProxy } from '../render.ts'

/** What a request left behind, also when it was refused: for headers and the access log. */
export type Trace = { keyId: string | null; gauges: readonly Gauge[]; records: number }

/** A request as the endpoint sees it. */
export type ApiRequest = { url: string; authorization: string | null; ip: string; nowMs: number }
export type ApiAnswer = { text: string; output: Output }

export type ApiParts = {
  access: Access
  select: (filter: Filter, masked: boolean, nowMs: number) => Proxy[]
  /** What the provider's own service is called on the wire. */
  provider: string
}

export function createApi({ access, select, provider }: ApiParts) {
  const parseQuery = createQueryParser(provider)
  const render = createRenderer(provider)

  return async function answer(request: ApiRequest, trace: Trace): Promise<ApiAnswer> {
    const { ip, nowMs } = request
    const raw = splitQuery(queryOf(request.url))
    const key = keyOf(raw, request.authorization)
    const caller = access.authenticate(key, nowMs)
    trace.keyId = caller.id

    const parse = (): ReturnType<typeof parseQuery> => {
      try {
        return parseQuery(raw, key)
      } catch (error) {
        trace.gauges = access.gauges(caller, ip, nowMs)
        throw error
      }
    }
    const query = parse()
    const terms = termsOf(caller)
    const filter = underTerms(query.filter, terms)

    const verdict = await access.admit(caller, ip, nowMs)
    trace.gauges = verdict.gauges
    if (verdict.refused) throw refusalOf(caller, verdict)

    const proxies = select(filter, terms.masked, nowMs)
    if (proxies.length === 0) {
      throw new ApiError('PROXIES_NOT_FOUND', 'no proxies match the filters')
    }
    const subnets = new Set(proxies.map(proxy => subnetOf(proxy.ip)))
    await access.charge({ caller, ip, subnets, verdict }, nowMs)

    trace.records = proxies.length
    const shown = terms.masked ? proxies.map(maskProxy) : proxies
    return { text: render(shown, filter, query.output, nowMs), output: query.output }
  }
}

/** The query string of a request target or URL, from the first `?` (it may be a bare path). */
function queryOf(url: string): string {
  const mark = url.indexOf('?')
  return mark < 0 ? '' : url.slice(mark + 1)
}

/** The filter as the kind of key allows it: `count` bounded, `works` set (spec 8). */
function underTerms(filter: Filter, { countMax, worksDefault }: Terms): Filter {
  const { count } = filter
  return {
    ...filter,
    worksMin: filter.worksMin ?? worksDefault,
    count: countMax === null ? count : Math.min(count ?? countMax, countMax),
  }
}
