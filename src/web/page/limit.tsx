/**
 * Limits of measured values: a slider on the edges of the distribution that it cuts, with a field that takes
 * any number; and the choice of an age, each as high as what it lets through.
 */
import { useState } from 'preact/hooks'
import type { Histogram, StatsDocument } from '../../proxies/stats-document.ts'
import { fill } from '../parts/format.ts'
import { AGES, DEFAULT_AGE_SECONDS, INTEGER_MAX, isInvalid } from './model/query.ts'
import type { FilterProps } from './options.tsx'

/** The filters that histograms are about. */
type Limited = keyof StatsDocument['histograms']

/** Whether the value of a limit is the most that passes, or the least. */
const isMost = (name: Limited): boolean => name === 'ping'

/** The values of the slider, from left to right; `''` is no limit. */
function stepsOf(name: Limited, { edges, counts }: Histogram): string[] {
  const steps = edges
    .slice(1, counts.length)
    .filter(edge => edge > 0)
    .map(String)
  return isMost(name) ? [...steps, ''] : ['', ...steps]
}

/**
 * Whether a limit lets values of a column through. A value that equals an edge is counted on the side that
 * a limit there lets through; the end columns have what lies beyond, too.
 */
function columnPasses(
  name: Limited,
  { edges, counts }: Histogram,
  i: number,
  limit: number,
): boolean {
  if (isMost(name)) return i === 0 || (edges[i] ?? 0) < limit
  return i === counts.length - 1 || (edges[i + 1] ?? 0) > limit
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

/** Columns with about four of their edges below, and a handle at the edge that is the limit. */
function Slider({ name, histogram, value, label, text, set, show, count }: SliderProps) {
  const { edges, counts } = histogram
  const { length: bins } = counts
  const most = Math.max(1, ...counts)
  const steps = stepsOf(name, histogram)
  const at = nearest(steps, value)
  const [over, setOver] = useState<number | null>(null)
  const bin = over === null ? null : Math.min(bins - 1, Math.max(0, over))
  const isIn = (i: number): boolean =>
    value === '' || columnPasses(name, histogram, i, Number(value))
  return (
    <>
      <div
        class="columns"
        aria-hidden="true"
        onPointerMove={event => {
          const { left, width } = event.currentTarget.getBoundingClientRect()
          setOver(Math.floor(((event.clientX - left) / width) * bins))
        }}
        onPointerLeave={() => setOver(null)}
      >
        {counts.map((n, i) => (
          <span key={edges[i]} data-in={isIn(i) || undefined} style={{ '--share': n / most }} />
        ))}
        {bin !== null && (
          <p
            class="tip"
            style={{ left: `${Math.min(75, Math.max(25, ((bin + 0.5) / bins) * 100))}%` }}
          >
            {show(edges[bin] ?? 0)} – {show(edges[bin + 1] ?? 0)} <b>{count(counts[bin] ?? 0)}</b>
          </p>
        )}
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
        onFocus={() => setOver(at)}
        onBlur={() => setOver(null)}
        aria-label={label}
        aria-valuetext={text}
        onInput={event => {
          const step = Number(event.currentTarget.value)
          setOver(step)
          set(steps[step] ?? '')
        }}
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
      unit: words.pingUnit,
      max: INTEGER_MAX,
      show: (n: number) => say.unit(n, 'millisecond'),
    },
    works: { unit: '%', max: 100, show: say.percent },
    speed: { unit: words.speedUnit, max: INTEGER_MAX, show: say.rate },
  }[name]
  const value = choice[name]
  const isWrong = isInvalid(name, value)
  const valid = isWrong ? '' : value.trim()
  const sentence = isMost(name) ? words.atMost : words.atLeast
  const text = valid === '' ? words.any : fill(sentence, { n: show(Number(valid)) })
  const fieldLabel = words[`${name}Limit`]
  const histogram = stats?.histograms[name]
  return (
    <div class="limit" data-set={valid !== '' || undefined}>
      <div class="plot">
        {histogram && (
          <Slider
            {...{ name, histogram, value: valid, label: words[name], text, show }}
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
          class="input small"
          name={name}
          value={value}
          inputMode="numeric"
          maxLength={15}
          autocomplete="off"
          placeholder={unit}
          aria-label={`${words[name]}, ${fieldLabel}`}
          title={isWrong ? fill(words.numberInvalid, { min: 0, max: say.number(max) }) : fieldLabel}
          aria-invalid={isWrong || undefined}
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
  const isOwn = !ages.includes(chosen)
  const count = isOwn ? stats?.matching : stats?.facets.age[chosen]
  return (
    <>
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
            {say.span(Number(age))}
          </label>
        ))}
      </div>
      <p class="age-count">
        {isOwn && <b>{say.span(Number(chosen))}</b>} {count !== undefined && say.number(count)}
      </p>
    </>
  )
}
