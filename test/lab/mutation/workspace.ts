/** Owns running the tests of a mutant: in a private copy of the project, where it stands in. */
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../bench/options.ts'

export type Fate = 'killed' | 'survived' | 'timed out'

/** How long one test may wait for what never comes. */
const HANGING_MS = 30_000

/** What tests may read; of all else they need none, or it is found through a link. */
const COPIED = ['src', 'test', 'data']
const LEFT_OUT = ['.git', ...COPIED]

/** A copy of the project in a temporary directory; `remove` it at the end. */
export function createWorkspace(seed: number) {
  const dir = mkdtempSync(join(tmpdir(), 'proxylist-mutation-'))
  for (const name of COPIED) cpSync(join(ROOT, name), join(dir, name), { recursive: true })
  for (const name of readdirSync(ROOT)) {
    if (!LEFT_OUT.includes(name)) symlinkSync(join(ROOT, name), join(dir, name))
  }
  const scratch = join(dir, 'tmp') // of tests that are killed before they clean up
  mkdirSync(scratch)
  const environment = { ...process.env, TMPDIR: scratch, MUTATION_SEED: String(seed) }

  return {
    /** Runs these tests (`access/key` is test/access/key.test.ts) until one fails, or their time is up. */
    async run(tests: readonly string[], limitSeconds: number) {
      const child = Bun.spawn(
        [
          // Of processor time, so that a busy machine makes nothing late.
          ...['sh', '-c', 'ulimit -t "$0" && exec "$@"', String(limitSeconds)],
          ...[process.execPath, 'test', '--bail', '--timeout', String(HANGING_MS)],
          ...['--preload', './test/lab/mutation/preload.ts'],
          ...tests.map(name => `./test/${name}.test.ts`),
        ],
        {
          ...{ cwd: dir, env: environment, timeout: 5 * HANGING_MS, killSignal: 'SIGKILL' },
          ...{ stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' },
        },
      )
      const exitCode = await child.exited
      const seconds = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1e6
      rmSync(scratch, { recursive: true, force: true })
      mkdirSync(scratch)
      const isLate = child.signalCode === 'SIGXCPU' || child.signalCode === 'SIGKILL'
      const fate: Fate = isLate ? 'timed out' : exitCode === 0 ? 'survived' : 'killed'
      return { fate, seconds }
    },
    /** Puts a text in the place of a source file. */
    put: (source: string, text: string): void => writeFileSync(join(dir, source), text),
    remove: (): void => rmSync(dir, { recursive: true, force: true }),
  }
}
export type Workspace = ReturnType<typeof createWorkspace>
