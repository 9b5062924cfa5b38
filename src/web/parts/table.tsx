/** Cards, tables, names with their values, and what scrolls by itself. */
import type { ComponentChildren } from 'preact'

type CardProps = {
  title: string
  /** After the title, and softer. */
  hint?: string
  look?: string
  children: ComponentChildren
}

export const Card = ({ title, hint, look = '', children }: CardProps) => (
  <section class={`card ${look}`} aria-label={title}>
    <h2>
      {title} {hint && <small>{hint}</small>}
    </h2>
    {children}
  </section>
)

type Column = {
  name: string
  /** What stands in the head; by default the name. */
  head?: ComponentChildren
  /** Its class: `number`, or when a narrow screen leaves it out. */
  look?: string
  more?: { readonly [attribute: string]: string | undefined }
}

type TableProps = {
  /** For screen readers alone. */
  caption?: string
  look?: string
  /** A text is a name. */
  columns: readonly (string | Column)[]
  children: ComponentChildren
}

export const Table = ({ caption, look, columns, children }: TableProps) => (
  <table class={look}>
    {caption && <caption class="hidden">{caption}</caption>}
    <thead>
      <tr>
        {columns
          .map((column): Column => (typeof column === 'string' ? { name: column } : column))
          .map(({ name, head = name, look, more }) => (
            <th key={name} scope="col" class={look} {...more}>
              {head}
            </th>
          ))}
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
)

/** Names, each with its value. */
export const Facts = (props: {
  look?: string
  facts: readonly (readonly [name: string, value: ComponentChildren])[]
}) => (
  <dl class={props.look}>
    {props.facts.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
)

/** What scrolls has to take the focus, else a keyboard cannot scroll it (WCAG 2.1.1). */
const FOCUSABLE = { tabIndex: 0 }

/** A part of a page that scrolls by itself, with a name and within reach of the keyboard. */
export const Scroller = ({ name, children }: { name: string; children: ComponentChildren }) => (
  <section class="scroller" aria-label={name} {...FOCUSABLE}>
    {children}
  </section>
)
