/**
 * Owns the query of a request: its parameters, limited by the entitlements of its key. Programs
 * poll with the same query string, so those that are repeated are kept in memory, parsed.
 */

import type { Entitlements } from '../access/entitlements.ts'
import { createBoundedMap, createDoorkeeper } from '../lib/bounded-map.ts'
import { splitQueryString } from '../lib/query-string.ts'
import type { Filter } from '../proxies/filter.ts'
import { createParamsParser, type Params } from './params.ts'
import type { Output } from './render.ts'

/** Queries with the same `id` have the same answer. */
export type Query = {
  id: string
  filter: Filter
  output: Output
  /** See `proxies/mask.ts`. */
  addressBits: 32 | 16
  /** Whether it was the kind of key that set `filter.worksMin`. */
  isWorksSet: boolean
}

/** Most query strings in memory, and their longest; longer ones are parsed each time. */
const PARSED_MAX = 10_000
const LENGTH_MAX = 512

/** A parsed query string, and its query for each kind of key that sent it. */
type Parsed = { params: Params; queries: Map<Entitlements, Query> }

export type QueryReader = ReturnType<typeof createQueryReader>

/** Reads queries for one name of the provider's service. */
export function createQueryReader(provider: string) {
  const parse = createParamsParser(provider)
  const parsed = createBoundedMap<string, Parsed>(PARSED_MAX)
  const isRepeated = createDoorkeeper()

  /**
   * Parses a query string. `key` is the request's access key, which no message may repeat.
   * @throws ApiError INVALID_PARAMETER naming the parameter and what it accepts.
   */
  return function readQuery(text: string, key: string, entitlements: Entitlements): Query {
    const known = parsed.get(text)
    const query = known?.queries.get(entitlements)
    if (query !== undefined) return query
    const params = known?.params ?? parse(splitQueryString(text), key)
    const fresh = entitledQuery(params, entitlements)
    if (known !== undefined) known.queries.set(entitlements, fresh)
    else if (text.length <= LENGTH_MAX && isRepeated(text)) {
      parsed.set(text, { params, queries: new Map([[entitlements, fresh]]) })
    }
    return fresh
  }
}

/** The query as the kind of key allows it: `count` bounded, `works` set (spec 8). */
function entitledQuery({ filter: asked, output }: Params, entitlements: Entitlements): Query {
  const { countMax, worksDefault, addressBits } = entitlements
  const filter = {
    ...asked,
    worksMin: asked.worksMin ?? worksDefault,
    count: countMax === null ? asked.count : Math.min(asked.count ?? countMax, countMax),
  }
  const id = JSON.stringify([addressBits, filter, output])
  const isWorksSet = asked.worksMin === null && worksDefault !== null
  return { id, filter, output, addressBits, isWorksSet }
}
