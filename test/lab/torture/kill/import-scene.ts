/**
 * Owns one kind of import on a data directory of its own: preparing the list, running the import
 * to its end, and killing it at a random moment of its life.
 */
import { rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PROXY_FILE } from '../../../../src/app.ts'
import type { Run } from '../part.ts'
import { type Change, type ChangeFiles, type Variant, writeChange } from './changes.ts'
import { type Child, isRunning, kill, outputOf, startChild, succeed, until } from './kill.ts'
import { type Content, contentOf } from './list-state.ts'

/** How often the log of a running import is looked at. */
const LOOK_EVERY_MS = 1
/** Moments are drawn from a life a little longer than the last one was. */
const LIFE_FACTOR = 1.05
/** Share of the moments that are counted from the first write to the log, which comes late. */
const FROM_WRITE_SHARE = 0.5

/** The log up to here is of tables without rows, which a first import makes at its very start. */
const EMPTY_LOG_BYTES = 40_000

/** How an import went that nobody killed; `counts` is what it printed. */
export type Life = { ms: number; writtenMs: number; counts: string }

/** How a killed import went: whether it was alive, had written to the log, had removed it. */
export type Death = { wasKilled: boolean; hadWritten: boolean; hadClosed: boolean }

export type Scene = {
  run: Run
  change: Change
  data: string
  /** What the list holds in each variant. */
  contents: readonly Content[]
  /** What an import prints that turns the list into each variant. */
  counts: readonly string[]
  /** The last import that was not killed. */
  life: Life
}

/** Whether each import of the change is the first of a directory: then it has one variant. */
export const isFirst = ({ list }: Change): boolean => list === 0

const importArgs = (change: Change, files: readonly string[], data: string): string[] => [
  ...['import', ...files, '--data', data, '--format', 'ndjson', '--json'],
  ...(change.replace ? ['--replace'] : []),
]

/** Something that changes with every write to the log; `''` while it holds no rows. */
function logMark(data: string): string {
  const found = statSync(join(data, `${PROXY_FILE}-wal`), { throwIfNoEntry: false })
  const hasRows = found !== undefined && found.size > EMPTY_LOG_BYTES
  return hasRows ? `${found.size} ${found.mtimeMs}` : ''
}

const isWritten = (data: string, markBefore: string): boolean =>
  !['', markBefore].includes(logMark(data))

async function untilWritten(data: string, markBefore: string, child: Child): Promise<void> {
  while (isRunning(child) && !isWritten(data, markBefore)) await Bun.sleep(LOOK_EVERY_MS)
}

/** Runs an import to its end. @throws Error with what it said when it fails. */
async function importWhole(binary: string, args: readonly string[], data: string): Promise<Life> {
  const [mark, startMs] = [logMark(data), performance.now()]
  const child = startChild(binary, args)
  const output = outputOf(child)
  await untilWritten(data, mark, child)
  const writtenMs = performance.now() - startMs
  const { exitCode, stdout, stderr } = await output
  if (exitCode !== 0) throw new Error(`import exited with ${exitCode}: ${stderr}`)
  return { ms: performance.now() - startMs, writtenMs, counts: stdout.trim() }
}

/** Writes the files of a change and makes the list; gives also what acts on it. */
export async function openScene(run: Run, change: Change) {
  const data = run.directory('data')
  const files: ChangeFiles = await writeChange(run.directory('files'), change, run.seed, Date.now())
  const argsFor = (variant: Variant): string[] => importArgs(change, files.variants[variant], data)
  const importVariant = (variant: Variant) => importWhole(run.binary, argsFor(variant), data)

  if (files.base === null) rmSync(data, { recursive: true })
  else await succeed(run.binary, ['import', files.base, '--data', data])
  const contents: Content[] = []
  const counts: string[] = []
  let life: Life = { ms: 0, writtenMs: 0, counts: '' }
  for (const variant of isFirst(change) ? ([0] as const) : ([0, 1, 0] as const)) {
    life = await importVariant(variant)
    counts[variant] = life.counts
    contents[variant] = await contentOf(run.binary, data)
  }
  const scene: Scene = { run, change, data, contents, counts, life }

  return {
    scene,
    /** An import to its end; its counts are remembered as the last life. */
    async finish(variant: Variant): Promise<string> {
      scene.life = await importVariant(variant)
      return scene.life.counts
    },
    /** An import that is killed at a moment of a life such as the last one. */
    async cut(variant: Variant, random: () => number): Promise<Death> {
      const { ms, writtenMs } = scene.life
      const isFromWrite = random() < FROM_WRITE_SHARE
      const share = random() * LIFE_FACTOR
      const [mark, startMs] = [logMark(data), performance.now()]
      const child = startChild(run.binary, argsFor(variant))
      if (isFromWrite) await untilWritten(data, mark, child)
      const beganMs = isFromWrite ? performance.now() : startMs
      await until(beganMs + share * (isFromWrite ? ms - writtenMs : ms))
      const wasKilled = await kill(child)
      const hadClosed = mark === '' && logMark(data) === ''
      return { wasKilled, hadWritten: isWritten(data, mark), hadClosed }
    },
    /** Takes the whole directory away, for a first import. */
    clear(): void {
      rmSync(data, { recursive: true, force: true })
    },
  }
}
export type Stage = Awaited<ReturnType<typeof openScene>>
