/** Places countries on the map as circles by count, and moves neighbours apart so that none covers another. */
import { CENTERS } from './world.ts'

export type Bubble = {
  /** Upper case. */
  code: string
  x: number
  y: number
  r: number
  isLabelled: boolean
}

const RADIUS_MIN = 3.6
const RADIUS_MAX = 28
/** The largest sum of all squared radii that fits on the map. */
const SQUARES_MAX = 6500
const LABEL_RADIUS_MIN = 10.5
/** Distance between two circles. */
const GAP = 1
const ROUNDS = 50
/** The share of the way back to its country that a circle moves in each round. */
const HOME = 0.03

type Placed = Bubble & { homeX: number; homeY: number }

/** Moves two circles apart when they overlap, the smaller one more. */
function separate(a: Placed, b: Placed): void {
  const apart = a.r + b.r + GAP
  const dx = b.x - a.x || 0.01
  const dy = b.y - a.y
  const square = dx * dx + dy * dy
  if (square >= apart * apart) return
  const distance = Math.sqrt(square)
  const overlap = apart - distance
  const share = (b.r * b.r) / (a.r * a.r + b.r * b.r)
  const [ux, uy] = [(dx / distance) * overlap, (dy / distance) * overlap]
  a.x -= ux * share
  a.y -= uy * share
  b.x += ux * (1 - share)
  b.y += uy * (1 - share)
}

function relax(placed: readonly Placed[], isLast: boolean): void {
  for (const [i, a] of placed.entries()) {
    if (!isLast) {
      a.x += (a.homeX - a.x) * HOME
      a.y += (a.homeY - a.y) * HOME
    }
    for (let j = i + 1; j < placed.length; j++) {
      const b = placed[j]
      if (b !== undefined) separate(a, b)
    }
  }
}

/** A circle for each country with a count, the largest first. */
export function placeBubbles(counts: ReadonlyMap<string, number>): Bubble[] {
  const shown = [...counts].filter(([code, n]) => n > 0 && CENTERS.has(code))
  shown.sort(([a, n], [b, m]) => m - n || a.localeCompare(b))
  const most = shown[0]?.[1] ?? 1
  const squares = shown.reduce((sum, [, n]) => sum + (n / most) * RADIUS_MAX ** 2, 0)
  const radiusMax = RADIUS_MAX * Math.min(1, Math.sqrt(SQUARES_MAX / squares))
  const placed = shown.map(([code, n]): Placed => {
    const [x, y] = CENTERS.get(code) ?? [0, 0]
    const r = Math.max(RADIUS_MIN, Math.sqrt(n / most) * radiusMax)
    return { code, x, y, r, isLabelled: r >= LABEL_RADIUS_MIN, homeX: x, homeY: y }
  })
  for (let round = 0; round < ROUNDS; round++) relax(placed, round > ROUNDS * 0.7)
  return placed.map(({ homeX, homeY, ...bubble }) => bubble)
}
