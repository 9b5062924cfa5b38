/** The table of routes. */
import { FORMS } from '../api/render.ts'
import type { StatsReader } from '../api/stats.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import type { EncodedBodies } from '../lib/compression.ts'
import { queryStringOf } from '../lib/query-string.ts'
import { type ApiRouteParts, apiRoute } from './api.ts'
import { type Document, documentOf, documentReply } from './etag.ts'
import { type KeyRouteParts, keyRoute } from './key.ts'
import { type PageFile, pageRoutes, type ReferenceParts, referenceRoutes } from './pages.ts'
import { COMMON_HEADERS, type IpOf, plainText, type RequestContext, type Route } from './reply.ts'

const FIELDS = {
  ...COMMON_HEADERS,
  'content-type': FORMS.json.contentType,
  'cache-control': 'max-age=15',
}

function statsRoute(read: StatsReader, ipOf: IpOf): Route {
  /** Computes the tag of a cached answer once. */
  const documents = new WeakMap<EncodedBodies, Document>()
  const documentFor = (coded: EncodedBodies): Document => {
    const document = documents.get(coded) ?? documentOf(coded, FIELDS)
    documents.set(coded, document)
    return document
  }
  const send = (coded: EncodedBodies, { request }: RequestContext) =>
    documentReply(documentFor(coded), request.headers)
  return r => {
    const coded = read(queryStringOf(r.request.url), ipOf(r), r.nowMs)
    return coded instanceof Promise ? coded.then(found => send(found, r)) : send(coded, r)
  }
}

export type RouteParts = ApiRouteParts &
  KeyRouteParts &
  ReferenceParts & {
    /** Throws or rejects when the list cannot be read or usage cannot be written. */
    probe: () => Awaitable<void>
    /** Text about the copies of a node, for `/readyz`; `''` if there are none. Throws when they are too old. */
    readiness: () => string
    /** Loads the files of the page; `null`: there is no page. */
    pages: (() => Promise<readonly PageFile[]>) | null
    /** Answers queries about the list; `null`: `/stats` is off. */
    stats: StatsReader | null
  }

const NO_ICON = new Headers({ ...COMMON_HEADERS, 'cache-control': 'public, max-age=86400' })

/** The routes of GET and HEAD by path. */
type Routes = { '/api': Route; [path: string]: Route }
export const createRoutes = (parts: RouteParts): Routes => ({
  ...(parts.pages === null ? {} : pageRoutes(parts.pages)),
  ...(parts.stats === null ? {} : { '/stats': statsRoute(parts.stats, parts.ipOf) }),
  ...referenceRoutes(parts),
  '/api': apiRoute(parts),
  '/key': keyRoute(parts),
  '/robots.txt': () => plainText('User-agent: *\nDisallow: /api\nDisallow: /stats\n'),
  // Browsers request it for every page. Our page has its own icon.
  '/favicon.ico': () => ({ ...plainText(''), status: 204, headers: NO_ICON }),
  '/healthz': () => plainText('ok\n'),
  '/readyz': async () => {
    await parts.probe()
    return plainText(`ready${parts.readiness()}\n`)
  },
})
