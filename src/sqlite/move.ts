/**
 * Reading and writing a data directory as a whole, as the values that are moved to another store
 * (`move/contents.ts`): one that nobody else uses meanwhile, and one that is made. Both files are locked
 * exclusively while they are read, which SQLite grants only where nobody has them open.
 */
import { Database } from 'bun:sqlite'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { addDays, type DayUse } from '../access/history.ts'
import { DEMO_KEY } from '../access/key.ts'
import type { NetworkSet } from '../access/network-quota.ts'
import type { Subject, Usage } from '../access/rate-limit.ts'
import { CommandError } from '../lib/errors.ts'
import {
  type Contents,
  type Counts,
  isBuiltIn,
  type Reader,
  type Writer,
} from '../move/contents.ts'
import type { Versions } from '../node/ports.ts'
import { ROW_COLUMNS, type Row } from '../proxies/row.ts'
import { createAdmissionLog, writeSnapshot } from './access/admission-log.ts'
import { openAccessFile } from './access/file.ts'
import { createKeyWriter, readStoredKeys } from './access/keys.ts'
import { createPlanStore } from './access/plans.ts'
import { checkInWorker, checkRegistry } from './check.ts'
import { writeCopyOf } from './copy.ts'
import { ACCESS_FILE, FEEDS_FILE, PROXY_FILE, requireParts, WAL_ENDS } from './data-directory.ts'
import { damagedBy, explain, isBusy, isStoreFailure } from './errors.ts'
import { openFeeds } from './feeds.ts'
import { createIndexUpkeep, openListFile } from './proxies/store.ts'
import { openList } from './stores.ts'

const MUST_EXIST = { mustExist: true } as const

/** How long to wait for a command that has the data open, in milliseconds. */
const BUSY_MS = 1_000

/**
 * Opens a database that nobody else has open, with a transaction, and keeps others out until it is
 * closed. SQLite holds a shared lock on a database in WAL mode for as long as it is open: an exclusive
 * one can only be had when nobody else has it open. Closing it also empties its WAL into it.
 * @throws CommandError when a server or command has it open, and what SQLite throws.
 */
export function openAlone(file: string): Database {
  const db = new Database(file, { create: false, readwrite: true, strict: true })
  try {
    db.run(`pragma busy_timeout = ${BUSY_MS}`)
    db.run('pragma locking_mode = exclusive')
    db.run('pragma foreign_keys = on')
    db.run('begin exclusive')
    return db
  } catch (error) {
    db.close()
    if (!isBusy(error)) throw error
    throw new CommandError(
      `${file} is in use; stop the server, or wait for the command that uses it`,
    )
  }
}

/** @throws CommandError when a server or command has a database in `dir` open. */
export function requireUnused(dir: string): void {
  for (const file of [ACCESS_FILE, PROXY_FILE].map(name => join(dir, name)).filter(existsSync)) {
    try {
      openAlone(file).close()
    } catch (error) {
      if (error instanceof CommandError) throw error
      // It is damaged: then nobody uses it either.
    }
  }
}

// -----------------------------------------------------------------------------------------------
// Keys, plans and usage

/** Rows of a page. */
const PAGE_ROWS = 2_000

/** Rows in pages; none is empty. */
function* pagesOf<R>(rows: Iterable<R>): Generator<R[]> {
  let page: R[] = []
  for (const row of rows) {
    if (page.push(row) < PAGE_ROWS) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}

type AccessPart = 'plans' | 'keys' | 'seen' | 'usage' | 'networks' | 'days'
type NetworkRow = { kind: Subject['kind']; id: string; set: NetworkSet; day: number; all: string }
type Day = Contents['days']

const placeOf = ({ keyId, day }: Pick<Day, 'keyId' | 'day'>): string => `${day} ${keyId}`

/** The days of table `days`, each with what is not there yet, then those that are not there at all. */
function* mergedDays(
  rows: Iterable<Omit<DayUse, 'hours'> & { keyId: string; hours: string }>,
  unmoved: readonly Day[],
): Generator<Day> {
  const rest = new Map(unmoved.map(day => [placeOf(day), day]))
  for (const { hours, ...row } of rows) {
    const moved = { ...row, hours: JSON.parse(hours) as number[] } // as `key-use.ts` writes them
    const more = rest.get(placeOf(row))
    rest.delete(placeOf(row))
    yield more === undefined ? moved : { keyId: row.keyId, ...addDays(moved, more) }
  }
  yield* rest.values()
}

/** Reads open keys, plans and usage; everything within one transaction of the caller. */
function createAccessReader(db: Database): Pick<Reader, AccessPart> {
  const admissions = createAdmissionLog(db)
  const selectIds = db.prepare<{ id: string }, []>('select id from keys')
  const idsOfKeys = () => new Set(selectIds.all().map(({ id }) => id))
  const selectSeen = db.prepare<{ id: string; ms: number }, []>(
    'select id, last_seen as ms from keys where last_seen is not null',
  )
  const selectNetworks = db.prepare<NetworkRow, []>(
    `select subject_kind as kind, subject_id as id, network_set as "set", day,
       json_group_array(network) as "all"
     from networks where subject_kind <> 'probe'
     group by subject_kind, subject_id, network_set, day`,
  )
  const selectDays = db.prepare<Omit<DayUse, 'hours'> & { keyId: string; hours: string }, []>(
    'select key_id as keyId, day, requests, records, refused, hours from days',
  )

  /** When keys were last seen, as the latest that table, log and subjects know. */
  function seen(): Contents['seen'][] {
    const latest = new Map([...idsOfKeys()].map(id => [id, 0]))
    const see = (id: string, ms: number): void => {
      const known = latest.get(id)
      if (known !== undefined) latest.set(id, Math.max(known, ms))
    }
    for (const { id, ms } of selectSeen.all()) see(id, ms)
    for (const { id, lastMs } of admissions.readHistory()) see(id, lastMs)
    for (const { kind, id, latestMs } of admissions.subjects().flat()) {
      if (kind === 'key') see(id, latestMs)
    }
    return [...latest].flatMap(([keyId, lastSeenMs]) =>
      lastSeenMs === 0 ? [] : [{ keyId, lastSeenMs }],
    )
  }

  /** Days that are not in table `days`; those of keys that were removed are left out. */
  function unmovedDays(): Day[] {
    const keyIds = idsOfKeys().add(DEMO_KEY)
    return admissions
      .readHistory()
      .filter(({ id }) => keyIds.has(id))
      .flatMap(({ id, days }) => days.map(day => ({ keyId: id, ...day })))
  }

  return {
    plans: () => pagesOf(createPlanStore(db).list()),
    keys: () => pagesOf(readStoredKeys(db)),
    *seen() {
      admissions.catchUp()
      yield* pagesOf(seen())
    },
    *usage() {
      admissions.catchUp()
      for (const some of admissions.subjects()) {
        yield some.map(({ kind, id, admissions: at, day, requests, latestMs }) => ({
          ...{ kind, id, admissions: [...at], day, requests, latestMs },
        }))
      }
    },
    *networks() {
      for (const page of pagesOf(selectNetworks.iterate())) {
        yield page.map(({ kind, id, set, day, all }) => ({
          ...{ subject: { kind, id }, set, day },
          networks: JSON.parse(all) as string[], // as the select makes it
        }))
      }
    },
    *days() {
      admissions.catchUp()
      yield* pagesOf(mergedDays(selectDays.iterate(), unmovedDays()))
    },
  }
}

/** Writes keys, plans and usage into an open database without any rows; `finish` writes what was collected. */
function createAccessWriter(db: Database): Pick<Writer, AccessPart> & { finish(): void } {
  const plans = createPlanStore(db)
  const write = createKeyWriter(db)
  const used: (Subject & Usage)[] = []
  let demoMs = 0
  const see = db.prepare<never, [number, string]>('update keys set last_seen = ? where id = ?')
  const network = db.prepare(
    `insert into networks (subject_kind, subject_id, network_set, day, network)
     values (?, ?, ?, ?, ?)`,
  )
  const day = db.prepare(
    `insert into days (day, key_id, requests, records, refused, hours) values (?, ?, ?, ?, ?, ?)`,
  )
  return {
    plans: page => page.forEach(plans.set),
    keys: page => page.forEach(write),
    seen(page) {
      for (const { keyId, lastSeenMs } of page) see.run(lastSeenMs, keyId)
    },
    usage(page) {
      for (const usage of page) {
        used.push(usage)
        if (usage.kind === 'demo') demoMs = Math.max(demoMs, usage.latestMs)
      }
    },
    networks(page) {
      for (const { subject, set, day: of, networks } of page) {
        for (const name of networks) network.run(subject.kind, subject.id, set, of, name)
      }
    },
    days(page) {
      for (const { keyId, day: of, requests, records, refused, hours } of page) {
        day.run(of, keyId, requests, records, refused, JSON.stringify(hours))
      }
    },
    finish: () => writeSnapshot(db, used, demoMs),
  }
}

// -----------------------------------------------------------------------------------------------
// The list

const COLUMNS = ROW_COLUMNS.join(', ')

/** Reads an open list; everything within one transaction of the caller. */
function createListReader(db: Database): Pick<Reader, 'cities' | 'proxies'> {
  const cities = db.prepare<Contents['cities'], []>(
    'select id, name, name_en as nameEn from cities order by id',
  )
  const page = db.prepare(`select ${COLUMNS} from proxies where id > ? order by id limit ?`)
  return {
    cities: () => pagesOf(cities.iterate()),
    *proxies() {
      for (let lastId = -1; ; ) {
        const rows = page.values(lastId, PAGE_ROWS) as unknown as Row[] // values() is untyped
        if (rows.length > 0) yield rows
        if (rows.length < PAGE_ROWS) return
        lastId = rows.at(-1)?.[0] ?? Number.MAX_SAFE_INTEGER
      }
    },
  }
}

/** Writes into an open list without any rows; `finish` makes its indexes. */
function createListWriter(db: Database): Pick<Writer, 'cities' | 'proxies'> & { finish(): void } {
  const indexes = createIndexUpkeep(db)
  indexes.prepareFor(Number.POSITIVE_INFINITY)
  const city = db.prepare<never, [number, string, string]>('insert into cities values (?, ?, ?)')
  const proxy = db.prepare<never, Row>(
    `insert into proxies (${COLUMNS}) values (${ROW_COLUMNS.map(() => '?').join(', ')})`,
  )
  return {
    cities(page) {
      for (const { id, name, nameEn } of page) city.run(id, name, nameEn)
    },
    proxies(page) {
      for (const row of page) proxy.run(...row)
    },
    finish: indexes.restore,
  }
}

// -----------------------------------------------------------------------------------------------
// The directory

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
