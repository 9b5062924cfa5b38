/** Owns running the tests of a mutant, in a copy of the project. */
import { cpSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { launch } from '../../support/launch.ts'
import { ROOT } from '../../support/program.ts'
import { temporaryDirectory } from '../../support/temporary.ts'

export type Fate = 'killed' | 'survived' | 'timed out'

/** The time limit of one test. */
const HANGING_MS = 30_000

/** Directories that are copied; the others are linked. */
const COPIED = ['src', 'test', 'data']
const LEFT_OUT = ['.git', ...COPIED]

/** A copy of the project in a temporary directory. */
export function createWorkspace(seed: number) {
  const dir = temporaryDirectory('mutation')
  for (const name of COPIED) cpSync(join(ROOT, name), join(dir, name), { recursive: true })
  for (const name of readdirSync(ROOT)) {
    if (!LEFT_OUT.includes(name)) symlinkSync(join(ROOT, name), join(dir, name))
  }
  const scratch = join(dir, 'tmp') // for tests that are killed before they clean up
  mkdirSync(scratch)
  const env = { ...process.env, TMPDIR: scratch, MUTATION_SEED: String(seed) }

  return {
    /** Runs these tests (`access/key` is test/access/key.test.ts) until one fails or time is up. */
    async run(tests: readonly string[], limitSeconds: number) {
      const child = launch(
        [
          // A limit of processor time: a busy machine makes no test late.
          ...['sh', '-c', 'ulimit -t "$0" && exec "$@"', String(limitSeconds)],
          ...[process.execPath, 'test', '--bail', '--timeout', String(HANGING_MS)],
          ...['--preload', './test/lab/mutation/preload.ts'],
          ...tests.map(name => `./test/${name}.test.ts`),
        ],
        {
          ...{ cwd: dir, env, deadlineSeconds: (5 * HANGING_MS) / 1000 },
          ...{ stdout: 'ignore', stderr: 'ignore' },
        },
      )
      const exitCode = await child.ended
      const seconds = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1e6
      rmSync(scratch, { recursive: true, force: true })
      mkdirSync(scratch)
      const signal = child.signalCode()
      const isLate = signal === 'SIGXCPU' || signal === 'SIGKILL'
      const fate: Fate = isLate ? 'timed out' : exitCode === 0 ? 'survived' : 'killed'
      return { fate, seconds }
    },
    /** Replaces the text of a source file. */
    put: (source: string, text: string): void => writeFileSync(join(dir, source), text),
  }
}
export type Workspace = ReturnType<typeof createWorkspace>
