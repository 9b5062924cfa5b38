/**
 * Owns restoring a backup into a data directory, all or nothing (`place.ts`): reading the archive and
 * verifying what is in it.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError, chunksUntilAborted } from '../../lib/errors.ts'
import { ArchiveError, extractArchive } from '../../move/archive.ts'
import { openAccessFile } from '../access/file.ts'
import { checkInWorker, checkRegistry } from '../check.ts'
import { explain, isStoreFailure, withoutRemedy } from '../errors.ts'
import type { ServerHolds } from '../migrate.ts'
import { openListFile } from '../proxies/store.ts'
import { PARTS } from './backup.ts'
import { type Counts, countRows, NO_COUNTS } from './counts.ts'
import { ALL_FILES, replaceData } from './place.ts'

export type ExtractOptions = {
  /** The archive: its name, for sentences, and its content. */
  file: string
  bytes: AsyncIterable<Uint8Array>
  /** Ends the restore early; nothing is changed. */
  signal: AbortSignal
  /** Called with the number of bytes that have been read. */
  progress: (bytes: number) => void
}

export type RestoreOptions = ExtractOptions & {
  /** The data directory; created when it is missing. */
  dir: string
  /** Whether data that is there may be replaced. It is kept in a folder of the data directory. */
  force: boolean
  nowMs: number
}

/** What was restored, and the folder with the data from before; `null` when there was none. */
export type Restored = { files: string[]; previous: string | null } & Counts

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
    requireFree: () => force || refuseExisting(dir),
    async make(scratch) {
      const restored = await extractAndVerify(scratch, options)
      return { files: restored.files, result: restored }
    },
    keptAtMs: nowMs,
  })
  return { files: result.files, previous, ...NO_COUNTS, ...result.counts }
}

function refuseExisting(dir: string): void {
  const found = ALL_FILES.filter(name => existsSync(join(dir, name)))
  if (found.length === 0) return
  throw new CommandError(
    `${dir} holds data already (${found.join(', ')}); --force replaces it and keeps it aside`,
  )
}

/** Extracts an archive into a folder; what is there afterwards are its databases, verified. */
export async function extractAndVerify(
  scratch: string,
  { file, bytes, signal, progress }: ExtractOptions,
): Promise<{ files: string[]; counts: Partial<Counts> }> {
  let readBytes = 0
  const placeOf = (name: string) =>
    PARTS.some(part => part.name === name) ? join(scratch, name) : null
  try {
    const names = await extractArchive(chunksUntilAborted(bytes, signal), placeOf, count => {
      signal.throwIfAborted()
      readBytes += count
      progress(readBytes)
    })
    if (names.length === 0) throw new ArchiveError('is empty')
    const counts: Partial<Counts> = {}
    for (const { name, holds } of PARTS.filter(part => names.includes(part.name))) {
      Object.assign(counts, await verify(join(scratch, name), holds, signal))
    }
    for (const name of readdirSync(scratch)) {
      if (!names.includes(name)) rmSync(join(scratch, name)) // what a migration has left
    }
    return { files: names, counts }
  } catch (error) {
    if (error instanceof ArchiveError) throw new CommandError(`${file} ${error.message}`)
    if (!(error instanceof CommandError)) throw error
    // The path of an extracted file says nothing to the operator, nor how to mend it.
    const message = error.message.replaceAll(`${scratch}/`, `${file}: `)
    throw new CommandError(withoutRemedy(message), error.exitCode)
  }
}

const MUST_EXIST = { mustExist: true } as const

/** How each database is opened; one of an earlier schema is migrated. */
const OPEN: { readonly [holds in ServerHolds]: (file: string) => Database } = {
  access: file => openAccessFile(file, MUST_EXIST),
  proxies: file => openListFile(file, MUST_EXIST),
}

/** Brings an extracted database to the newest schema and checks it; returns its rows. */
async function verify(
  file: string,
  holds: ServerHolds,
  signal: AbortSignal,
): Promise<Partial<Counts>> {
  try {
    const ofList = holds === 'proxies' ? await checkInWorker(file, signal) : []
    const db = OPEN[holds](file)
    try {
      const problems = holds === 'access' ? checkRegistry(db) : ofList
      if (problems.length > 0) throw new CommandError(`${file} is damaged`)
      return countRows(db, holds)
    } finally {
      db.close(true)
    }
  } catch (error) {
    throw isStoreFailure(error) ? new CommandError(explain(file, error)) : error
  }
}
