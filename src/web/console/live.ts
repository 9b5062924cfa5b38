/** Values that are asked for again and again while the tab is visible. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { nowMs, unixMs } from '../parts/browser.ts'
import { type Client, messageOf } from './client.ts'

/** A value as it was last answered, and why it is not newer. */
export type Live<T> = {
  value: T | null
  /** When it was answered, by the browser's clock. */
  atMs: number | null
  problem: string | null
  refresh(): Promise<void>
  /** Puts in what a write answered with. */
  change(changed: (value: T) => T): void
}

/** Whether the tab is shown. */
export function useIsVisible(): boolean {
  const [isVisible, setVisible] = useState(document.visibilityState === 'visible')
  // Before anything can happen: an effect would wait for the next frame.
  useLayoutEffect(() => {
    const change = (): void => setVisible(document.visibilityState === 'visible')
    document.addEventListener('visibilitychange', change)
    return () => document.removeEventListener('visibilitychange', change)
  }, [])
  return isVisible
}

/** A request that is not answered for so long is given up, and the next one is made. */
const REQUEST_MS_MAX = 60_000

/**
 * The JSON document at `path`, which is asked for at once, then every `everySeconds` while the tab is
 * visible, and at once when it is shown again. A value stays while a newer one is not there, and
 * nothing is asked for while a request is under way: a slow server is shown late.
 */
export function useLive<T>(client: Client, path: string, everySeconds: number): Live<T> {
  const [state, setState] = useState<Pick<Live<T>, 'value' | 'atMs' | 'problem'>>({
    ...{ value: null, atMs: null, problem: null },
  })
  const underWay = useRef<{ controller: AbortController; sinceMs: number } | null>(null)
  const isVisible = useIsVisible()

  const refresh = useCallback(async (): Promise<void> => {
    underWay.current?.controller.abort()
    const controller = new AbortController()
    const mine = { controller, sinceMs: nowMs() }
    const { signal } = controller
    underWay.current = mine
    try {
      const value = await client.get<T>(path, signal)
      if (!signal.aborted) setState({ value, atMs: unixMs(), problem: null })
    } catch (error) {
      if (signal.aborted || client.isOver()) return
      setState(before => ({ ...before, problem: messageOf(error) }))
    } finally {
      if (underWay.current === mine) underWay.current = null
    }
  }, [client, path])

  const change = useCallback((changed: (value: T) => T): void => {
    underWay.current?.controller.abort() // its answer may be older than the change
    underWay.current = null
    setState(({ value, ...rest }) => ({ ...rest, value: value === null ? null : changed(value) }))
  }, [])

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

  return { ...state, refresh, change }
}
