/** The table of routes: which paths there are, and what each replies. */

import { refused } from '../api/handler.ts'
import { FORMS } from '../api/render.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Coded } from '../lib/coded.ts'
import { type ApiRouteParts, apiRoute } from './api.ts'
import { type Document, documentOf, documentReply } from './etag.ts'
import { type KeyRouteParts, keyRoute } from './key.ts'
import { type PageFile, pageRoutes, type ReferenceParts, referenceRoutes } from './pages.ts'
import { COMMON_HEADERS, plainText, type Route } from './reply.ts'

/** The statistics for a request of an instant, see `createStatsCache`. */
type StatsReader = (nowMs: number) => Awaitable<Coded>

const FIELDS = {
  ...COMMON_HEADERS,
  'content-type': FORMS.json.contentType,
  'cache-control': 'max-age=15',
}

function statsRoute(read: StatsReader): Route {
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

export type RouteParts = ApiRouteParts &
  KeyRouteParts &
  ReferenceParts & {
    /** Throws or rejects when the list cannot be read or usage cannot be written. */
    probe: () => Awaitable<void>
    /** What `/readyz` adds of the copies of a node, `''` if there are none; throws when they are too old. */
    readiness: () => string
    /** Brings the files of the page; `null` serves none. */
    pages: (() => Promise<readonly PageFile[]>) | null
    /** Reads the statistics of the list; `null` publishes none. */
    stats: StatsReader | null
  }

const NO_ICON = new Headers({ ...COMMON_HEADERS, 'cache-control': 'public, max-age=86400' })

/** The routes of GET and HEAD by path. */
export const createRoutes = (parts: RouteParts): { [path: string]: Route } => ({
  ...(parts.pages === null ? {} : pageRoutes(parts.pages)),
  ...(parts.stats === null ? {} : { '/stats': statsRoute(parts.stats) }),
  ...referenceRoutes(parts),
  '/api': apiRoute(parts),
  '/key': keyRoute(parts),
  '/robots.txt': (_, end) => end(plainText('User-agent: *\nDisallow: /api\nDisallow: /stats\n')),
  // Browsers ask for it beside whatever they show; the page has an icon of its own.
  '/favicon.ico': (_, end) => end({ ...plainText(''), status: 204, headers: NO_ICON }),
  '/healthz': (_, end) => end(plainText('ok\n')),
  '/readyz': async (_, end) => {
    try {
      await parts.probe()
      return end(plainText(`ready${parts.readiness()}\n`))
    } catch (thrown) {
      return end(refused(thrown))
    }
  },
})
