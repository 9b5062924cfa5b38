/**
 * Owns the reference page (contract F5): HTML made from the OpenAPI document. It has no script, and
 * its style is a file, so its Content-Security-Policy allows neither scripts nor inline style.
 */
import type { Document } from '../../api/openapi/schema.ts'
import type { Lang } from '../../proxies/proxy.ts'
import { type Html, html, prose } from './html.ts'
import { type Section, sectionsOf } from './sections.ts'
import { type Words, wordsOf } from './words.ts'

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
