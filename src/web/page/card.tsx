/** Owns the frame of a group of filters: its name, what stands beside it, and its controls. */
import type { ComponentChildren } from 'preact'

type CardProps = {
  title: string
  hint?: string
  /** How wide it is in the grid; by default a third. */
  area?: 'map' | 'last'
  /** At the end of the line of the title. */
  end?: ComponentChildren
  children: ComponentChildren
}

export const Card = ({ title, hint, area, end, children }: CardProps) => (
  <fieldset class="card" data-area={area}>
    <legend class="card-title">
      {title}
      {hint !== undefined && (
        <>
          {' '}
          <small>{hint}</small>
        </>
      )}
    </legend>
    {end !== undefined && <div class="card-end">{end}</div>}
    {children}
  </fieldset>
)
