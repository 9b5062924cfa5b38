/**
 * Owns the map: land as dots, and the middle of each country. The figures in `world.json` are made
 * from Natural Earth (public domain, 1:50m, without Antarctica) in the Equal Earth projection around
 * 11° east, and from the middles of countries of world-countries (ODbL).
 */
import world from './world.json'

export const MAP = { width: world.width, height: world.height }

const ROW_HEIGHT = world.step * 0.866

/** Where countries are on the map, by code in upper case. */
export const CENTERS: ReadonlyMap<string, readonly [x: number, y: number]> = new Map(
  Object.entries(world.centers).map(([code, [x = 0, y = 0]]) => [code, [x, y]]),
)

/** All dots as one path. A row of the data is gaps and runs of dots, in base 36. */
export function landPath(): string {
  let path = ''
  for (const [r, row] of world.rows.entries()) {
    let x = (r % 2) * (world.step / 2)
    for (const piece of row.split(' ').filter(text => text !== '')) {
      const [gap = 0, run = 0] = piece.split('.').map(text => Number.parseInt(text, 36))
      x += gap * world.step
      for (let i = 0; i < run; i++, x += world.step) {
        path += `M${x.toFixed(1)} ${(r * ROW_HEIGHT).toFixed(1)}h0`
      }
    }
  }
  return path
}
