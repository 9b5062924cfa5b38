/** Owns writing HTML: what is put into a template is escaped unless it is HTML itself. */

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
