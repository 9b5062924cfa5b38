/**
 * Owns the query of a request: its parameters, limited by the entitlements of its key. Programs
 * poll with the same query string, so parsed ones are kept in memory.
 */

import type { Entitlements } from '../access/entitlements.ts'
import { createBoundedMap } from '../lib/bounded-map.ts'
import { splitQueryString } from '../lib/query-string.ts'
import type { Filter } from '../proxies/filter.ts'
import { createParamsParser, type Params } from './params.ts'
import type { Output } from './render.ts'

/** Queries with the same `id` have the same answer. `addressBits`: see `proxies/mask.ts`. */
export type Query = { id: string; filter: Filter; output: Output; addressBits: 32 | 16 }

/** Most query strings in memory, and their longest; longer ones are parsed each time. */
const PARSED_MAX = 10_000
const LENGTH_MAX = 512

type Parsed = { params: Params; queries: Map<Entitlements, Query> }

export type QueryReader = ReturnType<typeof createQueryReader>

/** Reads queries for one name of the provider's service. */
export function createQueryReader(provider: string) {
  const parse = createParamsParser(provider)
  const parsed = createBoundedMap<string, Parsed>(PARSED_MAX)

  function parsedOf(text: string, key: string): Parsed {
    const known = parsed.get(text)
    if (known) return known
    const fresh = { params: parse(splitQueryString(text), key), queries: new Map() }
    if (text.length <= LENGTH_MAX) parsed.set(text, fresh)
    return fresh
  }

  /**
   * Parses a query string. `key` is the request's access key, which no message may repeat.
   * @throws ApiError INVALID_PARAMETER naming the parameter and what it accepts.
   */
  return function readQuery(text: string, key: string, entitlements: Entitlements): Query {
    const { params, queries } = parsedOf(text, key)
    const known = queries.get(entitlements)
    if (known) return known
    const query = entitledQuery(params, entitlements)
    queries.set(entitlements, query)
    return query
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
  return { id: JSON.stringify([addressBits, filter, output]), filter, output, addressBits }
}
