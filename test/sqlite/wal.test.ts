/**
 * Holds that an import which does not commit leaves no long WAL beside a server or a reader that has
 * the list open: on a disk that it has filled, nobody could be admitted any more.
 */
import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openServerList } from '../../src/sqlite/server-list.ts'
import { type List, openList } from '../../src/sqlite/stores.ts'
import { missingBytes, walBytes } from '../../src/sqlite/wal.ts'
import { checkListFile } from '../support/damage.ts'
import { addList, dataDirectory, T0 } from '../support/fixtures.ts'
import { BARE } from '../support/incoming.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const LONG_BYTES = 1_000_000
const ROWS = 60_000
/** What the list of `ROWS` rows does not fit into. */
const PAGES_MAX = 500

/** With these pages in memory, a transaction writes into the WAL long before it commits. */
const SMALL_CACHE = 'pragma cache_size = 10'

function openServer(dir: string, said: string[]) {
  const say = (sentence: string) => void said.push(sentence)
  const server = openServerList(dir, 'the service', () => T0, say)
  onCleanUp(server.close)
  return server
}

/** A list that a server has open, and of which another process reads a snapshot, so that its WAL stays. */
function listInUse() {
  const dir = dataDirectory()
  const file = join(dir, PROXY_FILE)
  const said: string[] = []
  const server = openServer(dir, said)
  const reader = openList(dir)
  onCleanUp(reader.close)
  reader.db.run('begin')
  const seen = reader.proxies.tally(0, T0)
  addList(dir, [{ ip: '192.0.2.2:80', type: 'http' }])
  const committed = walBytes(file)
  expect(committed).toBeGreaterThan(0)
  expect(committed).toBeLessThan(LONG_BYTES)
  /** Nothing was lost, and nobody was disturbed. */
  const expectIntact = (): void => {
    expect(reader.proxies.tally(0, T0)).toEqual(seen)
    reader.db.run('commit')
    expect(reader.proxies.tally(0, T0).rows).toBe(2)
    expect(checkListFile(file)).toEqual([])
    expect([server.isEmpty(), said]).toEqual([false, []])
  }
  return { dir, file, server, committed, expectIntact }
}

/** Imports more rows than fit. */
function importTooMuch(list: List): ReturnType<List['begin']> {
  list.db.run(SMALL_CACHE)
  list.db.run(`pragma max_page_count = ${PAGES_MAX}`) // the same error as that of a full disk
  const importTx = list.begin('merge')
  const importAll = (): void => {
    for (let port = 1; port <= ROWS; port += 1) importTx.add({ ...BARE, port })
    void importTx.commit()
  }
  expect(importAll).toThrow(/full/)
  return importTx
}

/** Writes much into the WAL in a transaction that is left open. */
function beginLongTransaction(file: string): Database {
  const db = new Database(file, { create: false, readwrite: true })
  db.run(SMALL_CACHE)
  db.run('begin immediate')
  db.run('create table junk (content)')
  db.run('insert into junk values (zeroblob(?))', [2 * LONG_BYTES])
  expect(walBytes(file)).toBeGreaterThan(LONG_BYTES)
  return db
}

test('what a transaction without a commit has taken in the WAL is given back by an import that fails at its end, while others have the list open', () => {
  const { dir, file, committed, expectIntact } = listInUse()
  const list = openList(dir)
  const importTx = importTooMuch(list)
  expect(walBytes(file)).toBeGreaterThan(LONG_BYTES)
  void importTx.rollback()
  expect(walBytes(file)).toBe(committed)
  list.close()
  expectIntact()
})

test.each<[who: string, work: (scene: ReturnType<typeof listInUse>) => void]>([
  [
    'the next import',
    ({ dir }) => {
      const list = openList(dir)
      list.begin('merge')
      list.close()
    },
  ],
  ['a server within a tick', ({ server }) => server.tick()],
])('what a killed import has taken in the WAL is given back by %s', (_, work) => {
  const scene = listInUse()
  const killed = beginLongTransaction(scene.file)
  killed.run('rollback')
  expect(walBytes(scene.file)).toBeGreaterThan(LONG_BYTES)
  work(scene)
  expect(walBytes(scene.file)).toBe(scene.committed)
  killed.close()
  scene.expectIntact()
})

test('what a transaction without a commit has taken in the WAL is given back by a server that starts after both were killed', () => {
  const { file, expectIntact, committed } = listInUse()
  const killed = beginLongTransaction(file)
  const dir = temporaryDirectory()
  const copy = join(dir, PROXY_FILE)
  for (const end of ['', '-wal']) cpSync(file + end, copy + end, { preserveTimestamps: true })
  killed.run('rollback')
  killed.close()
  const said: string[] = []
  const server = openServer(dir, said)
  expect(walBytes(copy)).toBeGreaterThan(LONG_BYTES)
  server.tick()
  expect(walBytes(copy)).toBe(committed)
  const list = openList(dir)
  expect(list.proxies.tally(0, T0).rows).toBe(2)
  list.close()
  expect(said).toEqual([])
  expect(checkListFile(copy)).toEqual([])
  expectIntact()
})

test('no header is left in a WAL without a commit: on a read-only disk SQLite could not read the list beside it', () => {
  const dir = dataDirectory()
  const file = join(dir, PROXY_FILE)
  const said: string[] = []
  const server = openServer(dir, said)
  const killed = beginLongTransaction(file)
  killed.run('rollback')
  server.tick()
  expect(walBytes(file)).toBe(0)
  killed.close()
  addList(dir, [{ ip: '192.0.2.2:80', type: 'http' }])
  expect(checkListFile(file)).toEqual([])
  expect(said).toEqual([])
})

test('nothing is taken from a transaction under way, which then commits all of it', () => {
  const { file, server, expectIntact } = listInUse()
  const writer = beginLongTransaction(file)
  const before = walBytes(file)
  server.tick()
  expect(walBytes(file)).toBe(before)
  writer.run('insert into junk values (zeroblob(?))', [LONG_BYTES])
  writer.run('commit')
  server.tick()
  const sum = 'select sum(length(content)) from junk'
  expect(writer.query(sum).values()).toEqual([[3 * LONG_BYTES]])
  expect(writer.query('pragma integrity_check').values()).toEqual([['ok']])
  writer.run('drop table junk') // the check of the list does not know it
  writer.close()
  expectIntact()
})

test.each([
  ['nothing is missing where the list does not grow', [0, 0, 0], 0],
  ['nor where it becomes smaller', [-1600, 0, 0], 0],
  ['new pages are written twice, with a margin', [1600, 0, 0], 3400],
  ['once, where they are in the WAL already', [1600, 1600, 0], 1700],
  ['pages that were written to the WAL twice need no less', [1600, 9999, 0], 1700],
  ['what is free is enough', [1600, 0, 3400], 0],
  ['or not, by one byte', [1600, 0, 3399], 1],
  ['some file systems do not count', [1600, 0, Number.POSITIVE_INFINITY], -Infinity],
] as const)('%s', (_, [growth, written, free], missing) => {
  expect(missingBytes({ growth, written, free })).toBe(missing)
})
