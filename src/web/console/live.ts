/** Values that the console requests repeatedly while its tab is visible. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { unixMs } from '../parts/browser.ts'
import { type Client, messageOf } from './client.ts'

/** Whether the tab is visible. */
function useIsVisible(): boolean {
  const isVisible = () => document.visibilityState === 'visible'
  const [value, setValue] = useState(isVisible)
  // A plain effect would miss changes before the next frame.
  useLayoutEffect(() => {
    const change = (): void => setValue(isVisible)
    document.addEventListener('visibilitychange', change)
    return () => document.removeEventListener('visibilitychange', change)
  }, [])
  return value
}

/** Calls `work` now, and again `everyMs` after its end, while the tab is visible. `work` handles its errors. */
export function usePolling(
  work: (signal: AbortSignal) => Promise<void>,
  everyMs: number,
  inputs: readonly unknown[],
): void {
  const isVisible = useIsVisible()
  useEffect(() => {
    if (!isVisible) return
    const controller = new AbortController()
    const { signal } = controller
    let timer: ReturnType<typeof setTimeout> | undefined
    const run = async (): Promise<void> => {
      await work(signal)
      if (!signal.aborted) timer = setTimeout(run, everyMs)
    }
    void run()
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [isVisible, everyMs, ...inputs])
}

/** The last value from the server, and why there is no newer one. */
export type Live<T> = {
  value: T | null
  /** When the value arrived, by the browser's clock. */
  atMs: number | null
  problem: string | null
  refresh(): Promise<void>
  /** Changes the value, with the answer of a write. */
  change(changed: (value: T) => T): void
}

/** The JSON document at `path`. */
export function useLive<T>(client: Client, path: string, everySeconds: number): Live<T> {
  const [state, setState] = useState<Pick<Live<T>, 'value' | 'atMs' | 'problem'>>({
    ...{ value: null, atMs: null, problem: null },
  })
  /** Counts changes: an answer to a request from before a change may be out of date. */
  const changes = useRef(0)

  async function read(signal?: AbortSignal): Promise<void> {
    const current = changes.current
    const isLate = (): boolean => signal?.aborted === true || changes.current !== current
    try {
      const value = await client.get<T>(path, signal)
      if (!isLate()) setState({ value, atMs: unixMs(), problem: null })
    } catch (error) {
      if (!isLate()) setState(before => ({ ...before, problem: messageOf(error) }))
    }
  }

  usePolling(read, everySeconds * 1000, [client, path])
  return {
    ...state,
    refresh(): Promise<void> {
      changes.current += 1
      return read()
    },
    change(changed): void {
      changes.current += 1
      setState(({ value, ...rest }) => ({ ...rest, value: value === null ? null : changed(value) }))
    },
  }
}
