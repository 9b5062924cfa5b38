/** The databases of a server: the list's version, which changes with the list, and damaged or replaced files. */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { copyFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { StoreError } from '../../src/lib/errors.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { countRows, openListFile } from '../../src/sqlite/proxies/store.ts'
import { openServerList } from '../../src/sqlite/server-list.ts'
import { openServerRegistry } from '../../src/sqlite/server-registry.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { overwriteRoots } from '../support/damage.ts'
import { addList, dataDirectory, NO_FILTER, T0 } from '../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const OPENINGS = 50

const openAt = (dir: string, clock: () => number) =>
  openServerList(dir, 'the service', clock, () => {})

test('the version changes with every change and every opening of the list', async () => {
  const dir = temporaryDirectory()
  const add = (host: number): void => addList(dir, [{ ip: `192.0.2.${host}:80`, type: 'http' }])
  add(1)
  const file = join(dir, PROXY_FILE)
  const list = openAt(dir, () => T0)
  try {
    const seen = new Set<string>()
    const nextTurn = () => new Promise(resolve => setImmediate(resolve)) // the version is read once in each
    for (let opening = 0; opening < OPENINGS; opening += 1) {
      seen.add(list.version())
      renameSync(file, `${file}.away`)
      list.tick() // closes it: the file is missing
      renameSync(`${file}.away`, file)
      list.tick() // opens it again
      await nextTurn()
    }
    expect(seen.size).toBe(OPENINGS)
    const before = list.version()
    expect(list.version()).toBe(before)
    for (const host of [2, 3, 4]) {
      add(host)
      await nextTurn()
      seen.add(list.version())
    }
    expect(seen.size).toBe(OPENINGS + 3)
    expect(seen).not.toContain(before)
  } finally {
    list.close()
  }
})

/** Rows that are removed in one transaction, and a few more. */
const SLICE = 5_000
const STALE = SLICE + 10
const RETAIN_MS = 3_600_000

function addStale(dir: string): void {
  const stale = Array.from({ length: STALE }, (_, i) => ({
    ip: `10.0.${i >> 8}.${i & 255}:80`,
    type: 'http' as const,
    checked_at: T0 / 1000 - (2 * RETAIN_MS) / 1000,
  }))
  addList(dir, [{ ip: '192.0.2.1:80', type: 'http' }, ...stale])
}

test('stale rows are removed in another thread than requests', async () => {
  const dir = temporaryDirectory()
  addStale(dir)
  const list = openAt(dir, () => T0)
  try {
    const before = list.version()
    const removal = list.removeStale(RETAIN_MS, T0)
    expect(list.count()).toBe(1 + STALE) // requests of this turn wait for nothing
    expect(await removal).toEqual({ removed: SLICE, mayRemain: true })
    await new Promise(resolve => setImmediate(resolve)) // the version is read once in each turn
    expect(list.count()).toBe(1 + STALE - SLICE)
    expect(list.version()).not.toBe(before)
    expect(await list.removeStale(RETAIN_MS, T0)).toEqual({ removed: 10, mayRemain: false })
  } finally {
    list.close()
  }
})

test('stale rows stay while a reader keeps writes in the WAL', () => {
  const dir = temporaryDirectory()
  addStale(dir)
  const file = join(dir, PROXY_FILE)
  const list = openList(dir)
  {
    using reader = openListFile(file)
    reader.run('begin')
    expect(countRows(reader)).toBe(1 + STALE)
    expect(list.proxies.removeStale(RETAIN_MS, T0, 1)).toMatchObject({ mayRemain: true })
    expect(list.proxies.removeStale(RETAIN_MS, T0, 1)).toEqual({ removed: 0, mayRemain: false })
    reader.run('commit')
  }
  list.db.run('pragma wal_checkpoint(passive)')
  expect(list.proxies.removeStale(RETAIN_MS, T0, 1)).toMatchObject({ removed: STALE - SLICE })
  list.close()
})

/** Ticks for which damage stays refused. */
const REFUSED_TICKS = 30
const ROWS = 600

/** Stores as the server holds them, each with a file, and what a request reads of it. */
const STORES = [
  {
    what: 'the list',
    name: PROXY_FILE,
    table: 'proxies',
    rows: ROWS,
    origin: 'import',
    open(dir: string, say: (sentence: string) => void) {
      const list = openServerList(dir, 'the service', () => T0, say)
      const find = () => {
        const found = list.find(NO_FILTER, { nowMs: T0, addressBits: 32 })
        return found === 'must-stream' ? found : found.rows
      }
      return { store: list, read: find, alsoRead: find }
    },
  },
  {
    what: 'keys, plans and usage',
    name: ACCESS_FILE,
    table: 'keys',
    rows: 1,
    origin: 'restore',
    open(dir: string, say: (sentence: string) => void) {
      const registry = openServerRegistry(dir, say)
      const { keys, usage } = registry
      return { store: registry, read: () => keys.list(T0), alsoRead: () => usage.probe() }
    },
  },
] as const

/** A server's store, and what it said. */
function serving({ name, open }: (typeof STORES)[number]) {
  const rows = Array.from({ length: ROWS }, (_, i) => ({
    ...{ ip: `10.0.${i >> 8}.${i & 255}:80`, type: 'http', age: i },
  }))
  const dir = dataDirectory(rows)
  const said: string[] = []
  const opened = open(dir, sentence => void said.push(sentence))
  const { tick, health, close } = opened.store
  onCleanUp(close)
  /** Ticks, more often than every second, until `isOver`; returns whether it was ever found to work. */
  async function tickUntil(isOver: () => boolean): Promise<boolean> {
    let hasWorked = false
    while (!isOver()) {
      tick()
      hasWorked ||= health().works
      await Bun.sleep(5)
    }
    return hasWorked
  }
  return { ...opened, rows, file: join(dir, name), said, tick, health, tickUntil }
}

const damagedUntil = (origin: string) =>
  expect.stringMatching(new RegExp(`is damaged.*; ${origin} .*; answering 503 until that is over$`))

describe.each(STORES)('damage of $what', kind => {
  test('that a request meets is reported once, and fails requests until another file replaces it', async () => {
    const { file, read, alsoRead, said, health, tickUntil } = serving(kind)
    const intact = `${file}.intact`
    copyFileSync(file, intact)
    overwriteRoots(file, kind.table) // it can still be opened, and written elsewhere
    expect(read).toThrow(expect.objectContaining({ isDamage: true }))
    let ticks = 0
    expect(await tickUntil(() => ticks++ === REFUSED_TICKS)).toBeFalse()
    for (const each of [read, alsoRead]) expect(each).toThrow(StoreError)
    expect(said).toEqual([damagedUntil(kind.origin)])
    rmSync(file)
    copyFileSync(intact, file) // the file system may give it the inode of the removed one
    await tickUntil(() => health().works)
    expect(read()).toHaveLength(kind.rows)
    expect(said).toEqual([damagedUntil(kind.origin), `${file} works again`])
  })
})

test.each(STORES)(
  'a newer schema of $what that breaks a statement fails requests with the reason until it is removed',
  kind => {
    const { file, read, said, tick, health } = serving(kind)
    const migrate = (version: number, from: string, to: string): void => {
      using db = new Database(file)
      db.run(`alter table ${from} rename to ${to}`)
      db.run(`pragma user_version = ${version}`)
    }
    migrate(5, kind.table, 'later')
    expect(read).toThrow(StoreError)
    tick()
    expect(read).toThrow(StoreError)
    expect(health().works).toBeFalse()
    const why = `${file} was written by a newer proxylist (schema 5, this one knows 4); use that version`
    expect(said.at(-1)).toBe(`${why}; answering 503 until that is over`)
    migrate(4, 'later', kind.table)
    tick()
    expect(read()).toHaveLength(kind.rows)
  },
)
