/** Owns the choice of an age: one of a few, each as high as what it lets through. */
import type { Facet } from './model/facets.ts'
import { AGES, DEFAULT_AGE_SECONDS } from './model/query.ts'
import type { Say } from './words/say.ts'

type AgesProps = {
  counts: Facet | null
  value: string
  set: (value: string) => void
  say: Say
}

export function Ages({ counts, value, set, say }: AgesProps) {
  const ages = counts === null ? AGES.map(String) : [...counts.keys()]
  const most = Math.max(1, ...[...(counts?.values() ?? [])].map(({ size }) => size))
  const chosen = value === '' ? String(DEFAULT_AGE_SECONDS) : value
  const isOwn = !ages.includes(chosen)
  const count = counts?.get(chosen)
  return (
    <>
      <div class="ages">
        {ages.map(age => {
          const count = counts?.get(age)
          return (
            <label key={age} class="age" title={count && say.range(count)}>
              <input
                type="radio"
                name="time"
                value={age}
                checked={age === chosen}
                onChange={() => set(age)}
              />
              <span class="age-column" aria-hidden="true">
                <span
                  data-in={Number(age) <= Number(chosen) || undefined}
                  style={{ '--share': count === undefined ? 1 : count.size / most }}
                />
              </span>
              <span class="age-name">{say.span(Number(age))}</span>
            </label>
          )
        })}
      </div>
      <p class="age-count">
        {isOwn && <b>{say.span(Number(chosen))}</b>}
        {count && say.bound(count)}
      </p>
    </>
  )
}
