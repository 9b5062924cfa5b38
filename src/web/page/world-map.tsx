/**
 * Owns the map: land in dots, countries as circles. It is for pointers; the list of countries beside
 * it has the same choices for keyboards and screen readers.
 */
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { fill } from '../parts/speech.ts'
import { type Bubble, placeBubbles } from './model/bubbles.ts'
import type { Facet } from './model/facets.ts'
import { CENTERS, landPath, VIEW } from './model/world.ts'
import type { Say } from './words/say.ts'

const LAND = landPath()
const HIT_RADIUS = 13

type MapProps = {
  counts: Facet | null
  /** Codes in upper case. */
  chosen: readonly string[]
  isExcept: boolean
  toggle: (code: string) => void
  say: Say
}

const sizesOf = (counts: Facet): Map<string, number> =>
  new Map([...counts].map(([code, { size }]) => [code, size]))

/** Without counts, what is chosen still has its place. */
const pointsOf = (codes: readonly string[]): Bubble[] =>
  codes.flatMap(code => {
    const place = CENTERS.get(code)
    return place === undefined ? [] : [{ code, x: place[0], y: place[1], r: 7, isLabelled: false }]
  })

/** A name and a count beside the circle that the pointer is over; inside the map at its edges. */
function Tip({
  bubble: { code, x, y, r },
  counts,
  say,
}: { bubble: Bubble } & Pick<MapProps, 'counts' | 'say'>) {
  const left = ((x - VIEW.x) / VIEW.width) * 100
  const count = counts?.get(code)
  const top = ((y - r - VIEW.y) / VIEW.height) * 100
  return (
    <div class="tip" style={{ left: `${Math.min(88, Math.max(12, left))}%`, top: `${top}%` }}>
      {say.country(code)} {count && <b>{say.range(count)}</b>}
    </div>
  )
}

/** The code of the circle that an event is on. */
const codeAt = ({ target }: Event): string | null =>
  target instanceof Element ? (target.closest('.place')?.getAttribute('data-code') ?? null) : null

/** The circle that the pointer is over; a click on it calls `toggle`. */
function usePointer(toggle: (code: string) => void) {
  const svg = useRef<SVGSVGElement>(null)
  const [over, setOver] = useState<string | null>(null)
  const onToggle = useRef(toggle)
  onToggle.current = toggle
  useLayoutEffect(() => {
    const map = svg.current
    const move = (event: Event): void => setOver(codeAt(event))
    const leave = (): void => setOver(null)
    const click = (event: Event): void => {
      const code = codeAt(event)
      if (code !== null) onToggle.current(code)
    }
    map?.addEventListener('pointerover', move)
    map?.addEventListener('pointerleave', leave)
    map?.addEventListener('click', click)
    return () => {
      map?.removeEventListener('pointerover', move)
      map?.removeEventListener('pointerleave', leave)
      map?.removeEventListener('click', click)
    }
  }, [])
  return { svg, over }
}

export function WorldMap({ counts, chosen, isExcept, toggle, say }: MapProps) {
  const { svg, over } = usePointer(toggle)
  const bubbles = useMemo(
    () => (counts === null ? pointsOf(chosen) : placeBubbles(sizesOf(counts))),
    [counts, chosen],
  )
  const top = bubbles
    .slice(0, 5)
    .flatMap(({ code }) => {
      const count = counts?.get(code)
      return count === undefined ? [] : `${say.country(code)} ${say.bound(count)}`
    })
    .join(', ')
  const pointed = bubbles.find(({ code }) => code === over)
  const isIn = (code: string): boolean => chosen.length === 0 || chosen.includes(code) !== isExcept
  return (
    <div class="map" data-chosen={chosen.length > 0 || undefined}>
      <svg
        viewBox={`${VIEW.x} ${VIEW.y} ${VIEW.width} ${VIEW.height}`}
        role="img"
        aria-label={fill(say.words.mapOf, { top })}
        ref={svg}
      >
        <path class="land" d={LAND} />
        {bubbles.map(({ code, x, y, r, isLabelled }) => (
          <g
            key={code}
            class="place"
            data-code={code}
            data-in={isIn(code) || undefined}
            data-on={chosen.includes(code) || undefined}
          >
            <circle class="hit" cx={x} cy={y} r={Math.max(r, HIT_RADIUS)} />
            <circle class="dot" cx={x} cy={y} r={r} />
            {isLabelled && (
              <text x={x} y={y}>
                {code}
              </text>
            )}
          </g>
        ))}
      </svg>
      {pointed !== undefined && <Tip bubble={pointed} counts={counts} say={say} />}
    </div>
  )
}
