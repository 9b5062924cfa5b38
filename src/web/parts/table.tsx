/** Cards, tables, lists of facts, and scrolling areas. */
import type { ComponentChildren } from 'preact'

type CardProps = {
  title: string
  hint?: string | false
  look?: string
  /** Of filters: "group". */
  role?: 'group'
  /** Controls beside the title. */
  end?: ComponentChildren
  children: ComponentChildren
}

export const Card = ({ title, hint, look = '', role, end, children }: CardProps) => (
  <section class={`card ${look}`} aria-label={title} role={role}>
    <div class="card-head">
      <h2>
        {title} {hint && <small>{hint}</small>}
      </h2>
      {end}
    </div>
    {children}
  </section>
)

type Column = {
  name: string
  /** Content of the head, by default the name. */
  head?: ComponentChildren
  /** A class: `number`, or one that a narrow screen hides. */
  look?: string
  more?: { readonly [attribute: string]: string | undefined }
}

type TableProps = {
  /** For screen readers. */
  caption?: string
  look?: string
  /** A string is a name. */
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

/** A keyboard can scroll only an area that takes the focus (WCAG 2.1.1). */
const FOCUSABLE = { tabIndex: 0 }

/** A scrolling area with a name. */
export const Scroller = ({ name, children }: { name: string; children: ComponentChildren }) => (
  <section class="scroller" aria-label={name} {...FOCUSABLE}>
    {children}
  </section>
)
