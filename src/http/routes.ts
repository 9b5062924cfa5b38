/** The table of routes: which paths there are, and what each replies. */

import { refused } from '../api/handler.ts'
import { FORMS } from '../api/render.ts'
import type { StatsReader } from '../api/stats.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { Coded } from '../lib/encoding.ts'
import { queryStringOf } from '../lib/query-string.ts'
import { type ApiRouteParts, apiRoute } from './api.ts'
import { type Document, documentOf, documentReply } from './etag.ts'
import { type KeyRouteParts, keyRoute } from './key.ts'
import { type PageFile, pageRoutes, type ReferenceParts, referenceRoutes } from './pages.ts'
import { COMMON_HEADERS, plainText, type Route } from './reply.ts'

const FIELDS = {
  ...COMMON_HEADERS,
  'content-type': FORMS.json.contentType,
  'cache-control': 'max-age=15',
}

function statsRoute(read: StatsReader): Route {
  /** The tag of an answer that is kept is computed once. */
  const documents = new WeakMap<Coded, Document>()
  const documentFor = (coded: Coded): Document => {
    const document = documents.get(coded) ?? documentOf(coded, FIELDS)
    documents.set(coded, document)
    return document
  }
  return ({ request, ip, nowMs }, end) => {
    const send = (coded: Coded) => end(documentReply(documentFor(coded), request.headers))
    const coded = read(queryStringOf(request.url), ip, nowMs)
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
    /** Answers queries about the list; `null` answers none. */
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
