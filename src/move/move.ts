/**
 * Owns moving all that an installation holds between a data directory and a database that machines
 * share, all or nothing, and backups of such a database, which are made and restored by moving.
 */
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import type { Versions } from '../node/ports.ts'
import {
  type DatabaseOrder,
  type ReadDatabase,
  readDatabase,
  readRestingDatabase,
  type WrittenDatabase,
  writeDatabase,
} from '../postgres/move.ts'
import { archive, type Backup, type BackupTarget, inScratch } from '../sqlite/backup.ts'
import { requireCopiesOf, requireOwnData } from '../sqlite/copy.ts'
import { DATA_FILES } from '../sqlite/data-directory.ts'
import { makeDirectory, type ReadDirectory, readDirectory } from '../sqlite/move.ts'
import { extractAndVerify, replaceData } from '../sqlite/restore.ts'
import { openList, openRegistry } from '../sqlite/stores.ts'
import {
  type Counts,
  countsOf,
  describeCounts,
  differences,
  isNothing,
  PARTS,
  readAll,
  requireSame,
  type Sums,
  type Work,
} from './contents.ts'

const ARCHIVED = DATA_FILES.map(({ name }) => name)

/** What all of it reads and writes by. */
type Order = DatabaseOrder & {
  clock: Clock
  /** Called with the share that is done, from 0 to 1. */
  progress: (share: number) => void
}

/** `dir` is the data directory. */
export type MoveOptions = Order & { dir: string }

/** What was moved: rows of each part, of plans all. */
export type Moved = { counts: Counts; shown: string }

/** Work that counts each row twice: when it is copied, and when it is compared. */
function createWork({ signal, progress }: Order, counts: Counts): Work {
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
  const sums = await readAll(directory.reader, await database.begin(), work)
  const versions = await database.finish()
  requireSame(sums, await readAll(database.reader, null, work))
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
  const sums = await readAll(reader, null, work)
  if (differences(sums, await readAll(database.reader, null, work)).length > 0) {
    throw notEmpty(database)
  }
  return { sums, versions: await database.versions() }
}

/**
 * Moves all of a data directory into a database without data; `onWritten` is called with the versions
 * that it has then, and returns what is to be done after the commit.
 */
async function moveInto(
  dir: string,
  order: Order,
  onWritten: (directory: ReadDirectory, versions: Versions) => () => void,
): Promise<Moved> {
  return readDirectory(dir, order, async directory => {
    let isWritten = false
    const { moved, finish } = await writeDatabase(order, async database => {
      const work = createWork(order, directory.counts)
      const isEmpty = isNothing(database.counts)
      const { sums, versions } = isEmpty
        ? await write(directory, database, work)
        : await recognise(directory, database, work)
      const finishMove = onWritten(directory, versions)
      isWritten = true
      return {
        moved: { counts: countsOf(sums), shown: database.shown },
        finish: finishMove,
      }
    }).catch(error => {
      throw isWritten ? uncertain(error) : error
    })
    try {
      finish()
    } catch (error) {
      throw new CommandError(`${messageOf(error)}; the database holds all: run the move again`)
    }
    return moved
  })
}

/**
 * Moves all of a data directory into a database without data. The directory is then a copy of it.
 * @throws CommandError when the directory is in use, incomplete or damaged, or the database is not
 *   empty; StoreError when that fails. Nothing is changed then.
 */
export async function moveToDatabase(options: MoveOptions): Promise<Moved> {
  requireOwnData(
    options.dir,
    'its data are there already; serve with --database goes on with it, and move --from-database goes back',
  )
  return moveInto(options.dir, options, (directory, versions) => directory.prepareCopies(versions))
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
  order: Order,
): Promise<{ files: string[]; result: Moved }> {
  const work = createWork(order, counts)
  const { files, result: sums } = await makeDirectory(scratch, writer =>
    readAll(reader, writer, work),
  )
  const found = await readDirectory(scratch, order, made => readAll(made.reader, null, work))
  requireSame(sums, found)
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

/** Backs up a database, as of one moment, while machines use it. The archive is that of a data directory. */
export async function backUpDatabase(order: Order, to: BackupTarget): Promise<Backup> {
  const { counts, bytes } = await archive(
    async (scratch, progress) => {
      const dir = join(scratch, 'data')
      mkdirSync(dir, { mode: 0o700 })
      const { result } = await readDatabase(order, database =>
        makeFrom(database, dir, { ...order, progress }),
      )
      return { counts: result.counts, copies: ARCHIVED.map(name => join(dir, name)) }
    },
    { to, nowMs: order.clock(), signal: order.signal, progress: order.progress },
  )
  const { keys, plans, proxies } = counts
  const leavesOut = counts.feeds > 0 ? ['what is known of feeds'] : []
  return { files: ARCHIVED, leavesOut, bytes, keys, plans, proxies }
}

/** Restores a backup into a database without data; `onRead` is called with the bytes that are read. */
export const restoreDatabase = (
  order: Order,
  {
    file,
    bytes,
    onRead,
  }: { file: string; bytes: AsyncIterable<Uint8Array>; onRead: (n: number) => void },
): Promise<Pick<Backup, 'files' | 'keys' | 'plans' | 'proxies'> & { shown: string }> =>
  inScratch(join(tmpdir(), 'proxylist-restore'), async scratch => {
    const dir = join(scratch, 'data')
    mkdirSync(dir, { mode: 0o700 })
    const { signal } = order
    const { files } = await extractAndVerify(dir, { file, bytes, signal, progress: onRead })
    // What the archive lacks is empty.
    openRegistry(dir).close()
    openList(dir).close()
    const { counts, shown } = await moveInto(dir, order, () => () => {})
    const { keys, plans, proxies } = counts
    return { files, keys, plans, proxies, shown }
  })
