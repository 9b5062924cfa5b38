/** Filters of measured values: a slider on their distribution with a field, and the choice of an age. */
import type { Histogram, StatsDocument } from '../../proxies/stats-document.ts'
import { fill } from '../parts/format.ts'
import { AGES, DEFAULT_AGE_SECONDS } from './model/query.ts'
import type { FilterProps } from './options.tsx'

type Limited = keyof StatsDocument['histograms']

/** Whether the limit is a maximum. */
const isMost = (name: Limited): boolean => name === 'ping'

/** The values of the slider, from left to right; `''` is no limit. */
function stepsOf(name: Limited, { edges, counts }: Histogram): string[] {
  const steps = edges.slice(1, counts.length).map(String)
  return isMost(name) ? [...steps, ''] : ['', ...steps]
}

function nearest(steps: readonly string[], value: string): number {
  const distance = (step: string): number =>
    step === '' ? Number.POSITIVE_INFINITY : Math.abs(Number(step) - Number(value))
  const best = steps.toSorted((a, b) => distance(a) - distance(b))[0]
  return steps.indexOf(value === '' ? value : (best ?? ''))
}

type SliderProps = {
  name: Limited
  histogram: Histogram
  /** `''`: no limit. */
  value: string
  label: string
  text: string
  set(value: string): void
  show(n: number): string
  count(n: number): string
}

/** Columns with their edges below, and a handle at the edge that is the limit. */
function Slider({ name, histogram, value, label, text, set, show, count }: SliderProps) {
  const { edges, counts } = histogram
  const { length: bins } = counts
  const most = Math.max(1, ...counts)
  const steps = stepsOf(name, histogram)
  const at = nearest(steps, value)
  const isIn = (i: number): boolean => (isMost(name) ? i <= at : i >= at)
  return (
    <>
      <div class="columns" aria-hidden="true">
        {counts.map((n, i) => (
          <span
            key={edges[i]}
            data-in={isIn(i) || undefined}
            style={{ '--share': n / most }}
            title={`${show(edges[i] ?? 0)} – ${show(edges[i + 1] ?? 0)}: ${count(n)}`}
          />
        ))}
      </div>
      <input
        type="range"
        min={0}
        max={steps.length - 1}
        value={at}
        style={{
          marginInlineStart: `calc(${isMost(name) ? 100 / bins : 0}% - 9px)`,
          inlineSize: `calc(${100 - 100 / bins}% + 18px)`,
        }}
        aria-label={label}
        aria-valuetext={text}
        onInput={event => set(steps[Number(event.currentTarget.value)] ?? '')}
      />
      <div class="ticks" aria-hidden="true">
        {edges.map((edge, i) => {
          const place = (i / bins) * 100
          return (
            i % Math.ceil(bins / 3) === 0 && (
              <span key={edge} style={{ left: `${place}%`, translate: `-${place}%` }}>
                {show(edge)}
              </span>
            )
          )
        })}
      </div>
    </>
  )
}

export function Limit({ name, choice, set, stats, say }: FilterProps & { name: Limited }) {
  const { words } = say
  const { unit, max, show } = {
    ping: {
      ...{ unit: words.pingUnit, max: undefined },
      show: (n: number) => say.unit(n, 'millisecond'),
    },
    works: { unit: '%', max: 100, show: say.percent },
    speed: { unit: words.speedUnit, max: undefined, show: say.rate },
  }[name]
  const value = choice[name]
  const sentence = isMost(name) ? words.atMost : words.atLeast
  const text = value === '' ? words.any : fill(sentence, { n: show(Number(value)) })
  const fieldLabel = words[`${name}Limit`]
  const histogram = stats?.histograms[name]
  return (
    <div class="limit" data-set={value !== '' || undefined}>
      <div class="plot">
        {histogram && (
          <Slider
            {...{ name, histogram, value, label: words[name], text, show }}
            set={limit => set({ [name]: limit })}
            count={say.number}
          />
        )}
      </div>
      <div class="limit-line">
        <span class="limit-value" aria-hidden="true">
          {text}
        </span>
        <input
          class="small"
          type="number"
          name={name}
          value={value}
          min={0}
          max={max}
          autocomplete="off"
          placeholder={unit}
          title={fieldLabel}
          aria-label={`${words[name]}, ${fieldLabel}`}
          onInput={event => set({ [name]: event.currentTarget.value })}
        />
      </div>
    </div>
  )
}

export function Ages({ choice, set, stats, say }: FilterProps) {
  const ages = AGES.map(String)
  const countOf = (age: string): number => stats?.facets.age[age] ?? 0
  const most = Math.max(1, ...ages.map(countOf))
  const chosen = choice.time === '' ? String(DEFAULT_AGE_SECONDS) : choice.time
  return (
    <div class="ages">
      {ages.map(age => (
        <label key={age} class="age" title={stats ? say.number(countOf(age)) : undefined}>
          <input
            type="radio"
            name="time"
            value={age}
            checked={age === chosen}
            onChange={() => set({ time: age })}
          />
          <span class="columns" aria-hidden="true">
            <span
              data-in={Number(age) <= Number(chosen) || undefined}
              style={{ '--share': countOf(age) / most }}
            />
          </span>
          {say.age(Number(age))}
        </label>
      ))}
    </div>
  )
}
