/** Owns what the long tests share as programs: their knobs, what they print, and how they end. */
import { existsSync } from 'node:fs'
import { cpus } from 'node:os'
import { resolve } from 'node:path'
import { ROOT } from '../bench/options.ts'
import { stopForGood } from '../bench/processes.ts'

export const print = (text: string): void => void process.stdout.write(`${text}\n`)
export const say = (text: string): void => void process.stderr.write(`${text}\n`)

/** A positive number from the environment. @throws Error naming the variable. */
export function numberFrom(name: string, fallback: number): number {
  const value = Number(process.env[name] || fallback)
  if (Number.isFinite(value) && value > 0) return value
  throw new Error(`${name} must be a number above 0`)
}

/** The seed of a run: the one that was asked for, or any. */
export const seedFrom = (): number => numberFrom('SEED', Math.floor(Math.random() * 1e6) + 1)

/** The compiled program. @throws Error when it is not there. */
export function binaryPath(): string {
  const binary = resolve(ROOT, process.env.PROXYLIST_BINARY || 'dist/proxylist')
  if (!existsSync(binary)) throw new Error('dist/proxylist is missing; run make build')
  return binary
}

/** The machine, the date and the seed, as they stand above a table. */
export const headline = (seed: number): string =>
  `${cpus()[0]?.model.trim()}, ${cpus().length} cores; ` +
  `${new Date().toISOString().slice(0, 10)}; seed ${seed}`

/** Runs to the end, or to a signal, and leaves no process behind; `main` gives the exit status. */
export async function runToEnd(main: () => Promise<number>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => void stopForGood().then(() => process.exit(130)))
  }
  try {
    process.exitCode = await main()
  } catch (error) {
    say(error instanceof Error ? error.message : String(error))
    process.exitCode = 1
  } finally {
    await stopForGood()
  }
}
