/** Bars and columns beside the numbers that they show. */

/** A share of a whole, red where `isLow`. */
export const Level = ({ share, isLow = false }: { share: number; isLow?: boolean }) => (
  <span class="level" data-low={isLow || undefined} aria-hidden="true">
    <span style={{ '--share': Math.min(1, share) }} />
  </span>
)

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'))

type BarsProps = {
  label: string
  values: readonly number[]
  names?: readonly string[]
  show(n: number): string
}

/** A column for each value, with its name and number as a tooltip. */
export function Bars({ label, values, names = HOURS, show }: BarsProps) {
  const most = Math.max(...values, 1)
  const every = Math.ceil(names.length / 6)
  const tips = values.map((value, index) => `${names[index]}: ${show(value)}`)
  return (
    <div class="bars" role="img" aria-label={`${label}. ${tips.join(', ')}`}>
      <div class="columns">
        {values.map((value, index) => (
          <span
            key={names[index]}
            data-in={value > 0 || undefined}
            style={{ '--share': value / most }}
            title={tips[index]}
          />
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
