/** Owns small drawings of amounts: a sparkline, the use of a limit, columns of hours or days. */

import type { Values } from '../../admin/wire.ts'
import { sparkPaths, thin } from '../console/chart-data.ts'

const [SPARK_WIDTH, SPARK_HEIGHT, SPARK_POINTS] = [240, 34, 96]

/** A line without numbers, beside the number that it explains. */
export function Spark({ values }: { values: Values }) {
  const { line, area } = sparkPaths(thin(values, SPARK_POINTS), SPARK_WIDTH, SPARK_HEIGHT)
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path class="area" d={area} />
      <path class="line" d={line} />
    </svg>
  )
}

/** From here on the use of a limit is shown as close to it. */
const CLOSE = 0.8

/** How much of a limit is used; the number beside it says the same. */
export function Use({ used, limit }: { used: number; limit: number | null }) {
  const share = limit === null || limit === 0 ? 0 : Math.min(1, used / limit)
  return (
    <span
      class="use"
      aria-hidden="true"
      data-close={share >= CLOSE || undefined}
      data-none={limit === null || undefined}
    >
      <span class="use-fill" style={{ '--share': share }} />
    </span>
  )
}

type ColumnsProps = {
  label: string
  values: readonly number[]
  names: readonly string[]
  show(n: number): string
}

/** One column per value; pointing at one says its name and its number. */
export function Bars({ label, values, names, show }: ColumnsProps) {
  const most = Math.max(...values, 1)
  const every = Math.ceil(names.length / 6)
  return (
    <div class="bars" role="img" aria-label={label}>
      <div class="bars-area">
        {values.map((value, index) => (
          <span
            key={names[index]}
            class="bar"
            data-none={value === 0 || undefined}
            data-tip={`${names[index]} · ${show(value)}`}
          >
            <span class="bar-fill" style={{ '--share': value / most }} />
          </span>
        ))}
      </div>
      <div class="bars-names">
        {names
          .filter((_, index) => index % every === 0)
          .map((name, group) => (
            <span key={name} style={{ flexGrow: Math.min(every, names.length - group * every) }}>
              {name}
            </span>
          ))}
      </div>
    </div>
  )
}
