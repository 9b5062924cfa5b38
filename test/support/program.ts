/** The program under test as a child process: which it is, and running it with a clock. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { T0 } from './fixtures.ts'
import { launch, type Outcome, run } from './launch.ts'
import { temporaryDirectory } from './temporary.ts'

export const ROOT = join(import.meta.dir, '../..')

/** The compiled binary under test, or `undefined`: then everything runs from source. */
export const BINARY = process.env.PROXYLIST_BINARY

/** Whether services that scenarios ask are in process, also where there is a binary. */
export const IS_IN_PROCESS =
  BINARY === undefined || process.env.PROXYLIST_TEST_SERVICES === 'in-process'

/** The program from source, under the Bun that runs the tests. */
export const SOURCE = [process.execPath, join(ROOT, 'src/main.ts')]

/** The program under test: the binary, or the source. */
export const program = (): string[] => (BINARY === undefined ? SOURCE : [BINARY])

/** On a busy machine two seconds, the default, may be too short for a database. */
const PATIENT = { PROXYLIST_DATABASE_TIMEOUT: '60s' }

/** A clock at T0 for a child, in an environment; `setClock` takes Unix milliseconds. */
export function createClock() {
  const file = join(temporaryDirectory(), 'clock')
  const setClock = (ms: number): void => writeFileSync(file, String(ms))
  setClock(T0)
  return { env: { ...PATIENT, PROXYLIST_TEST_CLOCK: file }, setClock }
}

type Environment = { [name: string]: string }
export type RunOptions = { stdin?: string | Uint8Array; env?: Environment; cwd?: string }

/** Runs the program to its end, its clock at T0. */
export const proxylist = (
  args: readonly string[],
  { stdin, env = {}, cwd = ROOT }: RunOptions = {},
): Promise<Outcome> =>
  run([...program(), ...args], {
    env: { ...createClock().env, ...env },
    cwd,
    ...(stdin !== undefined && { stdin: Buffer.from(stdin) }),
  })

/** Starts the program, its clock at T0 and its stdin a pipe. */
export function startProgram(args: readonly string[], env: Environment = {}) {
  const child = launch([...program(), ...args], {
    env: { ...createClock().env, ...env },
    stdin: 'pipe',
  })
  if (child.stdin === null) throw new Error('stdin is not a pipe')
  return { ...child, stdin: child.stdin }
}

/** An environment without the variables of the test runner, some of which the program refuses. */
export const RUNNER_FREE = { PATH: process.env.PATH ?? '' }
