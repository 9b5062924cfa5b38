/**
 * Limits of measured values: a slider below the distribution that it cuts, with a field that takes any
 * number; and the choice of an age, each as high as what it lets through.
 */
import { useState } from 'preact/hooks'
import type { Histogram, StatsDocument } from '../../proxies/stats-document.ts'
import { fill } from '../parts/speech.ts'
import { AGES, DEFAULT_AGE_SECONDS, INTEGER_MAX, isInvalid } from './model/query.ts'
import type { FilterProps } from './options.tsx'
import type { Say } from './words.ts'

/** The filters that histograms are about. */
type Limited = keyof StatsDocument['histograms']

/** Where there are no statistics, the slider has these steps. */
const STEPS = {
  ping: [100, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000],
  speed: [10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000],
  works: [10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
}
const BLANK = Array.from({ length: 10 }, () => 0)

/** Whether the value of a limit is the most that passes, or the least. */
const isMost = (name: Limited): boolean => name === 'ping'

/** The values of the slider, from left to right; `''` is no limit. */
function stepsOf(name: Limited, histogram: Histogram | null): string[] {
  const edges = histogram === null ? STEPS[name] : histogram.edges.slice(1, histogram.counts.length)
  const steps = edges.filter(edge => edge > 0).map(String)
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

/** The step that comes nearest to a value. */
function nearest(steps: readonly string[], value: string, name: Limited): number {
  if (value === '') return steps.indexOf('')
  const distance = (step: string): number =>
    step === '' ? Number.POSITIVE_INFINITY : Math.abs(Number(step) - Number(value))
  const best = steps.toSorted((a, b) => distance(a) - distance(b))[0] ?? ''
  return isMost(name) && Number(value) > Number(steps.at(-2))
    ? steps.length - 2
    : steps.indexOf(best)
}

type ColumnsProps = { name: Limited; histogram: Histogram | null; value: string; say: Say }

function Columns({ name, histogram, value, say }: ColumnsProps) {
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

/** Edges below the columns, with their unit: about four. */
function Ticks({ histogram, show }: { histogram: Histogram | null; show(n: number): string }) {
  const { length: bins } = histogram?.counts ?? BLANK
  const every = Math.ceil(bins / 3)
  return (
    <div class="ticks" aria-hidden="true">
      {histogram?.edges.map(
        (edge, i) =>
          i % every === 0 && (
            <span key={edge} style={{ left: `${(i / bins) * 100}%` }}>
              {show(edge)}
            </span>
          ),
      )}
    </div>
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
  const histogram = stats?.histograms[name] ?? null
  const steps = stepsOf(name, histogram)
  const isWrong = isInvalid(name, value)
  const valid = isWrong ? '' : value.trim()
  const sentence = isMost(name) ? words.atMost : words.atLeast
  const text = valid === '' ? words.any : fill(sentence, { n: show(Number(valid)) })
  const { length: bins } = histogram?.counts ?? BLANK
  const at = nearest(steps, valid, name)
  const [over, setOver] = useState<number | null>(null)
  const bin = over === null || histogram === null ? null : Math.min(bins - 1, Math.max(0, over))
  const fieldLabel = words[`${name}Limit`]
  return (
    <div class="limit" data-set={valid !== '' || undefined}>
      <div
        class="plot"
        onPointerMove={event => {
          const { left, width } = event.currentTarget.getBoundingClientRect()
          setOver(Math.floor(((event.clientX - left) / width) * bins))
        }}
        onPointerLeave={() => setOver(null)}
      >
        <Columns name={name} histogram={histogram} value={valid} say={say} />
        {bin !== null && (
          <span
            class="tip"
            style={{ left: `${Math.min(75, Math.max(25, ((bin + 0.5) / bins) * 100))}%` }}
          >
            {show(histogram?.edges[bin] ?? 0)} – {show(histogram?.edges[bin + 1] ?? 0)}{' '}
            <b>{say.number(histogram?.counts[bin] ?? 0)}</b>
          </span>
        )}
      </div>
      <input
        type="range"
        min={0}
        max={steps.length - 1}
        value={at}
        // Its handle stands at the edge that is the limit.
        style={{
          marginInlineStart: `calc(${isMost(name) ? 100 / bins : 0}% - 9px)`,
          inlineSize: `calc(${100 - 100 / bins}% + 18px)`,
        }}
        onFocus={() => setOver(at)}
        onBlur={() => setOver(null)}
        aria-label={words[name]}
        aria-valuetext={text}
        onInput={event => {
          const step = Number(event.currentTarget.value)
          setOver(step)
          set({ [name]: steps[step] ?? '' })
        }}
      />
      <Ticks histogram={histogram} show={show} />
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
        {ages.map(age => {
          return (
            <label key={age} class="age" title={stats ? say.number(countOf(age)) : undefined}>
              <input
                type="radio"
                name="time"
                value={age}
                checked={age === chosen}
                onChange={() => set({ time: age })}
              />
              <span class="age-column" aria-hidden="true">
                <span
                  data-in={Number(age) <= Number(chosen) || undefined}
                  style={{ '--share': stats === null ? 1 : countOf(age) / most }}
                />
              </span>
              <span class="age-name">{say.span(Number(age))}</span>
            </label>
          )
        })}
      </div>
      <p class="age-count">
        {isOwn && <b>{say.span(Number(chosen))}</b>}
        {count !== undefined && say.number(count)}
      </p>
    </>
  )
}
