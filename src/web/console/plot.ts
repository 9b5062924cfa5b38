/** Owns uPlot: colours of the style sheet on a canvas, axes, a cursor that all charts share. */
import { useEffect, useState } from 'preact/hooks'
import uPlot from 'uplot'
import type { Values } from '../../admin/wire.ts'
import { lonely, spanOf, ticksUpTo } from './chart-data.ts'

const HEIGHT = 200

export type Plot = {
  show(at: readonly number[], drawn: readonly (readonly (number | null)[])[]): void
  remove(): void
}

type Options = {
  tones: readonly string[]
  /** Whether the area below each line is filled; the lines are sums then, the last one on top. */
  isFilled: boolean
  show(n: number): string
  clock(ms: number): string
  /** The point at the cursor, `null` when the pointer has left. */
  onCursor(index: number | null): void
}

/** Changes whenever the colours do, so that what is on a canvas is drawn again. */
export function useLook(): number {
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

/** Colours of custom properties as a canvas takes them: without `var` and `light-dark`. */
function colourReader(place: HTMLElement): (property: string) => string {
  const probe = document.createElement('span')
  place.append(probe)
  return property => {
    probe.style.color = `var(--${property})`
    return getComputedStyle(probe).color
  }
}

function seriesOf({ tones, isFilled }: Options, colour: (property: string) => string) {
  const series = tones.map(tone => ({
    stroke: colour(`tone-${tone}`),
    width: 1.5,
    points: {
      ...{ show: true, size: 4, width: 0, fill: colour(`tone-${tone}`) },
      filter: (plot: uPlot, index: number) => lonely(plot.data[index] as Values),
    },
    ...(isFilled ? { fill: colour(`area-${tone}`) } : {}),
  }))
  // The highest sum is drawn first, and the others over it.
  return [{}, ...(isFilled ? series.toReversed() : series)]
}

/** Where numbers are so small that two are written alike, the first one is enough. */
const withoutRepetition = (texts: readonly string[]): string[] =>
  texts.map((text, index) => (text === texts[index - 1] ? '' : text))

function axesOf({ show, clock }: Options, colour: (property: string) => string): uPlot.Axis[] {
  const font = `12px ${getComputedStyle(document.body).fontFamily}`
  const common = { stroke: colour('soft'), font, ticks: { show: false } }
  return [
    {
      ...common,
      ...{ grid: { show: false }, space: 64, gap: 6, size: 24 },
      values: (_, splits) => splits.map(seconds => clock(seconds * 1000)),
    },
    {
      ...common,
      ...{ grid: { stroke: colour('line'), width: 1 }, gap: 8 },
      splits: (_, __, ___, top) => ticksUpTo(top),
      size: (_, values) => Math.max(34, ...(values ?? []).map(text => text.length * 7 + 14)),
      values: (_, splits) => withoutRepetition(splits.map(show)),
    },
  ]
}

/** Draws a chart in `place`, as wide as it is, until it is removed. */
export function makePlot(place: HTMLElement, options: Options): Plot {
  const colour = colourReader(place)
  const plot = new uPlot(
    {
      width: Math.max(100, place.clientWidth),
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
    place,
  )
  const observer = new ResizeObserver(() => {
    if (place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: HEIGHT })
  })
  observer.observe(place)
  return {
    show: (at, drawn) =>
      plot.setData([at, ...(options.isFilled ? drawn.toReversed() : drawn)] as never),
    remove() {
      observer.disconnect()
      plot.destroy()
      place.replaceChildren()
    },
  }
}
