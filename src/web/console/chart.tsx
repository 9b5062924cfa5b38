/** Charts over time: lines, or areas one upon the other, with axes, the values at the cursor, and a table. */
import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { History, Values } from '../../admin/api-types.ts'
import { Card, Table } from '../parts/table.tsx'
import {
  greatest,
  HEIGHT,
  latest,
  namedPoints,
  pathsOf,
  stack,
  ticksUpTo,
  WIDTH,
} from './chart-data.ts'
import { clock, dayAt, pointAt, UNKNOWN, zoneName, zoneOffset } from './format.ts'

/** A drawing that is as wide as its place. */
const Drawing = ({ look, children }: { look: string; children: ComponentChildren }) => (
  <svg
    class={look}
    viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
    preserveAspectRatio="none"
    aria-hidden="true"
  >
    {children}
  </svg>
)

/** A line without numbers, beside the number that it explains. */
export function Spark({ values }: { values: Values }) {
  const { line, area } = pathsOf(values, greatest([values]))
  return (
    <Drawing look="spark">
      <path class="area" d={area} />
      <path class="line" d={line} />
    </Drawing>
  )
}

/** A series and its colour. */
type Line = { name: string; tone: string; values: Values }

type ChartProps = {
  title: string
  unit: string
  history: History
  lines: readonly Line[]
  /** Whether each line is added to those before it. */
  isStacked?: boolean
  show(n: number): string
  /** The point at the pointer, which all charts show. */
  cursor: number | null
  onCursor(index: number | null): void
}

export function TimeChart(props: ChartProps) {
  const { title, unit, history, lines, isStacked = false, show, cursor, onCursor } = props
  const { at } = history
  const shown = (value: number | null = null): string => (value === null ? UNKNOWN : show(value))
  const now = lines.map(({ name, values }) => `${name} ${shown(latest(values))}`)
  const move = ({ offsetX, currentTarget }: PointerEvent): void => {
    const part = offsetX / (currentTarget as Element).clientWidth
    onCursor(Math.round(Math.min(1, Math.max(0, part)) * (at.length - 1)))
  }
  const placeOf = (index: number) => ({ '--at': index / (at.length - 1) })
  return (
    <Card look="chart" title={title} hint={unit}>
      <ul class="legend counts" aria-hidden="true">
        {lines.map(({ name, tone, values }) => (
          <li key={name} style={{ '--tone': `var(--tone-${tone})` }}>
            {name} <b>{shown(cursor === null ? latest(values) : values[cursor])}</b>
          </li>
        ))}
        {cursor !== null && <li class="moment">{pointAt((at[cursor] ?? 0) * 1000)}</li>}
      </ul>
      <div class="plot" role="img" aria-label={`${title}, ${unit}. Now: ${now.join(', ')}.`}>
        <Lines {...{ lines, isStacked, show }} />
        <div class="over" onPointerMove={move} onPointerLeave={() => onCursor(null)}>
          {cursor !== null && <span style={placeOf(cursor)} />}
        </div>
        <ul class="times">
          {namedPoints(history, zoneOffset).map(({ index, isDay }) => (
            <li key={index} style={placeOf(index)}>
              {(isDay ? dayAt : clock)((at[index] ?? 0) * 1000)}
            </li>
          ))}
        </ul>
      </div>
      <Points {...{ title, at, lines, shown }} />
    </Card>
  )
}

/** Where numbers are so small that two are written alike, the first one is enough. */
const withoutRepetition = (text: string, index: number, texts: readonly string[]): string =>
  text === texts[index - 1] ? '' : text

/** The lines and the axis of their values. */
function Lines({ lines, isStacked, show }: Pick<ChartProps, 'lines' | 'isStacked' | 'show'>) {
  return useMemo(() => {
    const series = lines.map(({ values }) => values)
    const drawn = isStacked ? stack(series) : series
    const ticks = ticksUpTo(greatest(drawn))
    const top = ticks.at(-1) ?? 1
    // The highest sum is drawn first, and the others over it.
    const paths = lines.map(({ tone }, i) => ({ tone, ...pathsOf(drawn[i] ?? [], top) })).reverse()
    return (
      <>
        <ul class="values">
          {ticks
            .map(show)
            .map(withoutRepetition)
            .map((text, index) => (
              <li key={index}>{text}</li>
            ))}
        </ul>
        <Drawing look="lines">
          {ticks.map(tick => (
            <path key={tick} class="tick" d={`M0 ${HEIGHT * (1 - tick / top)}H${WIDTH}`} />
          ))}
          {paths.map(({ tone, line, area }) => (
            <g key={tone} style={{ '--tone': `var(--tone-${tone})` }}>
              {isStacked && <path class="area" d={area} />}
              <path class="line" d={line} />
            </g>
          ))}
        </Drawing>
      </>
    )
  }, [lines, isStacked, show])
}

type PointsProps = Pick<ChartProps, 'title' | 'lines'> & {
  at: readonly number[]
  shown(value?: number | null): string
}

/** Each point in numbers, the newest first; made when it is opened. */
function Points({ title, at, lines, shown }: PointsProps) {
  const [isOpen, setOpen] = useState(false)
  const isKnown = (_: number, index: number) => lines.some(({ values }) => values[index] !== null)
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>
        As a table<span class="hidden">: {title}</span>
      </summary>
      {isOpen && (
        <Table columns={[zoneName(), ...lines.map(({ name }) => ({ name, look: 'number' }))]}>
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
