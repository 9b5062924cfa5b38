/**
 * Moving all that an installation holds between a data directory and a database that machines
 * share, all or nothing, and backups of such a database, which are made and restored by moving.
 */
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import { counted } from '../lib/counted.ts'
import { CommandError, messageOf, StoreError } from '../lib/errors.ts'
import type { Versions } from '../node/ports.ts'
import {
  type DatabaseOrder,
  type ReadDatabase,
  readDatabase,
  type WrittenDatabase,
  writeDatabase,
} from '../postgres/move.ts'
import {
  archive,
  type Backup,
  type BackupTarget,
  backUp,
  inScratch,
  LEFT_OUT,
} from '../sqlite/backup.ts'
import { requireCopiesOf, requireOwnData } from '../sqlite/copy.ts'
import { ACCESS_FILE, FEED_LINES_FILE, FEEDS_FILE, PROXY_FILE } from '../sqlite/data-directory.ts'
import { makeDirectory, type ReadDirectory, readDirectory } from '../sqlite/move.ts'
import {
  type ExtractOptions,
  extractAndVerify,
  type Restored,
  replaceData,
  restore,
} from '../sqlite/restore.ts'
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
  type Work,
} from './contents.ts'

/** `progress` is called with the share that is done, from 0 to 1. */
type Order = DatabaseOrder & { clock: Clock; progress: (share: number) => void }

/** `dir` is the data directory. */
export type MoveOptions = Order & { dir: string }

/** What was moved: rows of each part, of plans all. */
type Moved = { counts: Counts; shown: string }

/** Work that counts each row twice: when it is copied, and when it is compared. */
function createWork({ signal, progress }: Order, rows: number): Work {
  let done = 0
  return {
    signal,
    onRows(some) {
      done += some
      progress(Math.min(1, done / (2 * rows + 1)))
    },
  }
}

/**
 * Writes all of a directory into a database, and proves that both hold the same. A database that does so
 * already stays as it is: a move was ended after its commit, before the directory was made a copy.
 * @throws CommandError when it holds anything else, StoreError when it does not hold what was written.
 */
async function fill(
  directory: ReadDirectory,
  database: WrittenDatabase,
  work: Work,
): Promise<{ counts: Counts; versions: Versions }> {
  const { counts, shown } = database
  const isEmpty = isNothing(counts)
  const notEmpty = new CommandError(
    `the database ${shown} is not empty, it holds ${describeCounts(counts)}: give one that is, ` +
      'or have nothing of it with: drop schema proxylist cascade',
  )
  if (!isEmpty && directory.proxies !== counts.proxies) throw notEmpty
  const sums = await readAll(directory.reader, isEmpty ? await database.begin() : null, work)
  const versions = await (isEmpty ? database.finish() : database.versions())
  const found = await readAll(database.reader, null, work)
  if (isEmpty) requireSame(sums, found)
  else if (differences(sums, found).length > 0) throw notEmpty
  return { counts: countsOf(sums), versions }
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
      const work = createWork(order, directory.rows)
      const { counts, versions } = await fill(directory, database, work)
      const finish = onWritten(directory, versions)
      isWritten = true
      return { moved: { counts, shown: database.shown }, finish }
    }).catch(error => {
      if (!isWritten || !(error instanceof StoreError)) throw error
      throw new CommandError(
        `${error.message}; whether the move was committed is not known: run it again, it goes on ` +
          'from what it finds',
      )
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

/** Reads all of a database into new files of a data directory, and proves that both hold the same. */
async function makeFrom(
  { reader, counts, shown }: ReadDatabase,
  scratch: string,
  order: Order,
): Promise<{ files: string[]; result: Moved }> {
  const rows = PARTS.reduce((sum, part) => sum + counts[part], 0)
  const work = createWork(order, rows)
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
  const requireFree = () => requireCopiesOf(dir, id)
  const make = (scratch: string) =>
    readDatabase(options, true, database => {
      id = database.id
      requireFree()
      return makeFrom(database, scratch, options)
    })
  const what = `move into ${dir}`
  return (await replaceData({ dir, what, requireFree, make, keptAtMs: null })).result
}

/**
 * Backs up a database, as of one moment, while machines use it. It is moved into a folder, which is then
 * packed: archives have one form.
 */
export async function backUpDatabase(order: Order, to: BackupTarget): Promise<Backup> {
  let [feeds, feedLines] = [0, 0]
  const written = await archive(
    async (scratch, progress) => {
      const { result } = await readDatabase(order, false, database =>
        makeFrom(database, scratch, { ...order, progress }),
      )
      const { keys, plans, proxies } = result.counts
      ;({ feeds, feedLines } = result.counts)
      return { keys, plans, proxies }
    },
    { to, nowMs: order.clock(), signal: order.signal, progress: order.progress },
  )
  const leavesOut = [
    feeds > 0 && `what is known of feeds is not in it: ${LEFT_OUT[FEEDS_FILE]}`,
    feedLines > 0 && `the feeds of the console are not in it: ${LEFT_OUT[FEED_LINES_FILE]}`,
  ].filter(sentence => sentence !== false)
  return { ...written, leavesOut }
}

/** Restores a backup into a database without data. */
export const restoreDatabase = (order: DatabaseOrder & { clock: Clock }, archive: ExtractOptions) =>
  inScratch(join(tmpdir(), 'proxylist-restore'), async scratch => {
    const dir = join(scratch, 'data')
    mkdirSync(dir, { mode: 0o700 })
    const { files } = await extractAndVerify(dir, archive)
    // What the archive lacks is empty.
    openRegistry(dir).close()
    openList(dir).close()
    const unseen = { ...order, progress() {} }
    const { counts, shown } = await moveInto(dir, unseen, () => () => {})
    const { keys, plans, proxies } = counts
    return { files, keys, plans, proxies, shown }
  })

// What commands do with a data directory, which must not be a copy of a database.
export { type BackupTarget, backUp, requireOwnData, restore }

type Contents = Pick<Backup & Restored, 'files' | 'keys' | 'plans' | 'proxies'>

/** What an archive holds, for the operator: `access.db (2 keys, 2 plans) and proxies.db (5 proxies)`. */
export function describeContents({ files, keys, plans, proxies }: Contents): string {
  const contents: { [file: string]: string } = {
    [ACCESS_FILE]: `${counted(keys)} keys, ${counted(plans)} plans`,
    [PROXY_FILE]: `${counted(proxies)} proxies`,
  }
  return files.map(file => `${file} (${contents[file]})`).join(' and ')
}
