/**
 * Limits of measured values: a slider below the distribution that it cuts, with a field that takes any
 * number; and the choice of an age, each as high as what it lets through.
 */
import type { Histogram } from '../../proxies/stats-document.ts'
import { fill } from '../parts/speech.ts'
import type { Facet } from './model/facets.ts'
import { AGES, DEFAULT_AGE_SECONDS, isInvalid } from './model/query.ts'
import { columnPasses, type Limited } from './model/stats.ts'
import type { Say } from './words.ts'

type LimitProps = {
  name: Limited
  label: string
  /** What the field takes: `at most, ms`. */
  fieldLabel: string
  histogram: Histogram | null
  value: string
  set: (value: string) => void
  unit: string
  /** Whether the value is the most or the least that passes. */
  direction: 'most' | 'least'
  max: number
  show: (n: number) => string
  say: Say
}

/** Where there are no statistics, the slider has these steps. */
const STEPS = {
  ping: [100, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000],
  speed: [10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000],
  works: [10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
}
const BLANK = Array.from({ length: 10 }, () => 0)

/** The values of the slider, from left to right; `''` is no limit. */
function stepsOf({ name, histogram, direction }: LimitProps): string[] {
  const edges = histogram === null ? STEPS[name] : histogram.edges.slice(1, histogram.counts.length)
  const steps = edges.filter(edge => edge > 0).map(String)
  return direction === 'most' ? [...steps, ''] : ['', ...steps]
}

/** The step that comes nearest to a value. */
function nearest(steps: readonly string[], value: string, direction: 'most' | 'least'): number {
  if (value === '') return steps.indexOf('')
  const distance = (step: string): number =>
    step === '' ? Number.POSITIVE_INFINITY : Math.abs(Number(step) - Number(value))
  const best = steps.toSorted((a, b) => distance(a) - distance(b))[0] ?? ''
  const last = Number(steps.at(direction === 'most' ? -2 : -1))
  return direction === 'most' && Number(value) > last ? steps.length - 2 : steps.indexOf(best)
}

function Columns({ name, histogram, value, say }: LimitProps) {
  const counts = histogram?.counts ?? BLANK
  const edges = histogram?.edges ?? []
  const most = Math.max(1, ...counts)
  const isIn = (i: number): boolean =>
    value === '' || histogram === null || columnPasses(name, histogram, i, Number(value))
  return (
    <div class="columns" aria-hidden="true">
      {counts.map((n, i) => (
        <span
          key={edges[i] ?? `blank ${i}`}
          data-in={isIn(i) || undefined}
          title={say.number(n)}
          style={{ '--share': n / most }}
        />
      ))}
    </div>
  )
}

export function Limit(props: LimitProps) {
  const { name, label, fieldLabel, unit, value, set, direction, max, show, say } = props
  const { words } = say
  const steps = stepsOf(props)
  const isWrong = isInvalid(name, value)
  const valid = isWrong ? '' : value.trim()
  const sentence = direction === 'most' ? words.atMost : words.atLeast
  const text = valid === '' ? words.any : fill(sentence, { n: show(Number(valid)) })
  return (
    <div class="limit" data-set={valid !== '' || undefined}>
      <Columns {...props} value={valid} />
      <input
        type="range"
        min={0}
        max={steps.length - 1}
        value={nearest(steps, valid, direction)}
        aria-label={label}
        aria-valuetext={text}
        onInput={event => set(steps[Number(event.currentTarget.value)] ?? '')}
      />
      <div class="limit-line">
        <span class="limit-value" aria-hidden="true">
          {text}
        </span>
        <input
          class="input small"
          name={name}
          value={value}
          inputMode="numeric"
          maxLength={15}
          autocomplete="off"
          placeholder={unit}
          aria-label={`${label}, ${fieldLabel}`}
          title={isWrong ? fill(words.numberInvalid, { min: 0, max: say.number(max) }) : fieldLabel}
          aria-invalid={isWrong || undefined}
          onInput={event => set(event.currentTarget.value)}
        />
      </div>
    </div>
  )
}

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
