/** The program as a child that is watched while it runs, for what `startChild` does not show. */
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { program, T0, temporaryDirectory } from './harness.ts'

/** Starts the program, its clock at T0. Whoever starts it stops it: `await using` does. */
export function startProgram(args: readonly string[], env: { [name: string]: string } = {}) {
  const clockFile = join(temporaryDirectory(), 'clock')
  writeFileSync(clockFile, String(T0))
  const child = Bun.spawn([...program(), ...args], {
    env: {
      PATH: process.env.PATH ?? '',
      HOME: process.env.HOME ?? '',
      TMPDIR: tmpdir(),
      PROXYLIST_TEST_CLOCK: clockFile,
      ...env,
    },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const written = { stdout: '', stderr: '' }
  const wake = new Set<() => void>()
  const drain = async (name: keyof typeof written): Promise<void> => {
    const decoder = new TextDecoder()
    for await (const chunk of child[name]) {
      written[name] += decoder.decode(chunk, { stream: true })
      for (const look of wake) look()
    }
  }
  const ended = Promise.all([drain('stdout'), drain('stderr')]).then(() => child.exited)

  /** The first match of `pattern` on stderr; rejects when the program ends without one. */
  const says = (pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = pattern.exec(written.stderr)?.[0]
        if (found === undefined) return
        wake.delete(look)
        resolve(found)
      }
      wake.add(look)
      look()
      void ended.then(code => reject(new Error(`ended with ${code}: ${written.stderr}`)))
    })

  return {
    pid: child.pid,
    written,
    says,
    /** Resolves to the exit status once all output is read. */
    ended,
    stdin: child.stdin,
    kill: (signal: NodeJS.Signals): void => child.kill(signal),
    async [Symbol.asyncDispose](): Promise<void> {
      child.kill('SIGKILL')
      await ended
    },
  }
}
