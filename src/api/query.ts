/**
 * Owns what a request asks: its key, and its query under the terms of that key. Programs poll
 * with the same words, so what a query string means is worked out once and remembered.
 */
import type { Terms } from '../access/access.ts'
import { createLru } from '../lib/lru.ts'
import type { Filter, Output } from '../proxies/proxy.ts'
import { createQueryParser, keyOf, type Query, splitQuery } from './params.ts'

/** A query as a kind of key may ask it. Questions with the same `id` have the same answer. */
export type Question = { id: string; filter: Filter; output: Output; masked: boolean }

/** A request's key, and what it asks once the terms of that key are known. */
export type Request = { key: string; ask: (terms: Terms) => Question }

/** Query strings kept in memory; longer ones are worked out anew each time. */
const QUERIES_KNOWN_MAX = 10_000
const QUERY_LENGTH_MAX = 512
/** Request targets with their keys, as they were sent: what most requests need is found at once. */
const TARGETS_KNOWN_MAX = 30_000

const PLAIN_KEY = /(?:^|&)key=([\w-]+)(?:&|$)/
/** Whether a query may hold another key, perhaps with its name percent-encoded. */
const MAY_HOLD_KEY = /key=|%6b|%65|%79/i

type Known = { query: Query; questions: Map<Terms, Question> }

/**
 * Reads requests for one name of the provider's service. `ask` throws what the query deserves,
 * reading the key what the key does.
 */
export function createQuestions(provider: string) {
  const parse = createQueryParser(provider)
  const known = createLru<string, Known>(QUERIES_KNOWN_MAX)
  const targets = createLru<string, Request>(TARGETS_KNOWN_MAX, {
    recentUses: TARGETS_KNOWN_MAX / 2,
  })

  function questionOf({ query, questions }: Known, terms: Terms): Question {
    const asked = questions.get(terms)
    if (asked) return asked
    const { masked } = terms
    const filter = underTerms(query.filter, terms)
    const id = JSON.stringify([masked, filter, query.output])
    const question = { id, filter, output: query.output, masked }
    questions.set(terms, question)
    return question
  }

  function remembered(text: string, key: string, rest: string): Known {
    const found = known.get(rest)
    if (found) return found
    const fresh = { query: parse(splitQuery(text), key), questions: new Map() }
    if (rest.length <= QUERY_LENGTH_MAX) known.set(rest, fresh)
    return fresh
  }

  /** A request that is remembered as it was sent, once its key and query have proved right. */
  function simpleRequest(url: string, text: string, { key, rest }: Simple): Request {
    return {
      key,
      ask(terms) {
        const query = remembered(text, key, rest)
        const question = questionOf(query, terms)
        if (url.length <= QUERY_LENGTH_MAX && !terms.masked) {
          targets.set(url, { key, ask: newTerms => questionOf(query, newTerms) })
        }
        return question
      },
    }
  }

  /** @throws ApiError KEY_MISSING or INVALID_PARAMETER, for the key alone. */
  return function read(url: string, authorization: string | null): Request {
    const asked = authorization === null ? targets.get(url) : undefined
    if (asked) return asked
    const text = queryOf(url)
    const simple = authorization === null ? withoutKey(text) : null
    if (simple) return simpleRequest(url, text, simple)
    const raw = splitQuery(text)
    const key = keyOf(raw, authorization)
    return {
      key,
      ask: terms => questionOf({ query: parse(raw, key), questions: new Map() }, terms),
    }
  }
}

type Simple = { key: string; rest: string }

/** A query string apart from its key, when that is plain and there is but one. */
function withoutKey(text: string): Simple | null {
  const match = PLAIN_KEY.exec(text)
  if (match === null) return null
  const [whole, key = ''] = match
  const rest = `${text.slice(0, match.index)}&${text.slice(match.index + whole.length)}`
  return MAY_HOLD_KEY.test(rest) ? null : { key, rest }
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
