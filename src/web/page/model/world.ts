/**
 * The map: land as dots, and the centre of each country. `world.json` is computed from Natural Earth (public
 * domain): land at 1:50m without Antarctica, the centre of the largest part of each country at 1:10m,
 * in the Equal Earth projection around 11° east.
 */
import world from './world.json'

/** The visible part of the map, without the Pacific at both sides. */
export const VIEW = { x: 96, y: -8, width: 868, height: world.height + 12 }

const ROW_HEIGHT = world.step * 0.866

const base36 = (text = ''): number => Number.parseInt(text, 36)

/** Centres of countries by code in upper case. Pacific islands are at the edges. */
export const CENTERS: ReadonlyMap<string, readonly [x: number, y: number]> = new Map(
  [...world.centers.matchAll(/([A-Z]{2})(..)(..)/g)].map(([, code = '', x, y]) => [
    code,
    [base36(x), base36(y)],
  ]),
)

/** All dots as one path. Each row of the data holds gaps and runs of dots, in base 36. */
export function landPath(): string {
  let path = ''
  for (const [r, row] of world.rows.entries()) {
    let x = (r % 2) * (world.step / 2)
    for (const piece of row.split(' ').filter(text => text !== '')) {
      const [gap = 0, run = 0] = piece.split('.').map(base36)
      x += gap * world.step
      for (let i = 0; i < run; i++, x += world.step) {
        path += `M${x.toFixed(1)} ${(r * ROW_HEIGHT).toFixed(1)}h0`
      }
    }
  }
  return path
}
