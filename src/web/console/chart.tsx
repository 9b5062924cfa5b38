/** Charts over time: lines or stacked areas. Pointing at a point shows its values; a table has them all. */
import { useState } from 'preact/hooks'
import type { History, Values } from '../../admin/api-types.ts'
import { Card, Table } from '../parts/table.tsx'
import { greatest, HEIGHT, latest, pathsOf, roundUp, stack, WIDTH } from './chart-data.ts'
import { clock, pointAt, UNKNOWN } from './format.ts'

/** A series and its colour. */
type Line = { name: string; tone: string; values: Values }

type ChartProps = {
  title: string
  unit: string
  history: History
  lines: readonly Line[]
  /** Whether each line is added to the ones before it. */
  isStacked?: boolean
  show(n: number): string
}

/** Labels of the time axis. */
const TIMES = 5

export function TimeChart({ title, unit, history, lines, isStacked, show }: ChartProps) {
  const { at } = history
  const shown = (value: number | null = null): string => (value === null ? UNKNOWN : show(value))
  const valuesAt = (index: number): string =>
    lines.map(({ name, values }) => `${name} ${shown(values[index])}`).join(', ')
  const series = lines.map(({ values }) => values)
  const drawn = isStacked ? stack(series) : series
  const top = roundUp(greatest(drawn))
  // The greatest sum is drawn first, and the others on top of it.
  const paths = lines.map(({ tone }, i) => ({ tone, ...pathsOf(drawn[i] ?? [], top) })).reverse()
  const step = WIDTH / Math.max(1, at.length - 1)
  const times = Array.from({ length: TIMES }, (_, i) =>
    Math.round(((at.length - 1) * i) / (TIMES - 1)),
  )
  const now = lines.map(({ name, values }) => `${name} ${shown(latest(values))}`).join(', ')
  return (
    <Card look="chart" title={title} hint={unit}>
      <ul class="legend counts" aria-hidden="true">
        {lines.map(({ name, tone, values }) => (
          <li key={name} style={{ '--tone': `var(--tone-${tone})` }}>
            {name} <b>{shown(latest(values))}</b>
          </li>
        ))}
      </ul>
      <div class="plot" role="img" aria-label={`${title}, ${unit}. Now: ${now}.`}>
        <div class="scale">
          {(top === 0 ? [0] : [top, top / 2, 0]).map(value => (
            <span key={value}>{show(value)}</span>
          ))}
        </div>
        <svg
          class="lines"
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          <path class="tick" d={`M0 0H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT}H${WIDTH}`} />
          {paths.map(({ tone, line, area }) => (
            <g key={tone} style={{ '--tone': `var(--tone-${tone})` }}>
              {isStacked && <path class="area" d={area} />}
              <path class="line" d={line} />
            </g>
          ))}
          {at.map((time, index) => (
            <rect key={time} x={(index - 0.5) * step} width={step} height={HEIGHT}>
              <title>{`${pointAt(time * 1000)}: ${valuesAt(index)}`}</title>
            </rect>
          ))}
        </svg>
        <p class="times">
          {[...new Set(times)].map(index => (
            <span key={index}>{clock((at[index] ?? 0) * 1000)}</span>
          ))}
        </p>
      </div>
      <Points {...{ title, at, lines, shown }} />
    </Card>
  )
}

type PointsProps = Pick<ChartProps, 'title' | 'lines'> & {
  at: readonly number[]
  shown(value?: number | null): string
}

/** The values of all points, the newest first. Rendered when opened. */
function Points({ title, at, lines, shown }: PointsProps) {
  const [isOpen, setOpen] = useState(false)
  const isKnown = (_: number, index: number) => lines.some(({ values }) => values[index] !== null)
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>
        As a table<span class="hidden">: {title}</span>
      </summary>
      {isOpen && (
        <Table columns={['Time', ...lines.map(({ name }) => ({ name, look: 'number' }))]}>
          {at
            .filter(isKnown)
            .toReversed()
            .map(time => (
              <tr key={time}>
                <th scope="row">{pointAt(time * 1000)}</th>
                {lines.map(({ name, values }) => (
                  <td key={name} class="number">
                    {shown(values[at.indexOf(time)])}
                  </td>
                ))}
              </tr>
            ))}
        </Table>
      )}
    </details>
  )
}
