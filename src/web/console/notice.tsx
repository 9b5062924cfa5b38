/** Owns sentences about a view as a whole: loading, failed, out of date, nothing there. */
import type { ComponentChildren } from 'preact'
import { fill } from '../parts/speech.ts'
import { useConsole } from './context.ts'
import type { Live } from './live.ts'

/** What went wrong, said at once by a screen reader. */
export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="alert" role="alert">
    {children}
  </p>
)

export const Empty = ({ children }: { children: ComponentChildren }) => (
  <p class="empty">{children}</p>
)

/** What stands in place of a value that is not there, or above one that is out of date. */
export function LiveNotice({ live }: { live: Live<unknown> }) {
  const { words, clock } = useConsole().speech
  if (live.problem === null) {
    return live.value === null ? <p class="soft loading">{words.loading}</p> : null
  }
  const { problem, atMs } = live
  return (
    <div class="alert" role="alert">
      <span>{atMs === null ? problem : fill(words.staleData, { time: clock(atMs), problem })}</span>
      <button type="button" class="plain" onClick={live.refresh}>
        {words.tryAgain}
      </button>
    </div>
  )
}
