/** A task that repeats: after a pause that it chooses, or at once when it is woken. */
import type { SetTimer } from './clock.ts'

/** Starts `turn`, which returns the pause in milliseconds until the next turn. Turns never overlap. */
export function startPolling(turn: () => Promise<number>, later: SetTimer) {
  let running: Promise<void> | null = null
  let isWoken = false
  let isStopped = false
  let cancel = (): void => {}

  function wake(): void {
    isWoken = running !== null
    if (isWoken || isStopped) return
    cancel()
    running = turn().then(pauseMs => {
      running = null
      if (isWoken) wake()
      else if (!isStopped) cancel = later(wake, pauseMs)
    })
  }

  wake()
  return {
    wake,
    /** Ends polling; resolves when the last turn has ended. */
    async stop(): Promise<void> {
      isStopped = true
      cancel()
      await running
    },
  }
}
