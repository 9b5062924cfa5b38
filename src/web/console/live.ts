/** Values that the console requests repeatedly while its tab is visible. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Client, messageOf } from './client.ts'

/** Calls `work` now, and again `everyMs` after its end, while the tab is visible. `work` handles its errors. */
export function usePolling(
  work: (signal: AbortSignal) => Promise<void>,
  everyMs: number,
  inputs: readonly unknown[],
): void {
  useEffect(() => {
    const controller = new AbortController()
    const { signal } = controller
    let timer: ReturnType<typeof setTimeout> | undefined
    const run = async (): Promise<void> => {
      clearTimeout(timer)
      if (document.visibilityState === 'visible') await work(signal)
      clearTimeout(timer) // of a run that the event below started meanwhile
      if (!signal.aborted) timer = setTimeout(run, everyMs)
    }
    document.addEventListener('visibilitychange', run, { signal })
    void run()
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [everyMs, ...inputs])
}

/** The last value from the server, and why there is no newer one. */
export type Live<T> = { value: T | null; problem: string | null; refresh(): Promise<void> }

/** The JSON document at `path`. */
export function useLive<T>(client: Client, path: string, everySeconds: number): Live<T> {
  const [state, setState] = useState<Pick<Live<T>, 'value' | 'problem'>>({
    ...{ value: null, problem: null },
  })
  /** Counts changes: an answer to a request from before a change may be out of date. */
  const changes = useRef(0)

  async function read(signal?: AbortSignal): Promise<void> {
    const current = changes.current
    const isLate = (): boolean => signal?.aborted === true || changes.current !== current
    try {
      const value = await client.get<T>(path, signal)
      if (!isLate()) setState({ value, problem: null })
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
  }
}
