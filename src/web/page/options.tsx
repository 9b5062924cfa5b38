/**
 * What all filters have: what they know, their frame, and check boxes that are charts: each row has its
 * count, drawn as a bar.
 */
import type { ComponentChildren } from 'preact'
import type { StatsDocument } from '../../proxies/stats-document.ts'
import { Level } from '../parts/amounts.tsx'
import { type Choice, itemsOf, toggled } from './model/query.ts'
import type { Say } from './translations.ts'

export type FilterProps = {
  choice: Choice
  set: (change: Partial<Choice>) => void
  /** Of the choice; `null` where there are none. */
  stats: StatsDocument | null
  /** Of the choice that a visitor begins with: the order of countries, which stays while one chooses. */
  whole: StatsDocument | null
  services: readonly string[]
  say: Say
}

type CardProps = {
  title: string
  hint?: string | false
  /** At the end of the line of the title. */
  end?: ComponentChildren
  children: ComponentChildren
}

export const Card = ({ title, hint, end, children }: CardProps) => (
  <fieldset class="card">
    <legend class="card-title">
      {title}
      {hint && <small> {hint}</small>}
    </legend>
    {end && <div class="card-end">{end}</div>}
    {children}
  </fieldset>
)

export type Option = {
  /** What the API calls it. */
  value: string
  label: string
  hint?: string | undefined
  /** A short name before it, such as the code of a country. */
  tag?: string
  /** What the statistics call it; by default `value`. */
  counted?: string
}

type OptionsProps = FilterProps & {
  name: 'type' | 'anon' | 'country' | 'service'
  options: readonly Option[]
}

export function Options({ name, options, choice, set, stats, say }: OptionsProps) {
  const chosen = itemsOf(choice[name])
  const countOf = ({ value, counted = value }: Option): number => stats?.facets[name][counted] ?? 0
  // Of services, a proxy can have several: a full bar is all that match.
  const most = Math.max(
    1,
    ...(name === 'service' && stats ? [stats.matching] : options.map(countOf)),
  )
  return (
    <ul class="options" data-any={chosen.length === 0 || undefined}>
      {options.map(option => {
        const count = countOf(option)
        return (
          <li key={option.value}>
            <label class="option" data-none={(stats && count === 0) || undefined}>
              <input
                type="checkbox"
                name={name}
                value={option.value}
                checked={chosen.includes(option.value)}
                onChange={() => set({ [name]: toggled(choice[name], option.value) })}
              />
              <span class="option-name">
                {option.tag && (
                  <i class="tag" aria-hidden="true">
                    {option.tag}
                  </i>
                )}
                <span title={option.label}>{option.label}</span>
                {option.hint && <small>{option.hint}</small>}
              </span>
              <span class="option-count">{stats && say.number(count)}</span>
              {stats && <Level share={count / most} />}
            </label>
          </li>
        )
      })}
    </ul>
  )
}
