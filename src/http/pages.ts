/** The pages for people (contract F5, F6): their files, the OpenAPI document and the reference. */
import { FORMS } from '../api/render.ts'
import { encode } from '../lib/compression.ts'
import { pathOf, queryStringOf, splitQueryString } from '../lib/query-string.ts'
import type { Lang } from '../proxies/proxy.ts'
import { type Document, documentOf, documentReply } from './etag.ts'
import { COMMON_HEADERS, type HeaderFields, notFound, type Route } from './reply.ts'

/** A built file of a page. The contents are in base64. */
export type PageFile = {
  /** `index.html`, or a name with a hash of its content. */
  name: string
  gzip: string
  zstd: string
}

/** A page may run, show and fetch only content of this service. */
export const PAGE_FIELDS: HeaderFields = {
  ...COMMON_HEADERS,
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
    "require-trusted-types-for 'script'; trusted-types 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

const TYPES: { readonly [ending: string]: string } = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

const FOREVER = 'public, max-age=31536000, immutable'

function pageDocument({ name, ...encoded }: PageFile): Document {
  const fields = {
    ...PAGE_FIELDS,
    'content-type': TYPES[name.split('.').pop() ?? ''] ?? 'application/octet-stream',
    'cache-control': name.endsWith('.html') ? 'no-cache' : FOREVER,
  }
  const gzip = Buffer.from(encoded.gzip, 'base64')
  const zstd = Buffer.from(encoded.zstd, 'base64')
  return documentOf({ identity: Bun.zstdDecompressSync(zstd), gzip, zstd }, fields)
}

type Load = () => Promise<readonly PageFile[]>

/** Returns a function that finds the document of a URL. It loads the files at its first call. */
function createFinder(load: Load): (url: string) => Promise<Document | null> {
  let documents: Promise<ReadonlyMap<string, Document>> | null = null
  const urlOf = (name: string): string => (name === 'index.html' ? '/' : `/-/${name}`)
  return async url => {
    documents ??= load().then(
      files => new Map(files.map(file => [urlOf(file.name), pageDocument(file)])),
    )
    return (await documents).get(pathOf(url)) ?? null
  }
}

export function pageRoutes(load: Load): { [path: string]: Route } {
  const find = createFinder(load)
  const route = routeOf(({ url }) => find(url))
  return { '/': route, '/-/*': route }
}

/** Answers GET requests for the files of a page, for another server; `null` for other paths. */
export function servePage(load: Load): (request: Request) => Promise<Response | null> {
  const find = createFinder(load)
  return async request => {
    const document = await find(request.url)
    if (document === null) return null
    const { status, headers, body } = documentReply(document, request.headers)
    return new Response(body.kind === 'whole' ? body.content : null, { status, headers })
  }
}

export type ReferenceParts = {
  openapi: () => Promise<string>
  /** Makes the reference page, as HTML; `null`: there is none. */
  docs: ((lang: Lang) => Promise<string>) | null
}

const OPENAPI_FIELDS: HeaderFields = {
  ...COMMON_HEADERS,
  'content-type': FORMS.json.contentType,
  'cache-control': 'public, max-age=300',
}

const DOCS_FIELDS: HeaderFields = {
  ...PAGE_FIELDS,
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-cache',
  vary: 'Accept-Encoding, Accept-Language',
}

/** Returns a function that makes a document once, at its first call. */
function lazily(make: () => Promise<string>, fields: HeaderFields): () => Promise<Document> {
  let made: Promise<Document> | null = null
  return () => {
    made ??= make().then(text => documentOf(encode(text), fields))
    return made
  }
}

const routeOf =
  (find: (request: Request) => Promise<Document | null>): Route =>
  async r => {
    const document = await find(r.request)
    return document === null ? notFound(r) : documentReply(document, r.request.headers)
  }

/** `lang` names the language, else the browser does. All others mean English, because links may hold anything. */
function isRussian({ url, headers }: Request): boolean {
  const asked = splitQueryString(queryStringOf(url)).find(({ name }) => name === 'lang')?.value
  const accepted = /(?:^|[\s,])(en|ru)\b/i.exec(headers.get('accept-language') ?? '')?.[1]
  return (asked ?? accepted)?.toLowerCase() === 'ru'
}

export function referenceRoutes({ openapi, docs }: ReferenceParts): { [path: string]: Route } {
  const document = lazily(openapi, OPENAPI_FIELDS)
  const routes = { '/openapi.json': routeOf(document) }
  if (docs === null) return routes
  const [en, ru] = [lazily(() => docs('en'), DOCS_FIELDS), lazily(() => docs('ru'), DOCS_FIELDS)]
  return { ...routes, '/docs': routeOf(request => (isRussian(request) ? ru() : en())) }
}
