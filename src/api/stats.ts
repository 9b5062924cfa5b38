/** Statistics of the list, `/stats` (contract F4): parses the filters, limits clients, caches answers. */
import { LRUCache } from 'lru-cache'
import { clientBucket } from '../access/entitlements.ts'
import { wholeSeconds } from '../access/rate-limit.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { EncodedBodies } from '../lib/compression.ts'
import { splitQueryString } from '../lib/query-string.ts'
import { SECOND_MS } from '../lib/time.ts'
import { FILTER_RULES, type Filter } from '../proxies/filter.ts'
import type { StatsPart } from '../proxies/stats.ts'
import type { StatsSource } from '../proxies/store.ts'
import { ApiError } from './errors.ts'
import { createParamsParser, describeParameters, invalid } from './query.ts'

/** With `ip` and `port`, a client could guess addresses. The other parameters do not change the counts. */
const NO_FILTERS: readonly string[] = ['ip', 'port', 'sort', 'unique', 'count']

export const parametersOf = (part: StatsPart): string[] =>
  part === 'full' ? Object.keys(FILTER_RULES).filter(name => !NO_FILTERS.includes(name)) : []

function createReader(provider: string, part: StatsPart): (queryString: string) => Filter {
  const names = parametersOf(part)
  const parse = createParamsParser(provider, names)
  const ofList = describeParameters(provider).map(({ name }) => name)
  return queryString => {
    const pairs = splitQueryString(queryString)
    for (const { name } of pairs) {
      if (name === 'key')
        throw invalid('statistics need no key, and one in the URL ends up in logs')
      if (name === null || names.includes(name) || !ofList.includes(name)) continue
      throw invalid(`/stats does not accept ${name}`)
    }
    return parse(pairs).filter
  }
}

const QUERIES_MAX = 30
const WINDOW_MS = 10 * SECOND_MS
/** Most clients in memory. A new client replaces the one with the oldest query. */
const CLIENTS_MAX = 10_000

/** Creates an exact window for each client (contract B3). It throws an ApiError when a query exceeds it. */
function createLimit(): (client: string, nowMs: number) => void {
  const asked = new LRUCache<string, readonly number[]>({ max: CLIENTS_MAX })
  return (client, nowMs) => {
    const last = asked.get(client) ?? []
    const atMs = Math.max(nowMs, last.at(-1) ?? 0)
    const [oldest = 0] = last
    if (last.length === QUERIES_MAX && oldest + WINDOW_MS > atMs) {
      const retryAfterSeconds = wholeSeconds(oldest + WINDOW_MS - nowMs)
      const message = `statistics answer ${QUERIES_MAX} queries in ${WINDOW_MS / SECOND_MS} s; retry after ${retryAfterSeconds} s`
      throw new ApiError('RATE_LIMIT_EXCEEDED', message, { retryAfterSeconds })
    }
    asked.set(client, [...last.slice(1 - QUERIES_MAX), atMs])
  }
}

const KEPT_MS = 15 * SECOND_MS
/** Most answers in memory. One takes about 15 KB, with its encodings. */
const ANSWERS_MAX = 512
/** Most queries that wait for an answer, to bound memory. */
export const WAITING_MAX = 32

type Kept = { answer: Awaitable<EncodedBodies>; version: string; atMs: number }

type StatsParts = {
  source: Pick<StatsSource, 'answer'>
  /** The version of the list. Throws when the list must not be shown. */
  version: () => string
  provider: string
  part: StatsPart
}

export type StatsReader = ReturnType<typeof createStatsReader>

export function createStatsReader({ source, version: versionOf, provider, part }: StatsParts) {
  const read = createReader(provider, part)
  const admit = createLimit()
  const answers = new LRUCache<string, Kept>({ max: ANSWERS_MAX })
  let waiting = 0

  function find(key: string, filter: Filter, version: string, nowMs: number) {
    const keep = (answer: Awaitable<EncodedBodies>) =>
      answers.set(key, { answer, version, atMs: nowMs })
    const found = source.answer({ filter, nowMs, version, part, provider })
    keep(found)
    found.then(keep, () => answers.delete(key))
    return found
  }

  /** @throws ApiError; the promise rejects likewise, or with a `StoreError`. */
  return (queryString: string, ip: string, nowMs: number): Awaitable<EncodedBodies> => {
    const filter = read(queryString)
    admit(clientBucket(ip), nowMs)
    const version = versionOf()
    const key = JSON.stringify(filter)
    const known = answers.get(key)
    const isRight =
      known?.version === version && nowMs >= known.atMs && nowMs - known.atMs < KEPT_MS
    if (isRight && !(known.answer instanceof Promise)) return known.answer
    if (waiting >= WAITING_MAX) {
      const message = 'too many queries wait for an answer'
      throw new ApiError('DB_EXECUTE_FAILED', message, { retryAfterSeconds: 1 })
    }
    waiting += 1
    const answer = isRight ? known.answer : find(key, filter, version, nowMs)
    return Promise.resolve(answer).finally(() => {
      waiting -= 1
    })
  }
}
