/** Owns SIGTERM and SIGINT: a command ends at the first one; a second one ends the process at once. */
const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** Calls `stop` at the first signal. Returns a function that stops waiting for one. */
export function onSignal(stop: () => void): () => void {
  const off = (): void => {
    for (const signal of SIGNALS) process.off(signal, once)
  }
  const once = (): void => {
    off()
    stop()
  }
  for (const signal of SIGNALS) process.on(signal, once)
  return off
}

/** Resolves at the first signal. */
export const untilSignal = (): Promise<void> =>
  new Promise(resolve => {
    onSignal(resolve)
  })
