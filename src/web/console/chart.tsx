/**
 * Charts over time. uPlot draws on a canvas as wide as its place; the legend, which says the values at
 * the cursor, and the table for those who do not see the canvas are ours.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import type { Values } from '../../admin/wire.ts'
import { Card, Table } from '../parts/table.tsx'
import {
  type Columns,
  coarsen,
  latest,
  lonely,
  type Merge,
  mean,
  pointSeconds,
  spanOf,
  stack,
  ticksUpTo,
  withGaps,
} from './chart-data.ts'
import { clock, UNKNOWN } from './speech.ts'

/** A series; `merge` makes one point of several, else their mean is drawn. */
export type Line = { name: string; tone: string; values: Values; merge?: Merge }

const HOUR_SECONDS = 3600

type Show = (n: number) => string

type ChartProps = {
  title: string
  unit: string
  at: readonly number[]
  everySeconds: number
  lines: readonly Line[]
  /** Whether each line is added to those before it. */
  isStacked?: boolean
  show: Show
}

const shown = (value: number | null | undefined, show: Show): string =>
  value === null || value === undefined ? UNKNOWN : show(value)

export function TimeChart(props: ChartProps) {
  const { title, unit, at, everySeconds, lines, isStacked = false, show } = props
  const [cursor, setCursor] = useState<number | null>(null)
  const data = useMemo(() => {
    const step = Math.max(pointSeconds(at[0] ?? 0, at.at(-1) ?? 0), everySeconds)
    const exact = { at, series: lines.map(({ values }) => values) }
    const merges = lines.map(({ merge }) => merge ?? mean)
    const known = withGaps(coarsen(exact, step, merges), step)
    return { ...known, drawn: isStacked ? stack(known.series) : known.series, exact, merges }
  }, [at, lines, everySeconds, isStacked])
  const moment = cursor === null ? undefined : data.at[cursor]
  const now = lines.map(({ name }, i) => `${name} ${shown(latest(data.series[i] ?? []), show)}`)
  return (
    <Card look="chart" title={title} hint={unit}>
      <ul class="legend counts" aria-hidden="true">
        {lines.map(({ name, tone }, index) => {
          const values = data.series[index] ?? []
          return (
            <li key={name} style={{ '--tone': `var(--tone-${tone})` }}>
              {name} <b>{shown(cursor === null ? latest(values) : values[cursor], show)}</b>
            </li>
          )
        })}
        {moment !== undefined && <li class="moment">at {clock(moment * 1000)}</li>}
      </ul>
      <Canvas
        label={`${title}, ${unit}. Now: ${now.join(', ')}.`}
        data={data}
        tones={lines.map(({ tone }) => tone)}
        isFilled={isStacked}
        show={show}
        onCursor={setCursor}
      />
      <HourTable {...{ columns: data.exact, merges: data.merges, lines, show, title }} />
    </Card>
  )
}

type HourTableProps = Pick<ChartProps, 'lines' | 'show' | 'title'> & {
  columns: Columns
  merges: readonly Merge[]
}

/** Each hour in numbers; made when it is opened. */
function HourTable({ columns, merges, lines, show, title }: HourTableProps) {
  const [isOpen, setOpen] = useState(false)
  const hours = isOpen ? coarsen(columns, HOUR_SECONDS, merges) : { at: [], series: [] }
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>
        As a table, by hour<span class="hidden">: {title}</span>
      </summary>
      {isOpen && (
        <Table columns={['Hour', ...lines.map(({ name }) => ({ name, look: 'number' }))]}>
          {hours.at.toReversed().map(hour => (
            <tr key={hour}>
              <th scope="row">{clock(hour * 1000)}</th>
              {hours.series.map((values, index) => (
                <td key={lines[index]?.name} class="number">
                  {shown(values[hours.at.indexOf(hour)], show)}
                </td>
              ))}
            </tr>
          ))}
        </Table>
      )}
    </details>
  )
}

type PlotOptions = {
  tones: readonly string[]
  /** Whether the area below each line is filled; the lines are sums then, the last one on top. */
  isFilled: boolean
  show: Show
  /** The point at the cursor, `null` when the pointer has left. */
  onCursor(index: number | null): void
}

type CanvasProps = PlotOptions & {
  label: string
  data: { at: readonly number[]; drawn: readonly (readonly (number | null)[])[] }
}

function Canvas({ label, data, tones, isFilled, show, onCursor }: CanvasProps) {
  const container = useRef<HTMLDivElement>(null)
  const plot = useRef<ReturnType<typeof makePlot> | null>(null)
  const look = useLook()
  const names = tones.join(' ')
  useEffect(() => {
    if (container.current === null) return
    const made = makePlot(container.current, { tones, isFilled, show, onCursor })
    plot.current = made
    return made.remove
  }, [look, names, isFilled, show])
  useEffect(() => plot.current?.show(data))
  return <div ref={container} class="canvas" role="img" aria-label={label} />
}

const HEIGHT = 200

/** Changes when the colours do, so that what is on a canvas is drawn again. */
function useLook(): number {
  const [look, setLook] = useState(0)
  useEffect(() => {
    const change = (): void => setLook(before => before + 1)
    const system = matchMedia('(prefers-color-scheme: dark)')
    const observer = new MutationObserver(change)
    system.addEventListener('change', change)
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    return () => {
      system.removeEventListener('change', change)
      observer.disconnect()
    }
  }, [])
  return look
}

/** Colours of the style as a canvas takes them: without `var` and `light-dark`. */
function colourReader(container: HTMLElement): (colour: string) => string {
  const probe = document.createElement('span')
  container.append(probe)
  return colour => {
    probe.style.color = colour
    return getComputedStyle(probe).color
  }
}

function seriesOf({ tones, isFilled }: PlotOptions, colour: (colour: string) => string) {
  const series = tones.map(tone => ({
    stroke: colour(`var(--tone-${tone})`),
    width: 1.5,
    points: {
      ...{ show: true, size: 4, width: 0, fill: colour(`var(--tone-${tone})`) },
      filter: (plot: uPlot, index: number) => lonely(plot.data[index] as Values),
    },
    ...(isFilled && {
      fill: colour(`color-mix(in oklab, var(--tone-${tone}) 24%, var(--card))`),
    }),
  }))
  // The highest sum is drawn first, and the others over it.
  return [{}, ...(isFilled ? series.toReversed() : series)]
}

/** Where numbers are so small that two are written alike, the first one is enough. */
const withoutRepetition = (texts: readonly string[]): string[] =>
  texts.map((text, index) => (text === texts[index - 1] ? '' : text))

function axesOf({ show }: PlotOptions, colour: (colour: string) => string): uPlot.Axis[] {
  const font = `12px ${getComputedStyle(document.body).fontFamily}`
  const common = { stroke: colour('var(--soft)'), font, ticks: { show: false } }
  return [
    {
      ...common,
      ...{ grid: { show: false }, space: 64, gap: 6, size: 24 },
      values: (_, splits) => splits.map(seconds => clock(seconds * 1000)),
    },
    {
      ...common,
      ...{ grid: { stroke: colour('var(--line)'), width: 1 }, gap: 8 },
      splits: (_, __, ___, top) => ticksUpTo(top),
      size: (_, values) => Math.max(34, ...(values ?? []).map(text => text.length * 7 + 14)),
      values: (_, splits) => withoutRepetition(splits.map(show)),
    },
  ]
}

/** Draws a chart in `container`, as wide as it is, until it is removed. */
function makePlot(container: HTMLElement, options: PlotOptions) {
  const colour = colourReader(container)
  const plot = new uPlot(
    {
      width: Math.max(100, container.clientWidth),
      height: HEIGHT,
      padding: [10, 18, 0, 0],
      legend: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      cursor: {
        ...{ y: false, drag: { x: false, y: false }, points: { show: !options.isFilled, size: 7 } },
        sync: { key: 'console' },
      },
      scales: {
        x: { time: true, range: ({ data: [at] }) => spanOf(at[0] ?? 0, at.at(-1) ?? 0) },
        y: { range: (_, __, most) => [0, ticksUpTo(most).at(-1) ?? 1] },
      },
      series: seriesOf(options, colour),
      axes: axesOf(options, colour),
      hooks: { setCursor: [({ cursor }) => options.onCursor(cursor.idx ?? null)] },
    },
    [[]] as never,
    container,
  )
  const observer = new ResizeObserver(() => {
    if (container.clientWidth > 0) plot.setSize({ width: container.clientWidth, height: HEIGHT })
  })
  observer.observe(container)
  return {
    show: ({ at, drawn }: CanvasProps['data']): void =>
      plot.setData([at, ...(options.isFilled ? drawn.toReversed() : drawn)] as never),
    remove(): void {
      observer.disconnect()
      plot.destroy()
      container.replaceChildren()
    },
  }
}
