/**
 * Owns moving all that an installation holds between a data directory and a database that machines
 * share, all or nothing, and backups of such a database.
 */
import type { Clock } from '../lib/clock.ts'
import { CommandError, StoreError } from '../lib/errors.ts'
import {
  type DatabaseOrder,
  type ReadDatabase,
  readDatabase,
  readRestingDatabase,
  type Versions,
  type WrittenDatabase,
  writeDatabase,
} from '../postgres/transfer/database.ts'
import { replaceData } from '../sqlite/backup/place.ts'
import { requireCopiesOf, requireOwnData } from '../sqlite/copy/copy-of.ts'
import { makeDirectory, type ReadDirectory, readDirectory } from '../sqlite/transfer/directory.ts'
import { type Counts, describeCounts, isNothing, PARTS } from '../transfer/contents.ts'
import {
  copyContents,
  countsOf,
  differences,
  requireSame,
  type Sums,
  sumContents,
  type Work,
} from '../transfer/transfer.ts'

export type MoveOptions = DatabaseOrder & {
  /** The data directory. */
  dir: string
  clock: Clock
  /** Called with the share that is done, from 0 to 1. */
  progress: (share: number) => void
}

/** What was moved: rows of each part, of plans all. */
export type Moved = { counts: Counts; shown: string }

/** Work that counts each row twice: when it is copied, and when it is compared. */
function createWork({ signal, progress }: MoveOptions, counts: Counts): Work {
  const total = 2 * PARTS.reduce((sum, part) => sum + counts[part], 1)
  let done = 0
  return {
    signal,
    onRows(rows) {
      done += rows
      progress(Math.min(1, done / total))
    },
  }
}

const notEmpty = ({ shown, counts }: Pick<WrittenDatabase, 'shown' | 'counts'>): CommandError =>
  new CommandError(
    `the database ${shown} is not empty, it holds ${describeCounts(counts)}: give one that is, ` +
      'or have nothing of it with: drop schema proxylist cascade',
  )

/** Writes all of a directory into a database, and proves that both hold the same. */
async function write(
  directory: ReadDirectory,
  database: WrittenDatabase,
  work: Work,
): Promise<{ sums: Sums; versions: Versions }> {
  const sums = await copyContents(directory.reader, await database.begin(), work)
  const versions = await database.finish(sums.proxies.rows)
  requireSame(sums, await sumContents(database.reader, work))
  return { sums, versions }
}

/**
 * A database that holds all of the directory and nothing else: a move was ended after its commit, before
 * the directory was made a copy. @throws CommandError when it holds anything else.
 */
async function recognise(
  { reader, counts }: ReadDirectory,
  database: WrittenDatabase,
  work: Work,
): Promise<{ sums: Sums; versions: Versions }> {
  if (counts.proxies !== database.counts.proxies) throw notEmpty(database)
  const sums = await sumContents(reader, work)
  if (differences(sums, await sumContents(database.reader, work)).length > 0) {
    throw notEmpty(database)
  }
  return { sums, versions: await database.versions() }
}

/**
 * Moves all of a data directory into a database without data. The directory is then a copy of it.
 * @throws CommandError when the directory is in use, incomplete or damaged, or the database is not
 *   empty; StoreError when that fails. Nothing is changed then.
 */
export async function moveToDatabase(options: MoveOptions): Promise<Moved> {
  const { dir } = options
  requireOwnData(dir)
  return readDirectory(dir, options, async directory => {
    let isWritten = false
    const { moved, commit } = await writeDatabase(options, async database => {
      const work = createWork(options, directory.counts)
      const isEmpty = isNothing(database.counts)
      const { sums, versions } = isEmpty
        ? await write(directory, database, work)
        : await recognise(directory, database, work)
      const prepared = directory.prepareCopies(versions)
      isWritten = true
      return {
        moved: { counts: countsOf(sums), shown: database.shown },
        commit: prepared,
      }
    }).catch(error => {
      throw isWritten ? uncertain(error) : error
    })
    commit()
    return moved
  })
}

/** The failure of a commit, of which nobody knows whether it was made. */
const uncertain = (error: unknown): unknown =>
  error instanceof StoreError
    ? new CommandError(
        `${error.message}; whether the move was committed is not known: run it again, it goes on ` +
          'from what it finds',
      )
    : error

/** Reads all of a database into new files of a data directory, and proves that both hold the same. */
async function makeFrom(
  { reader, counts, shown }: ReadDatabase,
  scratch: string,
  options: MoveOptions,
): Promise<{ files: string[]; result: Moved }> {
  const { clock } = options
  const work = createWork(options, counts)
  let sums: Sums | null = null
  const files = await makeDirectory(scratch, clock, async writer => {
    sums = await copyContents(reader, writer, work)
  })
  const found = await readDirectory(scratch, options, made => sumContents(made.reader, work))
  requireSame(sums ?? found, found)
  return { files, result: { counts: countsOf(found), shown } }
}

/**
 * Moves all of a database, on which no node runs, into a data directory that holds nothing, or copies
 * of that very database. The database stays as it is.
 * @throws CommandError when nodes run, the directory is in use or holds other data; StoreError when
 *   the database fails. Nothing is changed then.
 */
export async function moveFromDatabase(options: MoveOptions): Promise<Moved> {
  const { dir } = options
  let id: string | null = null
  const { result } = await replaceData({
    dir,
    what: `move into ${dir}`,
    requireFree: () => requireCopiesOf(dir, id),
    make: scratch =>
      readRestingDatabase(options, database => {
        id = database.id
        requireCopiesOf(dir, id)
        return makeFrom(database, scratch, options)
      }),
    keptAtMs: null,
  })
  return result
}
