/** Owns counting down: whole seconds until an instant of the page's clock. */
import { useEffect, useState } from 'preact/hooks'

/** Milliseconds of the page's clock, which never steps back. */
export const nowMs = (): number => performance.now()

const TICK_MS = 250

/** Whole seconds until `deadlineMs`, 0 when it is over or `null`. */
export function useSecondsUntil(deadlineMs: number | null): number {
  const [now, setNow] = useState(nowMs)
  const isOver = deadlineMs === null || now >= deadlineMs
  useEffect(() => {
    if (deadlineMs === null) return
    setNow(nowMs())
    if (isOver) return
    const timer = setInterval(() => setNow(nowMs()), TICK_MS)
    return () => clearInterval(timer)
  }, [deadlineMs, isOver])
  return deadlineMs === null ? 0 : Math.max(0, Math.ceil((deadlineMs - now) / 1000))
}
