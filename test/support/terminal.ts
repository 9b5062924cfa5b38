/** The program on a terminal, which is its stdin, stdout and stderr. */
import { program, RUNNER_FREE } from './program.ts'
import { onCleanUp } from './temporary.ts'

/** Starts a command; its terminal is so wide that no message is broken into two lines. */
export function onTerminal(args: readonly string[], env: { [name: string]: string } = {}) {
  let shown = ''
  const decoder = new TextDecoder()
  const { promise: hungUp, resolve } = Promise.withResolvers<void>()
  const child = Bun.spawn([...program(), ...args], {
    env: { ...RUNNER_FREE, TERM: 'xterm', ...env },
    terminal: {
      ...{ cols: 500, rows: 24 },
      data(_, bytes) {
        shown += decoder.decode(bytes, { stream: true })
      },
      exit: () => resolve(),
    },
  })
  onCleanUp(() => child.kill('SIGKILL'))
  return {
    /** What the terminal got so far. */
    shown: () => shown,
    kill: (signal: NodeJS.Signals): void => child.kill(signal),
    hangUp: (): void => child.terminal?.close(),
    /** Resolves to the exit status. */
    exited: child.exited,
    /** Resolves to the exit status when the terminal has everything. */
    async ended(): Promise<number> {
      await hungUp
      return child.exited
    },
  }
}
