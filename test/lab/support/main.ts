/** What the long runs share as programs: their knobs, what they print and how they end. */
import { existsSync } from 'node:fs'
import { cpus } from 'node:os'
import { resolve } from 'node:path'
import { BINARY, ROOT } from '../../support/program.ts'
import { cleanUpForGood } from '../../support/temporary.ts'

export const print = (text: string): void => void process.stdout.write(`${text}\n`)
export const say = (text: string): void => void process.stderr.write(`${text}\n`)

/** A number of at least `least` from the environment. @throws Error naming the variable. */
export function numberFrom(name: string, fallback: number, least = Number.MIN_VALUE): number {
  const value = Number(process.env[name] || fallback)
  if (Number.isFinite(value) && value >= least) return value
  throw new Error(`${name} must be a number ${least === 0 ? 'of at least' : 'above'} 0`)
}

/** The seed of a run: SEED, or a random one. */
export const seedFrom = (): number => numberFrom('SEED', Math.floor(Math.random() * 1e6) + 1)

/** Those of the names that ONLY lists, in their order; all without ONLY. @throws Error for others. */
export function onlyFrom<Name extends string>(names: readonly Name[]): readonly Name[] {
  if (!process.env.ONLY) return names
  const wanted = process.env.ONLY.split(',').map(name => name.trim())
  const unknown = wanted.filter(name => !names.some(known => known === name))
  if (unknown.length > 0) throw new Error(`ONLY takes ${names.join(', ')}; not ${unknown.join()}`)
  return names.filter(name => wanted.includes(name))
}

/** The compiled program. @throws Error when it is not there. */
export function binaryPath(): string {
  const binary = resolve(ROOT, BINARY || 'dist/proxylist')
  if (!existsSync(binary)) throw new Error('dist/proxylist is missing; run make build')
  return binary
}

/** The machine, the date and the seed, as they stand above a table. */
export const headline = (seed: number): string =>
  `${cpus()[0]?.model.trim()}, ${cpus().length} cores; ` +
  `${new Date().toISOString().slice(0, 10)}; seed ${seed}`

/** Runs to the end, or to a signal, and leaves nothing behind; `main` gives the exit status. */
export async function runToEnd(main: () => Promise<number>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => void cleanUpForGood().then(() => process.exit(130)))
  }
  try {
    process.exitCode = await main()
  } catch (error) {
    say(messageOf(error))
    process.exitCode = 1
  } finally {
    await cleanUpForGood()
  }
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
