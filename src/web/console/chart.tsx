/**
 * Owns charts over time. uPlot draws on a canvas as wide as its place; the legend, which says the
 * values at the cursor, and the table for those who do not see the canvas are ours.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Values } from '../../admin/wire.ts'
import { fill } from '../parts/speech.ts'
import {
  type Columns,
  coarsen,
  latest,
  type Merge,
  mean,
  pointSeconds,
  stack,
  withGaps,
} from './chart-data.ts'
import { useConsole } from './context.ts'
import { makePlot, type Plot, useLook } from './plot.ts'

/** A series; `merge` makes one point of several, else their mean is drawn. */
export type Line = { name: string; tone: string; values: Values; merge?: Merge }

const HOUR_SECONDS = 3600

type Props = {
  title: string
  unit: string
  at: readonly number[]
  everySeconds: number
  lines: readonly Line[]
  /** Whether each line is added to those before it. */
  isStacked?: boolean
  show(n: number): string
}

export function TimeChart({ title, unit, at, everySeconds, lines, isStacked, show }: Props) {
  const { speech } = useConsole()
  const { words, clock } = speech
  const [cursor, setCursor] = useState<number | null>(null)
  const data = useMemo(() => {
    const step = Math.max(pointSeconds(at[0] ?? 0, at.at(-1) ?? 0), everySeconds)
    const exact = { at, series: lines.map(({ values }) => values) }
    const merges = lines.map(({ merge }) => merge ?? mean)
    const known = withGaps(coarsen(exact, step, merges), step)
    return { ...known, drawn: isStacked ? stack(known.series) : known.series, exact, merges }
  }, [at, lines, everySeconds, isStacked])
  const shown = (values: Values): string => {
    const value = cursor === null ? latest(values) : (values[cursor] ?? null)
    return value === null ? words.unknown : show(value)
  }
  const moment = cursor === null ? undefined : data.at[cursor]
  const values = lines.map(({ name }, index) => {
    const last = latest(data.series[index] ?? [])
    return `${name} ${last === null ? words.unknown : show(last)}`
  })
  return (
    <section class="card chart" aria-label={title}>
      <h2>
        {title} <small>{unit}</small>
      </h2>
      <ul class="legend" aria-hidden="true">
        {lines.map(({ name, tone }, index) => (
          <li key={name} data-tone={tone}>
            {name} <b>{shown(data.series[index] ?? [])}</b>
          </li>
        ))}
        {moment !== undefined && (
          <li class="moment">{fill(words.at, { time: clock(moment * 1000) })}</li>
        )}
      </ul>
      <Canvas
        label={fill(words.chartLabel, { name: title, unit, values: values.join(', ') })}
        {...{ data, tones: lines.map(({ tone }) => tone), isFilled: isStacked === true }}
        {...{ show, clock, onCursor: setCursor }}
      />
      <HourTable {...{ columns: data.exact, merges: data.merges, lines, show, title }} />
    </section>
  )
}

type CanvasProps = {
  label: string
  data: { at: readonly number[]; drawn: readonly (readonly (number | null)[])[] }
  tones: readonly string[]
  isFilled: boolean
  show(n: number): string
  clock(ms: number): string
  onCursor(index: number | null): void
}

function Canvas({ label, data, tones, isFilled, show, clock, onCursor }: CanvasProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<Plot | null>(null)
  const look = useLook()
  const names = tones.join(' ')
  useEffect(() => {
    if (place.current === null) return
    const made = makePlot(place.current, { tones, isFilled, show, clock, onCursor })
    plot.current = made
    return made.remove
  }, [look, names, isFilled, show, clock])
  useEffect(() => plot.current?.show(data.at, data.drawn))
  return <div ref={place} class="canvas" role="img" aria-label={label} />
}

type TableProps = {
  columns: Columns
  merges: readonly Merge[]
  lines: readonly Line[]
  show(n: number): string
  title: string
}

/** Each hour in numbers; made when it is opened. */
function HourTable({ columns, merges, lines, show, title }: TableProps) {
  const { words, clock } = useConsole().speech
  const [isOpen, setOpen] = useState(false)
  const hours = isOpen ? coarsen(columns, HOUR_SECONDS, merges) : { at: [], series: [] }
  const shown = (value: number | null | undefined): string =>
    value === null || value === undefined ? words.unknown : show(value)
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>
        {words.asTable}
        <span class="hidden">: {title}</span>
      </summary>
      {isOpen && (
        <table>
          <thead>
            <tr>
              <th scope="col">{words.hour}</th>
              {lines.map(({ name }) => (
                <th scope="col" key={name} class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {hours.at.toReversed().map(hour => (
              <tr key={hour}>
                <th scope="row">{clock(hour * 1000)}</th>
                {hours.series.map((values, index) => (
                  <td key={lines[index]?.name} class="number">
                    {shown(values[hours.at.indexOf(hour)])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  )
}
