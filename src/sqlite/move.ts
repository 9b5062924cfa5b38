/**
 * Reading and writing a data directory as a whole, as the values that are moved to another store
 * (`move/contents.ts`): one that nobody else uses meanwhile, and one that is made. Both files are locked
 * exclusively while they are read, which SQLite grants only where nobody has them open.
 */
import { Database } from 'bun:sqlite'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { NetworkSet } from '../access/network-quota.ts'
import type { Subject, Usage } from '../access/rate-limit.ts'
import { CommandError } from '../lib/errors.ts'
import { type Contents, linesOf, type Reader, textOf, type Writer } from '../move/contents.ts'
import type { Versions } from '../node/ports.ts'
import { AT, ROW_COLUMNS, type Row } from '../proxies/row.ts'
import { createAdmissionLog, writeSnapshot } from './access/admission-log.ts'
import { openAccessFile } from './access/file.ts'
import { type DayRow, toDayUse } from './access/key-use.ts'
import { createKeyWriter, readStoredKeys } from './access/keys.ts'
import { createPlanStore } from './access/plans.ts'
import { writeCopyOf } from './copy.ts'
import {
  ACCESS_FILE,
  DATA_FILES,
  FEEDS_FILE,
  PROXY_FILE,
  requireParts,
  WAL_ENDS,
} from './data-directory.ts'
import { explain, isBusy, isStoreFailure } from './errors.ts'
import { feedLinesIn, openFeeds } from './feeds.ts'
import { createCityWriter } from './proxies/cities.ts'
import { countRows, createIndexUpkeep, openListFile, UPSERT } from './proxies/store.ts'
import { verify } from './verify.ts'

/** How long to wait for a command that has the data open, in milliseconds. */
const BUSY_MS = 1_000

/**
 * Opens a database that nobody else has open, with a transaction, and keeps others out until it is
 * closed. SQLite holds a shared lock on a database in WAL mode for as long as it is open: an exclusive
 * one can only be had when nobody else has it open. Closing it also empties its WAL into it.
 * @throws CommandError when a server or command has it open, and what SQLite throws.
 */
function openAlone(file: string): Database {
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
      `${file} is in use; stop server and checker, or wait for the command that uses it`,
    )
  }
}

/** @throws CommandError when a server or command has a database in `dir` open. */
export function requireUnused(dir: string): void {
  for (const file of DATA_FILES.map(({ name }) => join(dir, name)).filter(existsSync)) {
    try {
      openAlone(file).close()
    } catch (error) {
      if (error instanceof CommandError) throw error
      // It is damaged: then nobody uses it either.
    }
  }
}

// -----------------------------------------------------------------------------------------------
// Reading

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

type NetworkRow = { kind: Subject['kind']; id: string; set: NetworkSet; day: number; all: string }
/** Reads both databases; everything within one transaction of the caller on each. */
function createReader(access: Database, list: Database): Omit<Reader, 'feeds' | 'feedLines'> {
  const admissions = createAdmissionLog(access)
  const keyIds = () =>
    new Set(
      access
        .query<{ id: string }, []>('select id from keys')
        .all()
        .map(({ id }) => id),
    )

  /** When keys were last seen, the later of table and log. */
  function seen(): Contents['seen'][] {
    const ids = keyIds()
    const latest = new Map<string, number>()
    const see = (id: string, ms: number): void => {
      if (ids.has(id) && ms > 0) latest.set(id, Math.max(latest.get(id) ?? 0, ms))
    }
    const stored = access.query<{ id: string; ms: number | null }, []>(
      'select id, last_seen as ms from keys',
    )
    for (const { id, ms } of stored.all()) see(id, ms ?? 0)
    for (const { kind, id, latestMs } of admissions.subjects().flat()) {
      if (kind === 'key') see(id, latestMs)
    }
    return Array.from(latest, ([keyId, lastSeenMs]) => ({ keyId, lastSeenMs }))
  }

  return {
    plans: () => pagesOf(createPlanStore(access).list()),
    keys: () => pagesOf(readStoredKeys(access)),
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
      const rows = access.query<NetworkRow, []>(
        `select subject_kind as kind, subject_id as id, network_set as "set", day,
           json_group_array(network) as "all"
         from networks where subject_kind <> 'probe'
         group by subject_kind, subject_id, network_set, day`,
      )
      for (const page of pagesOf(rows.iterate())) {
        yield page.map(({ kind, id, set, day, all }) => ({
          ...{ subject: { kind, id }, set, day },
          networks: JSON.parse(all) as string[], // as the select makes it
        }))
      }
    },
    *days() {
      const rows = access
        .query<DayRow, []>('select key_id as id, day, requests, records, refused, hours from days')
        .iterate()
      for (const page of pagesOf(rows)) {
        yield page.map(row => ({ keyId: row.id, ...toDayUse(row) }))
      }
    },
    cities: () =>
      pagesOf(
        list
          .query<Contents['cities'], []>('select id, name, name_en as nameEn from cities')
          .iterate(),
      ),
    *proxies() {
      const columns = ROW_COLUMNS.join(', ')
      const page = list.prepare(`select ${columns} from proxies where id > ? order by id limit ?`)
      let rows: Row[] = []
      do {
        rows = page.values(rows.at(-1)?.[AT.id] ?? -1, PAGE_ROWS) as unknown as Row[] // values() is untyped
        if (rows.length > 0) yield rows
      } while (rows.length === PAGE_ROWS)
    },
  }
}

/** The states of feeds; none where they cannot be read, because each feed is then fetched in full. */
function readFeeds(dir: string): Contents['feeds'][] {
  if (!existsSync(join(dir, FEEDS_FILE))) return []
  try {
    using feeds = openFeeds(dir, { mustExist: true })
    return feeds.list()
  } catch (error) {
    if (isStoreFailure(error)) return []
    throw error
  }
}

/** A data directory that is read while nobody else uses it. */
export type ReadDirectory = ReturnType<typeof alone>

/** A directory whose databases nobody else has open, each in a transaction. */
function alone(dir: string, access: Database, list: Database) {
  const proxies = countRows(list)
  const others = ['keys', 'snapshot, json_each(usage)', 'batches', 'networks', 'days']
  const reader: Reader = {
    ...createReader(access, list),
    feeds: () => pagesOf(readFeeds(dir)),
    feedLines: () => [linesOf(feedLinesIn(dir).readLines())],
  }
  return {
    reader,
    proxies,
    /** About how many rows there are, for progress. */
    rows: others.reduce((sum, rows) => sum + countRows(access, rows), proxies),
    /**
     * Makes both databases copies of a database. Nobody sees it before the function that it returns is
     * called, which commits what has been written already.
     */
    prepareCopies(versions: Versions): () => void {
      writeCopyOf(access, versions.keys)
      writeCopyOf(list, versions.list)
      return () => {
        for (const db of [access, list]) db.run('commit')
      }
    },
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
  const accessFile = join(dir, ACCESS_FILE)
  try {
    openAlone(accessFile).close() // a server is found before a list is checked
    for (const { name, holds } of DATA_FILES)
      await verify({ file: join(dir, name), holds, isTemporary: false }, signal)
    using access = openAlone(accessFile)
    using list = openAlone(join(dir, PROXY_FILE))
    return await work(alone(dir, access, list))
  } catch (error) {
    throw isStoreFailure(error) ? new CommandError(explain(accessFile, error)) : error
  }
}

// -----------------------------------------------------------------------------------------------
// Writing

/**
 * Makes the databases of a data directory in an empty folder; `fill` writes all that they hold.
 * Returns the names of the files, and what `fill` has returned.
 */
export async function makeDirectory<T>(
  dir: string,
  fill: (writer: Writer) => Promise<T>,
): Promise<{ files: string[]; result: T }> {
  using opened = new DisposableStack()
  const access = opened.use(openAccessFile(join(dir, ACCESS_FILE)))
  const list = opened.use(openListFile(join(dir, PROXY_FILE)))
  let feeds: ReturnType<typeof openFeeds> | null = null // made for the first of them
  const lines = feedLinesIn(dir)
  lines.replaceLines('', '') // in the place of those that a directory has
  for (const db of [access, list]) db.run('begin immediate')

  const plans = createPlanStore(access)
  const writeKey = createKeyWriter(access)
  const used: (Subject & Usage)[] = []
  const see = access.prepare('update keys set last_seen = ? where id = ?')
  const network = access.prepare('insert into networks values (?, ?, ?, ?, ?)')
  const day = access.prepare('insert into days values (?, ?, ?, ?, ?, ?)')
  const indexes = createIndexUpkeep(list)
  indexes.prepareFor(Number.POSITIVE_INFINITY)
  const city = createCityWriter(list)
  const proxy = list.prepare<never, Row>(UPSERT)

  const result = await fill({
    plans: page => page.forEach(plans.set),
    keys: page => page.forEach(writeKey),
    seen(page) {
      for (const { keyId, lastSeenMs } of page) see.run(lastSeenMs, keyId)
    },
    usage: page => void used.push(...page),
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
    cities(page) {
      for (const named of page) city(named.id, named)
    },
    proxies(page) {
      for (const row of page) proxy.run(...row)
    },
    feeds(page) {
      feeds ??= opened.use(openFeeds(dir))
      for (const { id, ...state } of page) feeds.save(id, state)
    },
    feedLines(page) {
      const before = lines.readLines()
      lines.replaceLines(before, before + textOf(page))
    },
  })
  writeSnapshot(access, used)
  indexes.restore()
  for (const db of [access, list]) db.run('commit')
  return {
    files: readdirSync(dir).filter(name => !WAL_ENDS.some(end => name.endsWith(end))),
    result,
  }
}
