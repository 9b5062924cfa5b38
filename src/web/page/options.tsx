/** Check boxes that are charts: each row has its count, drawn as a bar. */
import type { StatsDocument } from '../../proxies/stats-document.ts'
import { Level } from '../parts/amounts.tsx'
import { type Choice, itemsOf, toggled } from './model/query.ts'
import type { Say } from './translations.ts'

export type FilterProps = {
  choice: Choice
  set: (change: Partial<Choice>) => void
  /** For the choice; `null` while there are none. */
  stats: StatsDocument | null
  /** Without filters: the order of countries does not depend on the choice. */
  whole: StatsDocument | null
  services: readonly string[]
  say: Say
}

export type Option = {
  /** The value in the API. */
  value: string
  label: string
  hint?: string | undefined
  /** A short name before it, such as the code of a country. */
  tag?: string
  /** The name in the statistics, by default `value`. */
  counted?: string
}

type OptionsProps = FilterProps & {
  name: 'type' | 'anon' | 'country' | 'service'
  options: readonly Option[]
}

export function Options({ name, options, choice, set, stats, say }: OptionsProps) {
  const chosen = itemsOf(choice[name])
  const countOf = ({ value, counted = value }: Option): number => stats?.facets[name][counted] ?? 0
  // A proxy can have several services: a full bar stands for all matches.
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
                    {`${option.tag} `}
                  </i>
                )}
                <span title={option.label}>{option.label}</span>
                {option.hint && <small> {option.hint}</small>}
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
