/** Owns the route of the statistics, /stats (contract F4): for everybody, without key or limits. */
import { refused } from '../../api/handler.ts'
import type { Coded } from '../../lib/text/coded.ts'
import type { Awaitable } from '../../lib/turn-batch.ts'
import { COMMON_HEADERS, CONTENT_TYPES } from '../headers.ts'
import { type Document, documentOf, documentReply } from './documents.ts'
import type { Route } from './route.ts'

/** The statistics for a request of an instant, see `createStatsCache`. */
export type StatsReader = (nowMs: number) => Awaitable<Coded>

const FIELDS = {
  ...COMMON_HEADERS,
  'content-type': CONTENT_TYPES.json,
  'cache-control': 'max-age=15',
}

export function statsRoute(read: StatsReader): Route {
  /** The document of the last statistics: its tag is computed once. */
  let last: Document | null = null
  const documentFor = (coded: Coded): Document => {
    if (last?.coded !== coded) last = documentOf(coded, FIELDS)
    return last
  }
  return ({ request, nowMs }, end) => {
    const send = (coded: Coded) => end(documentReply(documentFor(coded), request.headers))
    const coded = read(nowMs)
    if (!(coded instanceof Promise)) return send(coded)
    return coded.then(send, (thrown: unknown) => end(refused(thrown)))
  }
}
