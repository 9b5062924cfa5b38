/** Owns the sections of the reference page, each made from a part of the document. */
import { FORM_TYPES } from '../../api/openapi/responses.ts'
import type { Document, Operation, Parameter, Response, Schema } from '../../api/openapi/schema.ts'
import { type Html, html, prose } from './html.ts'
import {
  contentCode,
  curl,
  idOf,
  memberRows,
  parameterRows,
  type Row,
  rows,
  sample,
} from './parts.ts'
import type { Words } from './words.ts'

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
  const forms = Object.entries(FORM_TYPES)
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
