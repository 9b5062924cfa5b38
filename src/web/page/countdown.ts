/** Owns counting down: whole seconds until an instant of the page's clock. */

import { useEffect, useState } from 'preact/hooks'
import { nowMs } from '../parts/clock.ts'

const TICK_MS = 250

/** Whole seconds until `deadlineMs`, 0 when it is over or `null`. */
export function useSecondsUntil(deadlineMs: number | null): number {
  const [, setTicks] = useState(0)
  const seconds = Math.max(0, Math.ceil(((deadlineMs ?? 0) - nowMs()) / 1000))
  const isOver = seconds === 0
  useEffect(() => {
    if (isOver) return
    const timer = setInterval(() => setTicks(ticks => ticks + 1), TICK_MS)
    return () => clearInterval(timer)
  }, [isOver])
  return seconds
}
