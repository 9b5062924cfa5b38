/** Owns values that are asked for again and again while the tab is visible, as hooks. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { nowMs, unixMs } from '../parts/clock.ts'

/** A value as it was last answered, and why it is not newer. */
export type Live<T> = {
  value: T | null
  /** When it was answered, by the browser's clock. */
  atMs: number | null
  problem: string | null
  refresh(): Promise<void>
}

/** Calls back when the tab is shown or hidden. */
export function useVisibility(onChange: (isVisible: boolean) => void): void {
  const latest = useRef(onChange)
  latest.current = onChange
  // Before anything can happen: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const change = (): void => latest.current(document.visibilityState === 'visible')
    document.addEventListener('visibilitychange', change)
    return () => document.removeEventListener('visibilitychange', change)
  }, [])
}

/** Whether the tab is shown. */
export function useIsVisible(): boolean {
  const [isVisible, setVisible] = useState(document.visibilityState === 'visible')
  useVisibility(setVisible)
  return isVisible
}

/** A request that is not answered for so long is given up, and the next one is made. */
const REQUEST_MS_MAX = 60_000

/**
 * The value that `load` brings, which is asked for at once, then every `everySeconds` while the tab
 * is visible, and at once when it is shown again. A value stays while a newer one is not there, and
 * nothing is asked for while a request is under way: a slow server is shown late.
 * `load` must stay the same as long as it asks for the same.
 */
export function useLive<T>(
  load: (signal: AbortSignal) => Promise<T>,
  everySeconds: number,
): Live<T> {
  const [state, setState] = useState<Omit<Live<T>, 'refresh'>>({
    value: null,
    atMs: null,
    problem: null,
  })
  /** The request that is under way, and since when. */
  const underWay = useRef<{ controller: AbortController; sinceMs: number } | null>(null)
  const isVisible = useIsVisible()

  const refresh = useCallback(async (): Promise<void> => {
    underWay.current?.controller.abort()
    const controller = new AbortController()
    const mine = { controller, sinceMs: nowMs() }
    const { signal } = controller
    underWay.current = mine
    try {
      const value = await load(signal)
      if (!signal.aborted) setState({ value, atMs: unixMs(), problem: null })
    } catch (error) {
      if (signal.aborted) return
      const problem = error instanceof Error ? error.message : String(error)
      setState(before => ({ ...before, problem }))
    } finally {
      if (underWay.current === mine) underWay.current = null
    }
  }, [load])

  useEffect(() => {
    if (!isVisible) return
    void refresh()
    const timer = setInterval(() => {
      const sinceMs = underWay.current?.sinceMs ?? Number.NEGATIVE_INFINITY
      if (nowMs() - sinceMs > REQUEST_MS_MAX) void refresh()
    }, everySeconds * 1000)
    return () => {
      clearInterval(timer)
      underWay.current?.controller.abort()
    }
  }, [refresh, everySeconds, isVisible])

  return { ...state, refresh }
}
