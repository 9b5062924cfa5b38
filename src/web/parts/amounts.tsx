/** Small drawings of amounts, beside the numbers that they explain. */

/** How much of something there is; `isLow` where that is to be noticed. */
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

/** One column per value; pointing at one says its name and its number, a screen reader says all. */
export function Bars({ label, values, names = HOURS, show }: BarsProps) {
  const most = Math.max(...values, 1)
  const every = Math.ceil(names.length / 6)
  const tips = values.map((value, index) => `${names[index]}: ${show(value)}`)
  return (
    <div class="bars" role="img" aria-label={`${label}. ${tips.join(', ')}`}>
      <div class="bars-area">
        {values.map((value, index) => (
          <span
            key={names[index]}
            class="bar"
            data-none={value === 0 || undefined}
            data-tip={tips[index]}
          >
            <span style={{ '--share': value / most }} />
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
