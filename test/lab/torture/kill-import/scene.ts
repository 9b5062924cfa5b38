/**
 * One kind of import on a data directory of its own: preparing the list, running the import
 * to its end, and killing it at a random moment.
 */
import { rmSync, statSync } from 'node:fs'
import { type Child, launch, succeed } from '../../../support/launch.ts'
import { files } from '../../support/serve.ts'
import type { Run } from '../part.ts'
import { DEADLINE, kill, until } from '../support/kill.ts'
import { type Content, contentOf } from '../support/list-state.ts'
import { type Change, type ChangeFiles, type Variant, writeChange } from './changes.ts'

/** Between two checks of a running import's WAL. */
const CHECK_EVERY_MS = 1
/** Moments are drawn from a little more than the duration of the last import. */
const DURATION_FACTOR = 1.05
/** Share of the moments that count from the first write to the WAL, which comes late. */
const FROM_WRITE_SHARE = 0.5

/** A WAL up to this size holds empty tables, which a first import creates as it starts. */
const EMPTY_WAL_BYTES = 40_000

/** An import that was not killed; `counts` is what it printed. */
type Completed = { ms: number; writtenMs: number; counts: string }

/** A killed import: whether it was still running, had written to the WAL, had removed it. */
export type Killed = { wasKilled: boolean; hadWritten: boolean; hadClosed: boolean }

export type Scene = {
  run: Run
  change: Change
  data: string
  /** What the list holds in each variant. */
  contents: readonly Content[]
  /** What an import that makes each variant prints. */
  counts: readonly string[]
  /** The last import that was not killed. */
  last: Completed
}

/** Whether each import of the change is the first of its directory: then there is one variant. */
export const isFirst = ({ list }: Change): boolean => list === 0

const importArgs = (change: Change, files: readonly string[], data: string): string[] => [
  ...['import', ...files, '--data', data, '--format', 'ndjson', '--json'],
  ...(change.replace ? ['--replace'] : []),
]

/** A text that changes with every write to the WAL; `''` while it holds no rows. */
function walState(data: string): string {
  const found = statSync(`${files(data).list}-wal`, { throwIfNoEntry: false })
  const hasRows = found !== undefined && found.size > EMPTY_WAL_BYTES
  return hasRows ? `${found.size} ${found.mtimeMs}` : ''
}

const isWritten = (data: string, stateBefore: string): boolean =>
  !['', stateBefore].includes(walState(data))

async function untilWritten(data: string, stateBefore: string, child: Child): Promise<void> {
  while (child.isRunning() && !isWritten(data, stateBefore)) await Bun.sleep(CHECK_EVERY_MS)
}

/** Runs an import to its end. @throws Error with its stderr when it fails. */
async function importFully(
  binary: string,
  args: readonly string[],
  data: string,
): Promise<Completed> {
  const [state, startMs] = [walState(data), performance.now()]
  const child = launch([binary, ...args], DEADLINE)
  await untilWritten(data, state, child)
  const writtenMs = performance.now() - startMs
  const exitCode = await child.ended
  const { stdout, stderr } = child.written
  if (exitCode !== 0) throw new Error(`import exited with ${exitCode}: ${stderr}`)
  return { ms: performance.now() - startMs, writtenMs, counts: stdout.trim() }
}

/** Writes the files of a change and imports the list; gives also what acts on it. */
export async function openScene(run: Run, change: Change) {
  const data = run.directory('data')
  const { base, variants }: ChangeFiles = await writeChange(
    run.directory('files'),
    change,
    run.seed,
    Date.now(),
  )
  const argsFor = (variant: Variant): string[] => importArgs(change, variants[variant], data)
  const importVariant = (variant: Variant) => importFully(run.binary, argsFor(variant), data)

  if (base === null) rmSync(data, { recursive: true })
  else await succeed([run.binary, 'import', base, '--data', data], DEADLINE)
  const contents: Content[] = []
  const counts: string[] = []
  let last: Completed = { ms: 0, writtenMs: 0, counts: '' }
  for (const variant of isFirst(change) ? ([0] as const) : ([0, 1, 0] as const)) {
    last = await importVariant(variant)
    counts[variant] = last.counts
    contents[variant] = await contentOf(run.binary, data)
  }
  const scene: Scene = { run, change, data, contents, counts, last }

  return {
    scene,
    /** Runs an import to its end, which becomes `last`; gives its counts. */
    async finish(variant: Variant): Promise<string> {
      scene.last = await importVariant(variant)
      return scene.last.counts
    },
    /** Runs an import and kills it, at a moment within the duration of the last one. */
    async kill(variant: Variant, random: () => number): Promise<Killed> {
      const { ms, writtenMs } = scene.last
      const isFromWrite = random() < FROM_WRITE_SHARE
      const share = random() * DURATION_FACTOR
      const [state, startMs] = [walState(data), performance.now()]
      const child = launch([run.binary, ...argsFor(variant)])
      if (isFromWrite) await untilWritten(data, state, child)
      const beganMs = isFromWrite ? performance.now() : startMs
      await until(beganMs + share * (isFromWrite ? ms - writtenMs : ms))
      const wasKilled = await kill(child)
      const hadClosed = state === '' && walState(data) === ''
      return { wasKilled, hadWritten: isWritten(data, state), hadClosed }
    },
    /** Removes the data directory, for a first import. */
    clear(): void {
      rmSync(data, { recursive: true, force: true })
    },
  }
}
export type Stage = Awaited<ReturnType<typeof openScene>>
