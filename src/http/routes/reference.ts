/** Owns the routes of the reference (contract F5): the OpenAPI document, and the page made from it. */
import { refused } from '../../api/handler.ts'
import { queryStringOf, splitQueryString } from '../../lib/query-string.ts'
import { encode } from '../../lib/text/coded.ts'
import type { Lang } from '../../proxies/proxy.ts'
import { COMMON_HEADERS, CONTENT_TYPES, type HeaderFields } from '../headers.ts'
import { type Document, documentOf, documentReply } from './documents.ts'
import { PAGE_FIELDS } from './pages.ts'
import type { Route } from './route.ts'

export type ReferenceParts = {
  /** Makes the OpenAPI document, as JSON. */
  openapi: () => Promise<string>
  /** Makes the reference page, as HTML; `null`: there is none. */
  docs: ((lang: Lang) => Promise<string>) | null
}

const OPENAPI_FIELDS: HeaderFields = {
  ...COMMON_HEADERS,
  'content-type': CONTENT_TYPES.json,
  'cache-control': 'public, max-age=300',
}

const DOCS_FIELDS: HeaderFields = {
  ...PAGE_FIELDS,
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-cache',
  'content-security-policy':
    "default-src 'none'; script-src 'none'; style-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}

/** Returns a function that makes a document once, at the first request for it. */
function lazily(make: () => Promise<string>, fields: HeaderFields): () => Promise<Document> {
  let made: Promise<Document> | null = null
  return () => {
    made ??= make().then(text => documentOf(encode(text), fields))
    return made
  }
}

/** The route of a document; `find` chooses it by the query string. */
const routeOf =
  (find: (queryString: string) => Promise<Document>): Route =>
  async ({ request }, end) => {
    try {
      return end(documentReply(await find(queryStringOf(request.url)), request.headers))
    } catch (thrown) {
      return end(refused(thrown))
    }
  }

/** `lang=ru` is Russian; anything else is English: people follow links with all kinds of additions. */
const langOf = (queryString: string): Lang =>
  splitQueryString(queryString).some(({ name, value }) => name === 'lang' && value === 'ru')
    ? 'ru'
    : 'en'

export function referenceRoutes({ openapi, docs }: ReferenceParts): { [path: string]: Route } {
  const document = lazily(openapi, OPENAPI_FIELDS)
  const routes = { '/openapi.json': routeOf(document) }
  if (docs === null) return routes
  const pages = {
    en: lazily(() => docs('en'), DOCS_FIELDS),
    ru: lazily(() => docs('ru'), DOCS_FIELDS),
  }
  return { ...routes, '/docs': routeOf(queryString => pages[langOf(queryString)]()) }
}
