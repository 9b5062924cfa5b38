/**
 * The reference page (contract F5): HTML made from the OpenAPI document. It has no script, and its style
 * is a file, so its Content-Security-Policy allows neither scripts nor inline style.
 */

import { mediaTypeOf } from '../../api/openapi/document.ts'
import type { Document, Operation, Parameter, Response, Schema } from '../../api/openapi/schema.ts'
import { OUTPUT_KINDS } from '../../api/render.ts'
import type { Lang } from '../../proxies/proxy.ts'
import { type Words, wordsOf } from './words.ts'

export type Html = { readonly html: string }
type Part = Html | string | number | null | false | readonly Part[]

const ENTITIES: { readonly [character: string]: string } = {
  ...{ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' },
}

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => ENTITIES[character] ?? '')

function write(part: Part): string {
  if (part === null || part === false) return ''
  if (Array.isArray(part)) return part.map(write).join('')
  // The type guard of `isArray` leaves readonly arrays in the union.
  return typeof part === 'object' ? (part as Html).html : escapeHtml(String(part))
}

/** HTML from a template. Text in it is escaped, for elements and for attributes in quotes. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html => ({
  html: strings.map((text, i) => text + write(parts[i] ?? null)).join(''),
})

/** A text in which `…` stands around code, as in Markdown. */
export function prose(text: string): Html {
  const parts = text
    .split('`')
    .map((part, i) => (i % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))
  return html`${parts}`
}

/** A name as the id of an element. */
export const idOf = (kind: string, name: string): string => `${kind}-${name.replaceAll(' ', '-')}`

const codes = (values: readonly unknown[]): Html[] =>
  values.map(value => html`<code>${value === '' ? '""' : String(value)}</code> `)

/** A row: its name links to itself, so that it can be sent to a colleague. */
export type Row = { id: string; name: string; about: Html | null; says: Html; beside?: Html }

export const rows = (all: readonly Row[]): Html => html`<dl class="rows">${all.map(
  ({ id, name, about, says, beside }) => html`
<div id="${id}">
<dt><a href="#${encodeURIComponent(id)}"><code>${name}</code></a>${about !== null && html` <span class="about">${about}</span>`}</dt>
<dd>${says}</dd>${
    beside !== undefined &&
    html`
<dd class="beside">${beside}</dd>`
  }
</div>`,
)}
</dl>`

/** The type of a member, in a word or two. */
export function typeOf({ type, $ref, const: only, oneOf, items }: Schema, words: Words): Html {
  if ($ref !== undefined) return html`${$ref.split('/').pop() ?? ''}`
  if (only !== undefined) return html`<code>${String(only)}</code>`
  if (oneOf !== undefined) return html`array, object`
  const [name = '', ...more] = typeof type === 'string' ? [type] : (type ?? [])
  const ofItems = items === undefined ? null : html` (${typeOf(items, words)})`
  const last = more.at(-1)
  if (last === 'null') return html`${name}${ofItems} ${words.orNull}`
  return html`${[name, ...more].join(', ')}${ofItems}`
}

/** The members of an object schema as rows. */
export const memberRows = (kind: string, { properties = {} }: Schema, words: Words): Html =>
  rows(
    Object.entries(properties).map(([name, schema]) => ({
      id: idOf(kind, name),
      name,
      about: typeOf(schema, words),
      says: html`<p>${prose(schema.description ?? '')}</p>${
        schema.enum !== undefined && html`<p class="values">${codes(schema.enum)}</p>`
      }`,
    })),
  )

/** What stands for the patterns of parameters. */
const FORM_WORDS = {
  ip: 'form_address',
  country: 'form_country',
  city: 'form_city',
} as const satisfies { [parameter: string]: keyof Words }

/** A maximum that only bounds the digits. */
const NO_BOUND = 999_999_999_999_999

/** What a parameter accepts. */
function acceptedBy({ name, schema }: Parameter, words: Words): Html {
  const { items = schema, minimum, maximum } = schema
  if (minimum !== undefined && maximum !== undefined) {
    if (maximum >= NO_BOUND) return html`<code>${minimum}</code> ${words.orMore}`
    return html`<code>${minimum}</code> – <code>${maximum}</code>`
  }
  if (items.enum !== undefined) return html`${codes(items.enum)}`
  return html`${words[FORM_WORDS[name as keyof typeof FORM_WORDS] ?? 'text']}`
}

const kindOf = ({ type }: Schema, words: Words): string =>
  type === 'array' ? words.listOf : type === 'integer' ? words.integer : words.text

/** A parameter as it stands in a URL. */
const inUrl = ({ name, example }: Parameter): string =>
  `${name}=${Array.isArray(example) ? example.join(',') : String(example)}`

export const parameterRows = (all: readonly Parameter[], words: Words): Html =>
  rows(
    all.map(parameter => {
      const { name, description, schema } = parameter
      const isClosed = schema.type === 'string' && schema.enum !== undefined
      return {
        id: idOf('parameter', name),
        name,
        about: html`${isClosed ? words.oneOf : kindOf(schema, words)}`,
        says: html`<p>${prose(description)}</p>
<p class="values">${acceptedBy(parameter, words)}</p>`,
        beside: html`<p class="values"><code>?${inUrl(parameter)}</code></p>${
          schema.default !== undefined &&
          html`<p class="values">${words.byDefault} <code>${String(schema.default)}</code></p>`
        }`,
      }
    }),
  )

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\b\d+(?:\.\d+)?\b)/g

/** An array of texts and numbers alone, as indented JSON has it. */
const PLAIN_ARRAY = /\[\s*(?:(?:"(?:[^"\\]|\\.)*"|-?[\d.]+),?\s*)+\]/g
const LINE_MAX = 72
function inOneLine(array: string): string {
  const items = (JSON.parse(array) as unknown[]).map(item => JSON.stringify(item))
  const line = `[${items.join(', ')}]`
  return line.length > LINE_MAX ? array : line
}

/** JSON with its names, texts and words marked. */
export function jsonCode(value: unknown): Html {
  const text = JSON.stringify(value, null, 2).replace(PLAIN_ARRAY, inOneLine)
  let written = ''
  let end = 0
  for (const match of text.matchAll(TOKEN)) {
    const [token, string, colon, word] = match
    const kind =
      string === undefined
        ? word === undefined
          ? 'number'
          : 'word'
        : colon === undefined
          ? 'string'
          : 'name'
    const shown = string ?? token
    written += `${escapeHtml(text.slice(end, match.index))}<span class="t-${kind}">${escapeHtml(shown)}</span>`
    end = match.index + shown.length
  }
  return { html: written + escapeHtml(text.slice(end)) }
}

/** The content of an example: JSON, or text as it is. */
export const contentCode = (value: unknown): Html =>
  typeof value === 'string' ? html`${value.replace(/\r?\n$/, '')}` : jsonCode(value)

/** A request, and what it gets. */
export const sample = (title: Html, command: string | null, answer: Html | null): Html => html`
<figure class="sample">
<figcaption>${title}</figcaption>
${command !== null && html`<pre class="command"><code>${command}</code></pre>`}
${answer !== null && html`<pre><code>${answer}</code></pre>`}
</figure>`

/** The command that sends a request. */
export const curl = (target: string, hasKey = true): string =>
  hasKey
    ? `curl -H "Authorization: Bearer $KEY" \\\n  "$PROXYLIST${target}"`
    : `curl "$PROXYLIST${target}"`

/** A section; `items` are the anchors within it that the list of contents has. */
export type Section = {
  id: string
  title: string
  body: Html
  items: readonly { id: string; title: string }[]
}

const paragraphs = (text: string): Html[] =>
  text.split('\n\n').map(paragraph => html`<p>${prose(paragraph)}</p>`)

const schemaOf = ({ components }: Document, name: string): Schema => components.schemas[name] ?? {}
const getOf = ({ paths }: Document, path: string): Operation | null => paths[path]?.get ?? null
const examplesOf = (response: Response | undefined, type: string) =>
  Object.entries(response?.content?.[type]?.examples ?? {}).map(([name, example]) => ({
    name,
    ...example,
  }))

function startSection(words: Words): Section {
  const first = `export PROXYLIST=https://proxies.example.com\nexport KEY=demo`
  return {
    id: 'start',
    title: words.start,
    items: [],
    body: html`<p>${prose(words.startText)}</p>
<div class="samples">
${sample(html`sh`, `${first}\n\n${curl('/api?type=socks5&count=3')}`, null)}
</div>
<p>${prose(words.startBuild)}</p>`,
  }
}

function keysSection(words: Words): Section {
  const kind = (name: string, text: string): Row => ({
    id: idOf('key-kind', name.replace('…', '')),
    name,
    about: null,
    says: html`<p>${prose(text)}</p>`,
  })
  return {
    id: 'keys',
    title: words.keys,
    items: [],
    body: html`<p>${prose(words.keysHeader)}</p>
${rows([
  kind('pl_…', words.kindRegular),
  kind('temp_…', words.kindTemp),
  kind('demo', words.kindDemo),
])}
<h3 id="secrets">${words.keysRules}</h3>
<ul class="list">
<li>${words.keysRule1}</li>
<li>${words.keysRule2}</li>
<li>${words.keysRule3}</li>
</ul>`,
  }
}

/** Parameters by the forms that they apply to; filters apply to all. */
function groupsOf(parameters: readonly Parameter[], words: Words) {
  const groups = Map.groupBy(parameters, each => each['x-forms']?.join(', ') ?? '')
  return [...groups].map(([forms, all]) => ({
    title: forms === '' ? words.parametersAll : `${words.parametersOf} ${forms}`,
    id: forms === '' ? 'filters' : `only-${forms.replaceAll(', ', '-')}`,
    all,
  }))
}

function apiSection(document: Document, words: Words): Section {
  const get = getOf(document, '/api')
  const parameters = get?.parameters ?? []
  return {
    id: 'api',
    title: 'GET /api',
    items: parameters.map(({ name }) => ({ id: idOf('parameter', name), title: name })),
    body: html`${paragraphs(get?.description ?? '')}
${groupsOf(parameters, words).map(
  ({ id, title, all }) => html`<h3 id="${id}">${title}</h3>${parameterRows(all, words)}`,
)}`,
  }
}

function formsSection(document: Document, words: Words): Section {
  const response = getOf(document, '/api')?.responses['200']
  const forms = OUTPUT_KINDS.map(form => [form, mediaTypeOf(form)] as const)
  return {
    id: 'forms',
    title: words.forms,
    items: forms.map(([form]) => ({ id: idOf('form', form), title: form })),
    body: html`${paragraphs(response?.description ?? '')}
${forms.map(
  ([
    form,
    type,
  ]) => html`<h3 id="${idOf('form', form)}">${form} <small><code>${type}</code></small></h3>
<p>${prose(response?.content?.[type]?.schema.description ?? '')}</p>
<div class="samples">${examplesOf(response, type).map(({ summary, value }) =>
    sample(html`<code>${summary}</code>`, curl(`/api?${summary}`), contentCode(value)),
  )}</div>`,
)}`,
  }
}

function recordSection(document: Document, words: Words): Section {
  const proxy = schemaOf(document, 'Proxy')
  const envelope = schemaOf(document, 'Envelope')
  return {
    id: 'record',
    title: words.record,
    items: [],
    body: html`<p>${prose(proxy.description ?? '')}</p>
${memberRows('member', proxy, words)}
<h3 id="envelope">${words.envelope}</h3>
<p>${prose(envelope.description ?? '')}</p>
${memberRows('envelope', envelope, words)}`,
  }
}

/** An example of each error that the document has one of, by code. */
function errorExamplesOf({ paths }: Document): ReadonlyMap<string, unknown> {
  const examples = Object.values(paths).flatMap(({ get }) =>
    Object.values(get.responses).flatMap(({ content = {} }) =>
      Object.values(content).flatMap(media => Object.entries(media.examples ?? {})),
    ),
  )
  return new Map(examples.toReversed().map(([name, { value }]) => [name, value]))
}

/** The message of an error body, which is all of it in the older form. */
const messageOf = (body: unknown): string =>
  typeof body === 'string' ? body : String((body as { message?: unknown }).message ?? '')

function errorsSection(document: Document, words: Words): Section {
  const code = schemaOf(document, 'ErrorCode')
  const error = schemaOf(document, 'Error')
  const examples = errorExamplesOf(document)
  const messages = new Map([...examples].map(([name, value]) => [name, messageOf(value)]))
  const all = Object.entries(code['x-enumDescriptions'] ?? {})
  const limited = examples.get('DAILY_LIMIT_REACHED')
  const [, aboutErrors = ''] = document.info.description.split('\n\n')
  return {
    id: 'errors',
    title: words.errors,
    items: all.map(([name]) => ({ id: idOf('error', name), title: name })),
    body: html`${paragraphs(aboutErrors)}
${rows(
  all.map(([name, when]) => ({
    id: idOf('error', name),
    name,
    about: html`<span class="status">${code['x-enumStatuses']?.[name] ?? ''}</span>`,
    says: html`<p>${prose(when)}</p>${messages.has(name) && html`<p class="values" lang="en"><samp>${messages.get(name) ?? null}</samp></p>`}`,
  })),
)}
<h3 id="error-body">${words.errorBody}</h3>
${memberRows('error-body', error, words)}
<div class="samples">${sample(html`<code>429</code>`, null, contentCode(limited))}</div>`,
  }
}

function limitsSection(document: Document, words: Words): Section {
  const { headers } = document.components
  const shown =
    'RateLimit-Policy: "burst";q=5;w=5, "daily";q=34560;w=86400\nRateLimit: "burst";r=4;t=5, "daily";r=34559;t=43200'
  return {
    id: 'limits',
    title: words.limits,
    items: [],
    body: html`<p>${prose(words.limitsText)}</p>
<p>${prose(words.limitsHeaders)}</p>
<div class="samples">${sample(html`HTTP`, null, html`${shown}`)}</div>
<p>${prose(words.limitsWait)}</p>
<h3 id="headers">${words.headers}</h3>
${rows(
  Object.entries(headers).map(([name, { description }]) => ({
    id: idOf('header', name),
    name,
    about: null,
    says: html`<p>${prose(description)}</p>`,
  })),
)}`,
  }
}

/** The section of a path that answers with one JSON document; `null`: the service has no such path. */
function documentSection(
  document: Document,
  { path, schema, parts }: { path: string; schema: string; parts: readonly string[] },
  words: Words,
): Section | null {
  const get = getOf(document, path)
  if (get === null) return null
  const kind = path.slice(1)
  const needsKey = get.security.length > 0
  return {
    id: kind,
    title: `GET ${path}`,
    items: [],
    body: html`<p>${prose(get.description)}</p>
${memberRows(kind, schemaOf(document, schema), words)}
${parts.map(name => {
  const part = schemaOf(document, schema).properties?.[name] ?? schemaOf(document, name)
  if (part.properties === undefined) return null
  const id = idOf(kind, name)
  return html`<h3 id="${id}-members"><code>${name}</code></h3>
<p>${prose(part.description ?? '')}</p>${memberRows(id, part, words)}`
})}
<div class="samples">${examplesOf(get.responses['200'], 'application/json').map(
      ({ summary, value }) => sample(html`${summary}`, curl(path, needsKey), contentCode(value)),
    )}</div>`,
  }
}

function stateSection(document: Document): Section {
  const paths = ['/healthz', '/readyz']
  return {
    id: 'state',
    title: paths.map(path => `GET ${path}`).join(', '),
    items: [],
    body: rows(
      paths.map(path => ({
        id: idOf('state', path.slice(1)),
        name: path,
        about: null,
        says: html`<p>${prose(getOf(document, path)?.summary ?? '')}. ${prose(getOf(document, path)?.description ?? '')}</p>`,
      })),
    ),
  }
}

const clientsSection = (words: Words): Section => ({
  id: 'clients',
  title: words.clients,
  items: [],
  body: html`<p>${prose(words.clientsText)}</p>
<div class="samples">${sample(html`<code>/openapi.json</code>`, `curl -o openapi.json "$PROXYLIST/openapi.json"`, null)}</div>`,
})

/** All sections, in the order in which a reader needs them. */
export const sectionsOf = (document: Document, words: Words): Section[] =>
  [
    startSection(words),
    keysSection(words),
    apiSection(document, words),
    formsSection(document, words),
    recordSection(document, words),
    errorsSection(document, words),
    limitsSection(document, words),
    documentSection(document, { path: '/key', schema: 'Key', parts: ['Limit', 'today'] }, words),
    documentSection(
      document,
      { path: '/stats', schema: 'Stats', parts: ['dimensions', 'cube', 'Histogram'] },
      words,
    ),
    stateSection(document),
    clientsSection(words),
  ].filter(section => section !== null)

const LOGO = html`<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="9"/><path d="M9 10c7 0 7 6 14 6M9 22c7 0 7-6 14-6"/><circle cx="9" cy="10" r="2.6"/><circle cx="9" cy="22" r="2.6"/><circle cx="23" cy="16" r="3.6"/></svg>`

const LANGUAGES = [
  { lang: 'en', name: 'English', href: '/docs' },
  { lang: 'ru', name: 'Русский', href: '/docs?lang=ru' },
] as const

const current = (isCurrent: boolean, what: 'page' | 'true'): Html | null =>
  isCurrent ? html` aria-current="${what}"` : null

const top = (lang: Lang, words: Words): Html => html`<header class="top">
<a class="brand" href="/">${LOGO}proxylist</a>
<nav aria-label="${words.pages}">
<a href="/">${words.query}</a>
<a href="${LANGUAGES.find(each => each.lang === lang)?.href ?? ''}"${current(true, 'page')}>${words.title}</a>
<a href="/#my-key">${words.myKey}</a>
</nav>
<div class="switch" role="group" aria-label="${words.language}">${LANGUAGES.map(
  each =>
    html`<a href="${each.href}" lang="${each.lang}" hreflang="${each.lang}" title="${each.name}"${current(each.lang === lang, 'true')}>${each.lang.toUpperCase()}</a>`,
)}</div>
</header>`

const contents = (
  sections: readonly Section[],
  words: Words,
): Html => html`<nav class="contents" aria-label="${words.contents}">
<ul>${sections.map(
  ({ id, title, items }) => html`
<li><a href="#${id}">${title}</a>${
    items.length > 0 &&
    html`<ul>${items.map(item => html`<li><a href="#${encodeURIComponent(item.id)}">${item.title}</a></li>`)}</ul>`
  }</li>`,
)}
</ul>
</nav>`

/** The page in a language; `files` are those that the bundler made of its style and icon. */
export function docsPage(
  document: Document,
  lang: Lang,
  files: readonly { name: string }[],
): string {
  const words = wordsOf(lang)
  const sections = sectionsOf(document, words)
  const { info } = document
  const [about = ''] = info.description.split('\n\n')
  const fileOf = (ending: string): string =>
    `/-/${files.find(({ name }) => name.endsWith(ending))?.name ?? ''}`
  return html`<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${info.summary}">
<title>${words.title} · ${info.title}</title>
<link rel="icon" href="${fileOf('.svg')}">
<link rel="stylesheet" href="${fileOf('.css')}">
</head>
<body>
<a class="skip" href="#main">${words.skip}</a>
${top(lang, words)}
<div class="docs">
${contents(sections, words)}
<main id="main">
<header class="intro">
<h1>${words.title} <small>${info.title} ${info.version}</small></h1>
<p>${info.summary}</p>
</header>
<p>${prose(about)}</p>
${sections.map(
  ({ id, title, body }) => html`<section id="${id}">
<h2><a href="#${id}">${title}</a></h2>
${body}
</section>
`,
)}</main>
</div>
</body>
</html>
`.html
}
