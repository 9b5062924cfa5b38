/** The reference (contract F5): HTML from the OpenAPI document. It works without its script, `script.tsx`. */
import manual from '../../../data/manual/clients.md' with { type: 'text' }
import {
  type Document,
  mediaTypeOf,
  type Operation,
  type Parameter,
} from '../../api/openapi/document.ts'
import type { Schema } from '../../api/openapi/schemas.ts'
import { OUTPUT_KINDS } from '../../api/render.ts'
import { INTEGER_MAX } from '../../lib/parameter.ts'
import type { Lang } from '../../proxies/proxy.ts'
import type { Branding } from '../branding.ts'
import { readChoice } from '../page/model/query.ts'
import { CODES, snippet } from '../page/model/snippets.ts'
import { LANGS } from '../parts/format.ts'
import { type Words, wordsOf } from './translations.ts'

// ---------------------------------------------------------------------------------------------
// HTML templates escape all values that are not HTML

type Html = { readonly html: string }
type Part = Html | string | number | null | false | undefined | readonly Part[]

function write(part: Part): string {
  if (part === null || part === false || part === undefined) return ''
  if (Array.isArray(part)) return part.map(write).join('')
  // The type guard of `isArray` leaves readonly arrays in the union.
  return typeof part === 'object' ? (part as Html).html : Bun.escapeHTML(String(part))
}

/** HTML from a template. Escapes text, for elements and for quoted attributes. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html => ({
  html: strings.map((text, i) => text + write(parts[i])).join(''),
})

/** Text with code in backticks, as in Markdown. */
export const prose = (text: string): Html =>
  html`${text
    .split('`')
    .map((part, i) => (i % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))}`

const paragraphs = (text: string): Html[] =>
  text.split('\n\n').map(paragraph => html`<p>${prose(paragraph)}</p>`)

/** An array of strings and numbers in indented JSON. */
const PLAIN_ARRAY = /\[\s*(?:(?:"(?:[^"\\]|\\.)*"|-?[\d.]+),?\s*)+\]/g
const LINE_MAX = 72
function inOneLine(array: string): string {
  const items = (JSON.parse(array) as unknown[]).map(item => JSON.stringify(item))
  const line = `[${items.join(', ')}]`
  return line.length > LINE_MAX ? array : line
}

/** An example: JSON, or plain text. */
export const contentCode = (value: unknown): Html =>
  typeof value === 'string'
    ? html`${value.replace(/\r?\n$/, '')}`
    : html`${JSON.stringify(value, null, 2).replace(PLAIN_ARRAY, inOneLine)}`

const idOf = (kind: string, name: string): string =>
  `${kind}-${name.replace(/[/…]/g, '').replaceAll(' ', '-')}`

const codes = (values: readonly unknown[]): Html[] =>
  values.map(value => html`<code>${value === '' ? '""' : String(value)}</code> `)

/** A list of names with explanations. Each name links to itself, so that readers can share it. */
type Row = { name: string; about?: Html; says: Html; beside?: Html }

const rows = (kind: string, all: readonly Row[]): Html => html`<dl class="rows">${all.map(
  ({ name, about, says, beside }) => html`
<div id="${idOf(kind, name)}">
<dt><a href="#${encodeURIComponent(idOf(kind, name))}"><code>${name}</code></a>${about && html` <span class="about">${about}</span>`}</dt>
<dd>${says}${beside}</dd>
</div>`,
)}
</dl>`

/** The script replaces it with the origin of the server. */
const ORIGIN = 'https://proxies.example.com'

/** A request and its answer. */
const sample = (title: Html, command: string | Html | null, answer: Html | null): Html => html`
<figure class="sample">
<figcaption><span>${title}</span></figcaption>
${typeof command === 'string' ? html`<pre class="command"><code>${command}</code></pre>` : command}
${answer !== null && html`<pre><code>${answer}</code></pre>`}
</figure>`
/** Text at the left and code at the right. */
const beside = (said: Html | readonly Html[], ...code: readonly Html[]): Html =>
  html`<div class="split"><div>${said}</div><div>${code}</div></div>`

/** The request as programs. Radio buttons choose the visible one, in CSS. */
function programs(query: string, label: string): Html {
  const params = [...new URLSearchParams(query)]
  const parts = { origin: ORIGIN, choice: readChoice(query), params, query }
  return html`<div class="switch" role="group" aria-label="${label}">${CODES.map(
    name =>
      html`<label><input type="radio" name="code ${query}" value="${name}"${name === 'curl' && html` checked`}>${name}</label>`,
  )}</div>
${CODES.map(name => html`<pre class="command" data-code="${name}"><code>${snippet(name, parts)}</code></pre>`)}`
}

/** A request to `/api` as programs, its answer, and a link that tries it on the page. */
const asking = (query: string, words: Words, answer: Html | null): Html =>
  sample(
    html`<code>${query}</code> <a href="/#${query}">${words.tryIt}</a>`,
    programs(query, words.code),
    answer,
  )

const curl = (target: string, hasKey = true): string =>
  hasKey
    ? `curl -H "Authorization: Bearer $PROXYLIST_KEY" \\\n  "${ORIGIN}${target}"`
    : `curl "${ORIGIN}${target}"`

/** The programs under `## Recipes` of the manual, each under its name. */
const recipes = (): Html[] =>
  [...manual.matchAll(/^### (.+)\n\n```\w+\n((?:.*\n)+?)```$/gm)].map(([, name, program = '']) =>
    sample(html`${name}`, html`<pre class="command"><code>${program.trimEnd()}</code></pre>`, null),
  )

// ---------------------------------------------------------------------------------------------
// The sections

/** `items` are anchors in the section that the contents list. */
type Section = {
  id: string
  title: string
  body: Html
  items?: readonly { id: string; title: string }[]
}
const itemsOf = (kind: string, names: readonly string[]) =>
  names.map(title => ({ id: idOf(kind, title), title }))

/** Words in place of the patterns of parameters. */
const PATTERN_WORDS: { readonly [parameter: string]: keyof Words } = {
  ...{ ip: 'form_address', country: 'form_country', city: 'form_city' },
}

function sectionsOf({ info, paths, components }: Document, words: Words): Section[] {
  const { schemas } = components
  const schemaOf = (name: string): Schema => schemas[name] ?? {}
  const nameOf = ($ref: string): string => $ref.split('/').pop() ?? ''

  /** The type of a member in TypeScript. */
  function typeOf({ type, $ref, const: only, oneOf, items }: Schema): string {
    if ($ref !== undefined) return nameOf($ref)
    if (oneOf !== undefined) return oneOf.map(typeOf).join(' | ')
    if (items !== undefined) return `${typeOf(items)}[]`
    return only === undefined ? [type].flat().join(' | ') : JSON.stringify(only)
  }

  const members = (kind: string, { properties = {} }: Schema): Html =>
    rows(
      kind,
      Object.entries(properties).map(([name, schema]) => ({
        name,
        about: html`${typeOf(schema)}`,
        says: html`<p>${prose(schema.description ?? '')}</p>${
          schema.enum && html`<p class="values">${codes(schema.enum)}</p>`
        }`,
      })),
    )

  /** The names of the schemas in a schema, at any depth. Records have their own section. */
  const partsOf = (schema: Schema): string[] =>
    [...JSON.stringify(schema).matchAll(/schemas\/(\w+)/g)]
      .flatMap(([, name = '']) => [name, ...partsOf(schemaOf(name))])
      .filter(name => name !== 'Proxy')

  /** A path whose answer has one format: its members and an example. */
  function pathSection([path, { get }]: [string, { get: Operation }]): Section {
    const kind = path.slice(1)
    const [content] = Object.values(get.responses[200]?.content ?? {})
    const whole = schemaOf(nameOf(content?.schema.$ref ?? ''))
    const parts = [...new Set(partsOf(whole))].map(
      name => html`<h3 id="${idOf(kind, name)}-members"><code>${name}</code></h3>
<p>${prose(schemaOf(name).description ?? '')}</p>${members(idOf(kind, name), schemaOf(name))}`,
    )
    const [example = null] = whole.examples ?? []
    const body = beside(
      html`<p>${prose(get.summary)}. ${prose(get.description)}</p>
${members(kind, whole)}
${parts}`,
      sample(
        html`curl`,
        curl(path, get.security.length > 0),
        example === null ? null : contentCode(example),
      ),
    )
    return { id: kind, title: `GET ${path}`, body }
  }

  function acceptedBy({ name, schema }: Parameter): Html {
    const { items = schema, minimum, maximum } = schema
    if (minimum !== undefined && maximum !== undefined) {
      return maximum >= INTEGER_MAX // it only bounds the digits
        ? html`<code>${minimum}</code> ${words.orMore}`
        : html`<code>${minimum}</code> – <code>${maximum}</code>`
    }
    return html`${items.enum ? codes(items.enum) : words[PATTERN_WORDS[name] ?? 'text']}`
  }
  function kindOf({ type, enum: values }: Schema): string {
    if (type === 'array') return words.listOf
    if (type === 'integer') return words.integer
    return values === undefined ? words.text : words.oneOf
  }
  const parameterRow = (parameter: Parameter): Row => {
    const { name, description, schema, example } = parameter
    const value = Array.isArray(example) ? example.join(',') : String(example)
    return {
      name,
      about: html`${kindOf(schema)}`,
      says: html`<p>${prose(description)}</p>
<p class="values">${acceptedBy(parameter)}</p>`,
      beside: html`<p class="values"><code>?${name}=${value}</code></p>${
        schema.default !== undefined &&
        html`<p class="values">${words.byDefault} <code>${String(schema.default)}</code></p>`
      }`,
    }
  }

  const list = paths['/api']?.get
  const answers = list?.responses[200]
  const parameters = list?.parameters ?? []
  /** Parameters by the formats that they apply to. Filters apply to all. */
  const groups = Map.groupBy(parameters, each => each['x-forms']?.join(', ') ?? '')
  const groupOf = ([forms, all]: readonly [string, readonly Parameter[]]): Html => {
    const id = forms === '' ? 'filters' : `only-${forms.replaceAll(', ', '-')}`
    const title = forms === '' ? words.parametersAll : `${words.parametersOf} ${forms}`
    const note = forms === 'txt' && html`<p>${prose(words.schemes)}</p>`
    return html`<h3 id="${id}">${title}</h3>${note}${rows('parameter', all.map(parameterRow))}`
  }
  const formOf = (form: (typeof OUTPUT_KINDS)[number]): Html => {
    const type = mediaTypeOf(form)
    const { schema, examples = {} } = answers?.content?.[type] ?? {}
    const asked = Object.entries(examples).map(([query, { value }]) =>
      asking(query, words, contentCode(value)),
    )
    return beside(
      html`<h3 id="${idOf('form', form)}">${form} <small><code>${type}</code></small></h3>
<p>${prose(schema?.description ?? '')}</p>`,
      ...asked,
    )
  }

  const { enum: errorCodes = [], ...code } = schemaOf('ErrorCode')
  const errorRow = (name: string): Row => ({
    name,
    about: html`<span class="status">${code['x-enumStatuses']?.[name]}</span>`,
    says: html`<p>${prose(code['x-enumDescriptions']?.[name] ?? '')}</p>`,
  })
  const says = (text: string): Html => html`<p>${prose(text)}</p>`
  const [, aboutErrors = ''] = info.description.split('\n\n')

  return [
    {
      id: 'start',
      title: words.start,
      body: beside(
        [says(words.startText), says(words.startBuild)],
        sample(html`sh`, 'export PROXYLIST_KEY=demo', null),
        asking('type=socks5&count=3', words, null),
      ),
    },
    {
      id: 'keys',
      title: words.keys,
      body: html`${says(words.keysHeader)}
${rows('key-kind', [
  { name: 'pl_…', says: says(words.kindRegular) },
  { name: 'temp_…', says: says(words.kindTemp) },
  { name: 'demo', says: says(words.kindDemo) },
])}
<h3 id="secrets">${words.keysRules}</h3>
<ul class="list">
<li>${words.keysRule1}</li>
<li>${words.keysRule2}</li>
<li>${words.keysRule3}</li>
</ul>`,
    },
    {
      id: 'api',
      title: 'GET /api',
      items: parameters.map(({ name }) => ({ id: idOf('parameter', name), title: name })),
      body: html`${paragraphs(list?.description ?? '')}
${[...groups].map(groupOf)}`,
    },
    {
      id: 'forms',
      title: words.forms,
      items: itemsOf('form', OUTPUT_KINDS),
      body: html`${paragraphs(answers?.description ?? '')}
${OUTPUT_KINDS.map(formOf)}`,
    },
    {
      id: 'record',
      title: words.record,
      body: html`${says(schemaOf('Proxy').description ?? '')}
${members('member', schemaOf('Proxy'))}
<h3 id="envelope">${words.envelope}</h3>
${says(schemaOf('Envelope').description ?? '')}
${members('envelope', schemaOf('Envelope'))}`,
    },
    {
      id: 'errors',
      title: words.errors,
      items: itemsOf('error', errorCodes.map(String)),
      body: beside(
        html`${paragraphs(aboutErrors)}
${rows('error', errorCodes.map(String).map(errorRow))}
<h3 id="error-body">${words.errorBody}</h3>
${members('error-body', schemaOf('Error'))}`,
        sample(html`<code>429</code>`, null, contentCode(schemaOf('Error').examples?.[0])),
      ),
    },
    {
      id: 'limits',
      title: words.limits,
      body: html`${beside(
        [says(words.limitsText), says(words.limitsHeaders), says(words.limitsWait)],
        sample(html`HTTP`, null, html`${LIMIT_HEADERS}`),
      )}
<h3 id="headers">${words.headers}</h3>
${rows(
  'header',
  Object.entries(components.headers).map(([name, { description }]) => ({
    name,
    says: says(description),
  })),
)}`,
    },
    ...Object.entries(paths)
      .filter(([path]) => path !== '/api')
      .map(pathSection),
    {
      id: 'clients',
      title: words.clients,
      body: beside(
        says(words.clientsText),
        sample(
          html`<code>/openapi.json</code>`,
          `curl -o openapi.json "${ORIGIN}/openapi.json"`,
          null,
        ),
        ...recipes(),
      ),
    },
  ]
}

const LIMIT_HEADERS =
  'RateLimit-Policy: "burst";q=5;w=5, "daily";q=34560;w=86400\nRateLimit: "burst";r=4;t=5, "daily";r=34559;t=43200'

const link = (href: string | undefined, text: string): Html | undefined =>
  href === undefined ? undefined : html`<a href="${href}">${text}</a>`

const top = (lang: Lang, words: Words, branding: Branding): Html => html`<header class="top">
<a class="brand" href="/"><span>${branding.siteName}</span></a>
<nav class="row" aria-label="${words.pages}">
<a href="/">${words.query}</a>
<a href="/docs?lang=${lang}" aria-current="page">${words.reference}</a>
<a href="/#my-key">${words.myKey}</a>
</nav>
<p class="operator">${link(branding.contact, words.contact)}${link(branding.keyUrl, words.getKey)}</p>
<div class="preferences">
<div class="switch" role="group" aria-label="${words.language}">${LANGS.map(
  code =>
    html`<a href="/docs?lang=${code}" lang="${code}" hreflang="${code}"${code === lang && html` aria-current="true"`}>${code.toUpperCase()}</a>`,
)}</div>
</div>
</header>`

const contents = (
  sections: readonly Section[],
  words: Words,
): Html => html`<nav class="contents scroller" aria-label="${words.contents}">
<ul>${sections.map(
  ({ id, title, items }) => html`
<li><a href="#${id}">${title}</a>${
    items &&
    html`<ul>${items.map(item => html`<li><a href="#${encodeURIComponent(item.id)}">${item.title}</a></li>`)}</ul>`
  }</li>`,
)}
</ul>
</nav>`

/** `files`: the bundled style, script and icon. */
export function docsPage(
  document: Document,
  lang: Lang,
  files: readonly { name: string }[],
  branding: Branding,
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
<title>${words.reference} · ${branding.siteName}</title>
<link rel="icon" href="${fileOf('.svg')}">
<link rel="stylesheet" href="${fileOf('.css')}">
<script type="module" blocking="render" src="${fileOf('.js')}"></script>
</head>
<body>
<a class="skip" href="#main">${words.skip}</a>
${top(lang, words, branding)}
<div class="docs">
${contents(sections, words)}
<main id="main" data-copy="${words.copy}" data-copied="${words.copied}">
<header class="intro">
<h1>${words.reference} <small>${info.title} ${info.version}</small></h1>
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
