/** Owns the parts of the reference page: rows of what there is, samples, and how schemas are shown. */
import type { Parameter, Schema } from '../../api/openapi/schema.ts'
import { escapeHtml, type Html, html, prose } from './html.ts'
import type { Words } from './words.ts'

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
