/** Owns showing what is left of the limits of a key. */
import { fill } from '../parts/speech.ts'
import type { LimitLeft } from './model/answer.ts'
import type { Say } from './words/say.ts'

/** Below this share, little is left. */
const LOW = 0.2

type LevelsProps = { limits: readonly LimitLeft[]; say: Say }

/** A line for each limit: its name, how full it is, and when it is full again. */
export function Levels({ limits, say }: LevelsProps) {
  const { words, number } = say
  if (limits.length === 0) return null
  return (
    <ul class="levels">
      {limits.map(({ name, left, quota, resetSeconds }) => {
        const share = quota === 0 ? 0 : Math.min(1, left / quota)
        const isUsed = left < quota && resetSeconds > 0
        const reset = say.countdown(resetSeconds)
        return (
          <li key={name}>
            <span>{say.named('limit_', name) ?? name}</span>
            <span class="level" data-low={share <= LOW || undefined} aria-hidden="true">
              <span style={{ '--share': share }} />
            </span>
            <span class="level-left" aria-hidden="true">
              <b>{number(left)}</b> / {number(quota)}
            </span>
            <small
              aria-hidden="true"
              title={isUsed ? fill(words.reset, { time: reset }) : undefined}
            >
              {isUsed ? reset : ''}
            </small>
            <span class="hidden">
              {fill(words.left, { left: number(left), quota: number(quota) })}
              {isUsed && `, ${fill(words.reset, { time: reset })}`}
            </span>
          </li>
        )
      })}
    </ul>
  )
}
