/**
 * Owns reading and writing a data directory as a whole, when its contents are moved: one that nobody
 * else uses meanwhile, and one that is made.
 */
import type { Database } from 'bun:sqlite'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError } from '../../lib/errors.ts'
import {
  type Contents,
  type Counts,
  isBuiltIn,
  type Reader,
  type Writer,
} from '../../move/contents.ts'
import type { Versions } from '../../node/ports.ts'
import { openAccessFile } from '../access/file.ts'
import { createPlanStore } from '../access/plans.ts'
import { checkInWorker, checkRegistry } from '../check.ts'
import { writeCopyOf } from '../copy.ts'
import { ACCESS_FILE, FEEDS_FILE, PROXY_FILE } from '../data-directory.ts'
import { WAL_ENDS } from '../database-files.ts'
import { damagedBy, explain, isStoreFailure } from '../errors.ts'
import { openFeeds } from '../feeds.ts'
import { openListFile } from '../proxies/store.ts'
import { openList } from '../stores.ts'
import { createAccessReader, createAccessWriter } from './access.ts'
import { requireParts } from './backup.ts'
import { openAlone } from './exclusive.ts'
import { createListReader, createListWriter, pagesOf } from './list.ts'

const MUST_EXIST = { mustExist: true } as const

/** Both databases of a directory that nobody else has open, each in a transaction. */
type Alone = { access: Database; list: Database }

function openBoth(dir: string): Alone {
  const access = openAlone(join(dir, ACCESS_FILE))
  try {
    return { access, list: openAlone(join(dir, PROXY_FILE)) }
  } catch (error) {
    access.close(true)
    throw error
  }
}

/** The states of feeds; none where they cannot be read, because each feed is then fetched in full. */
function readFeeds(dir: string): Contents['feeds'][] {
  if (!existsSync(join(dir, FEEDS_FILE))) return []
  try {
    const { dump, close } = openFeeds(dir, MUST_EXIST)
    try {
      return dump()
    } finally {
      close()
    }
  } catch (error) {
    if (isStoreFailure(error)) return []
    throw error
  }
}

/** Brings both databases to the newest schema, and makes sure that they are intact. */
async function requireIntact(dir: string, signal: AbortSignal): Promise<void> {
  const [accessFile, listFile] = [join(dir, ACCESS_FILE), join(dir, PROXY_FILE)]
  const access = openAccessFile(accessFile, MUST_EXIST)
  try {
    if (checkRegistry(access).length > 0) throw new CommandError(`${accessFile} is damaged`)
  } finally {
    access.close(true)
  }
  openList(dir, MUST_EXIST).close()
  const problems = await checkInWorker(listFile, signal)
  if (problems.length > 0) throw damagedBy(listFile, problems)
}

function countRows({ access, list }: Alone, feeds: number): Counts {
  const count = (db: Database, rows: string): number =>
    db.query<{ n: number }, []>(`select count(*) as n from ${rows}`).get()?.n ?? 0
  return {
    plans: createPlanStore(access)
      .list()
      .filter(plan => !isBuiltIn(plan)).length,
    keys: count(access, 'keys'),
    seen: 0,
    usage: count(access, 'snapshot, json_each(usage)') + count(access, 'batches'),
    networks: count(access, "networks where subject_kind <> 'probe'"),
    days: count(access, 'days'),
    cities: count(list, 'cities'),
    proxies: count(list, 'proxies'),
    feeds,
  }
}

/** A data directory that is read while nobody else uses it. */
export type ReadDirectory = {
  reader: Reader
  /** Rows, for progress: about as many of usage, and of plans those that are not as at the start. */
  counts: Counts
  /**
   * Makes both databases copies of a database. Nobody sees it before the function that it returns is
   * called, which commits what has been written already.
   */
  prepareCopies: (versions: Versions) => () => void
}

function alone(dir: string, both: Alone): ReadDirectory {
  const { access, list } = both
  const feeds = readFeeds(dir)
  return {
    reader: {
      ...createAccessReader(access),
      ...createListReader(list),
      feeds: () => pagesOf(feeds),
    },
    counts: countRows(both, feeds.length),
    prepareCopies(versions) {
      writeCopyOf(access, versions.keys)
      writeCopyOf(list, versions.list)
      return () => {
        access.run('commit')
        list.run('commit')
      }
    },
  }
}

/** What is read, and the failure of a database as a sentence that names the file. */
async function explained<T>(file: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isStoreFailure(error) ? new CommandError(explain(file, error)) : error
  }
}

/**
 * Reads the databases of a directory that nobody else uses, and keeps others out meanwhile.
 * @throws CommandError when one is missing, damaged, in use or of a newer program.
 */
export async function readDirectory<T>(
  dir: string,
  { signal }: { signal: AbortSignal },
  work: (directory: ReadDirectory) => Promise<T>,
): Promise<T> {
  requireParts(dir, 'move')
  return explained(join(dir, ACCESS_FILE), async () => {
    openAlone(join(dir, ACCESS_FILE)).close() // a server is found before a list is checked
    await requireIntact(dir, signal)
    const both = openBoth(dir)
    try {
      return await work(alone(dir, both))
    } finally {
      both.access.close(true)
      both.list.close(true)
    }
  })
}

/** The states of feeds, written into a database that is made for the first of them. */
function createFeedWriter(dir: string): { write: Writer['feeds']; close: () => void } {
  let feeds: ReturnType<typeof openFeeds> | null = null
  return {
    write(page) {
      feeds ??= openFeeds(dir)
      for (const { id, ...state } of page) feeds.save(id, state)
    },
    close: () => feeds?.close(),
  }
}

/**
 * Makes the databases of a data directory in an empty folder; `fill` writes all that they hold.
 * Returns the names of the files, and what `fill` has returned.
 */
export async function makeDirectory<T>(
  dir: string,
  fill: (writer: Writer) => Promise<T>,
): Promise<{ files: string[]; result: T }> {
  const listFile = join(dir, PROXY_FILE)
  const access = openAccessFile(join(dir, ACCESS_FILE))
  const list = openListFile(listFile)
  const feeds = createFeedWriter(dir)
  let result: T
  try {
    for (const db of [access, list]) db.run('begin immediate')
    const { finish: finishAccess, ...accessParts } = createAccessWriter(access)
    const { finish: finishList, ...listParts } = createListWriter(list)
    result = await fill({ ...accessParts, ...listParts, feeds: feeds.write })
    finishAccess()
    finishList()
    for (const db of [access, list]) db.run('commit')
  } finally {
    feeds.close()
    access.close(true)
    list.close(true)
  }
  const files = readdirSync(dir).filter(name => !WAL_ENDS.some(end => name.endsWith(end)))
  return { files, result }
}
