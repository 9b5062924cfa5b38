/**
 * Replacing the data of a directory, all or nothing, and restoring a backup so. The new databases are
 * made and verified in a folder there; one rename then decides, and what is left to move is moved by
 * this process or, if it is killed, by the next command (`completeRestore`).
 */
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { CommandError, chunksUntilAborted, codeOf, systemReasonOf } from '../lib/errors.ts'
import { formatInstant } from '../lib/time.ts'
import { ArchiveError, extractArchive } from '../move/archive.ts'
import { type Counts, sumOf, syncDirectory } from './backup.ts'
import { startCheck, untilDone } from './check.ts'
import {
  ACCESS_FILE,
  DATA_FILES,
  FEEDS_FILE,
  hasDirectory,
  PROXY_FILE,
  WAL_ENDS,
} from './data-directory.ts'
import { giveToOwner, removeFolder, removeLeftovers } from './database-files.ts'
import { withoutRemedy } from './errors.ts'
import { requireUnused } from './move.ts'
import { verify } from './verify.ts'

const withWal = (name: string): string[] => ['', ...WAL_ENDS].map(end => name + end)
/** Every file of the data. */
const ALL_FILES = [ACCESS_FILE, PROXY_FILE].flatMap(withWal)
/** What is said of a list beside it: the states of feeds would say that a restored one is up to date. */
const REPLACED_FILES = [...ALL_FILES, ...withWal(FEEDS_FILE)]

/** Where new data is made; the id of the process follows. */
export const RESTORE_PART = 'restore.part-'
/** Its name once that is decided: what is in the folder is to be moved into place. */
const READY = 'restore.ready'
/** An empty file in it with this end stands for a file that is to be removed. */
const REMOVED = '.removed'
/** The folder of earlier data; the time follows. */
const BEFORE = 'before-restore-'

/**
 * Moves what has been made ready into place. Whether one process does it or several at once, and
 * wherever they are killed, the result is the same.
 */
export function completeRestore(dir: string): void {
  const ready = join(dir, READY)
  if (!existsSync(ready)) return
  try {
    const names = readdirSync(ready)
    for (const name of names.filter(found => found.endsWith(REMOVED))) {
      rmSync(join(dir, name.slice(0, -REMOVED.length)), { force: true })
    }
    for (const name of names.filter(found => !found.endsWith(REMOVED))) {
      try {
        renameSync(join(ready, name), join(dir, name))
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error // else another process has moved it meanwhile
      }
    }
    rmSync(ready, { recursive: true, force: true })
    syncDirectory(dir)
  } catch (error) {
    const reason = systemReasonOf(error)
    if (reason === null) throw error
    throw new CommandError(`cannot complete the restore that was begun in ${dir}: ${reason}`)
  }
}

type Replacement<T> = {
  /** The data directory; created when it is missing. */
  dir: string
  /** What the command does, for the sentence about a failure of the system: `cannot …`. */
  what: string
  /** Called before and after the new data is made. @throws when the data must not be replaced. */
  requireFree: () => void
  /** Makes the new data in a folder; returns the names of its files. */
  make: (scratch: string) => Promise<{ files: readonly string[]; result: T }>
  /** Names the folder in which the earlier data is kept; `null`: it is not kept. */
  keptAtMs: number | null
}

/**
 * Replaces the data of a directory that nobody uses as a whole. `previous` is the folder that keeps
 * the earlier data, `null` when there was none or it is not kept.
 * @throws CommandError when the directory is in use or cannot be written, and what the hooks throw.
 *   Nothing is changed then.
 */
export async function replaceData<T>({ dir, what, requireFree, make, keptAtMs }: Replacement<T>) {
  const isNew = !hasDirectory(dir)
  let scratch: string | null = null
  try {
    if (isNew) mkdirSync(dir, { recursive: true, mode: 0o700 })
    requireFree()
    requireUnused(dir)
    removeLeftovers(dir, RESTORE_PART)
    scratch = createFolder(join(dir, `${RESTORE_PART}${process.pid}`))
    const { files, result } = await make(scratch)
    for (const name of files) giveToOwner(join(scratch, name))
    requireUnused(dir)
    requireFree()
    const previous = decide(dir, scratch, files, keptAtMs)
    completeRestore(dir)
    return { result, previous }
  } catch (error) {
    const reason = systemReasonOf(error)
    throw reason === null ? error : new CommandError(`cannot ${what}: ${reason}`)
  } finally {
    if (scratch !== null) removeFolder(scratch)
    if (isNew && existsSync(dir) && readdirSync(dir).length === 0) rmdirSync(dir)
  }
}

/** Decides: from here on the data is the new one, even if the process is killed. */
function decide(
  dir: string,
  scratch: string,
  files: readonly string[],
  keptAtMs: number | null,
): string | null {
  for (const name of REPLACED_FILES.filter(known => !files.includes(known))) {
    writeFileSync(join(scratch, name + REMOVED), '')
  }
  syncDirectory(scratch)
  const previous = keptAtMs === null ? null : keepPrevious(dir, keptAtMs)
  try {
    renameSync(scratch, join(dir, READY))
  } catch (error) {
    if (previous !== null) removeFolder(previous)
    throw error
  }
  syncDirectory(dir)
  return previous
}

/** Links the data that is there into a new folder; returns it, `null` when there is no data. */
function keepPrevious(dir: string, nowMs: number): string | null {
  const found = REPLACED_FILES.filter(name => existsSync(join(dir, name)) && !name.endsWith('-shm'))
  if (found.length === 0) return null
  const folder = found.map(name => join(dir, name)).find(path => statSync(path).isDirectory())
  if (folder) throw new CommandError(`${folder} is a directory, not a file: move it away`)
  const previous = createFolder(join(dir, BEFORE + formatInstant(nowMs).replace(/[-:]|\.\d+/g, '')))
  for (const name of found) {
    const file = realpathSync(join(dir, name))
    try {
      linkSync(file, join(previous, name))
    } catch {
      copyFileSync(file, join(previous, name)) // on another file system, or on one without links
    }
  }
  syncDirectory(previous)
  return previous
}

/** Creates a folder, under the first of the names `path`, `path-2`, … that is free. */
function createFolder(path: string): string {
  for (let n = 1; ; n += 1) {
    const name = n === 1 ? path : `${path}-${n}`
    if (existsSync(name)) continue
    mkdirSync(name, { mode: 0o700 })
    giveToOwner(name)
    return name
  }
}

// -----------------------------------------------------------------------------------------------
// Restoring a backup

export type ExtractOptions = {
  /** The archive: its name, for sentences, and its content. */
  file: string
  bytes: AsyncIterable<Uint8Array>
  /** Ends the restore early; nothing is changed. */
  signal: AbortSignal
  /** Called with the number of bytes that have been read. */
  progress: (bytes: number) => void
}

type RestoreOptions = ExtractOptions & {
  /** The data directory; created when it is missing. */
  dir: string
  /** Whether data that is there may be replaced. It is kept in a folder of the data directory. */
  force: boolean
  nowMs: number
}

/** What was restored, and the folder with the data from before; `null` when there was none. */
export type Restored = {
  files: string[]
  previous: string | null
  isPreviousIntact: boolean
} & Counts

/** Whether all databases in a folder could be backed up; a worker reads them whole. */
async function isIntact(dir: string): Promise<boolean> {
  for (const { name, holds } of DATA_FILES.filter(part => existsSync(join(dir, part.name)))) {
    const start = () => startCheck(join(dir, name), holds, false)
    const problems = await untilDone(start, new AbortController().signal).catch(() => null)
    if (problems?.length !== 0) return false
  }
  return true
}

/**
 * Restores an archive of `backUp`. Data that is there is replaced as a whole, also by an archive that
 * holds only one of the databases.
 * @throws CommandError when the archive is not a whole and intact backup, the data directory is in
 *   use, holds data and `force` is not set, or cannot be written. Nothing is changed then.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const { dir, file, force, nowMs } = options
  const { result, previous } = await replaceData({
    dir,
    what: `restore ${file} into ${dir}`,
    requireFree() {
      const found = ALL_FILES.filter(name => existsSync(join(dir, name)))
      if (force || found.length === 0) return
      throw new CommandError(
        `${dir} holds data already (${found.join(', ')}); --force replaces it and keeps it aside`,
      )
    },
    async make(scratch) {
      const restored = await extractAndVerify(scratch, options)
      return { files: restored.files, result: restored }
    },
    keptAtMs: nowMs,
  })
  const isPreviousIntact = previous === null || (await isIntact(previous))
  return { files: result.files, previous, isPreviousIntact, ...result.counts }
}

/** Extracts an archive into a folder; what is there afterwards are its databases, verified. */
export async function extractAndVerify(
  scratch: string,
  { file, bytes, signal, progress }: ExtractOptions,
): Promise<{ files: string[]; counts: Counts }> {
  let readBytes = 0
  const pathOf = (name: string) =>
    DATA_FILES.some(part => part.name === name) ? join(scratch, name) : null
  try {
    const names = await extractArchive(chunksUntilAborted(bytes, signal), pathOf, count => {
      signal.throwIfAborted()
      readBytes += count
      progress(readBytes)
    })
    if (names.length === 0) throw new ArchiveError('has no file in it')
    const counts: Partial<Counts>[] = []
    for (const { name, holds } of DATA_FILES.filter(part => names.includes(part.name))) {
      counts.push(await verify({ file: join(scratch, name), holds, isTemporary: true }, signal))
    }
    return { files: names, counts: sumOf(counts) }
  } catch (error) {
    if (error instanceof ArchiveError) throw new CommandError(`${file} ${error.message}`)
    if (!(error instanceof CommandError)) throw error
    // The path of an extracted file says nothing to the operator, nor how to mend it.
    const message = error.message.replaceAll(`${scratch}/`, `${file}: `)
    throw new CommandError(withoutRemedy(message), error.exitCode)
  }
}
