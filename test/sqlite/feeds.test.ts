/** The states of feeds in SQLite: whose lease is valid, and what becomes of a file that is damaged. */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, spyOn, test } from 'bun:test'
import * as fs from 'node:fs'
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HOUR_MS } from '../../src/lib/time.ts'
import { FEED_LINES_FILE, FEEDS_FILE } from '../../src/sqlite/data-directory.ts'
import { lockPath } from '../../src/sqlite/database-files.ts'
import { feedLinesIn, openFeeds } from '../../src/sqlite/feeds.ts'
import { FEED as A, FEED_STATE } from '../support/feeds.ts'
import { T0 } from '../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const B = { id: 'b', shown: '/b' }

function open(dir = temporaryDirectory()) {
  const store = openFeeds(dir)
  onCleanUp(store.close)
  return { ...store, dir }
}

describe('a lease', () => {
  /** A store in which a process leased A. */
  function leasedBy(pid: number, until = T0 + HOUR_MS) {
    const store = open()
    store.lease(A, T0)
    const db = new Database(join(store.dir, FEEDS_FILE))
    db.run('update feeds set leased_by = ?, leased_until = ?', [pid, until])
    db.close()
    return store
  }
  /** A process that is alive as long as the test. */
  const ALIVE = process.ppid

  test('of a process that is alive is respected until it is too old: others cannot release it', () => {
    const store = leasedBy(ALIVE)
    expect(store.lease(A, T0)).toBeFalse()
    expect(store.lease(A, T0 + HOUR_MS - 1)).toBeFalse()
    expect(store.lease(B, T0)).toBeTrue()
    expect(store.lease(A, T0 + HOUR_MS)).toBeTrue()
    const other = leasedBy(ALIVE)
    other.release(A.id)
    expect(other.lease(A, T0)).toBeFalse()
  })
  test('of a process that was killed is not', async () => {
    const child = Bun.spawn(['true'])
    await child.exited
    expect(leasedBy(child.pid).lease(A, T0)).toBeTrue()
  })
  test('from a clock that was ahead is not', () => {
    expect(leasedBy(ALIVE, T0 + 30 * 24 * HOUR_MS).lease(A, T0)).toBeTrue()
  })
})

test('a file that is damaged is named where it is only read, and else made again', () => {
  const dir = temporaryDirectory()
  const file = join(dir, FEEDS_FILE)
  writeFileSync(file, 'not a database at all, not a database at all')
  expect(() => openFeeds(dir, { mustExist: true })).toThrow(
    `${file} is not a database; remove it: each feed is then fetched in full once`,
  )
  const store = open(dir)
  expect(store.list()).toEqual([])
  store.save(A.id, FEED_STATE)
  expect(openFeeds(dir, { mustExist: true }).list()).toEqual([{ id: A.id, ...FEED_STATE }])
})

describe('the feeds of the console', () => {
  test('are in a file for its owner alone, which is replaced as a whole', () => {
    const dir = temporaryDirectory()
    const lines = feedLinesIn(dir)
    expect(lines.replaceLines('', '/a\n')).toBeTrue()
    expect(lines.replaceLines('/a\n', '/b\n')).toBeTrue()
    expect(readdirSync(dir).sort()).toEqual([FEED_LINES_FILE, `${FEED_LINES_FILE}.lock`])
    expect(statSync(join(dir, FEED_LINES_FILE)).mode & 0o777).toBe(0o600)
  })

  test('are on the disk before they are in place, and then their name is', () => {
    const [write, move, sync] = [
      spyOn(fs, 'writeFileSync'),
      spyOn(fs, 'renameSync'),
      spyOn(fs, 'fsyncSync'),
    ]
    feedLinesIn(temporaryDirectory()).replaceLines('', '/a\n')
    expect(write.mock.lastCall?.at(-1)).toEqual({ mode: 0o600, flush: true })
    const orders = [write, move, sync].map(({ mock }) => mock.invocationCallOrder.at(-1) ?? 0)
    expect(orders).toEqual(orders.toSorted((a, b) => a - b))
    for (const { mock } of [move, sync]) expect(mock.calls).toHaveLength(1)
    for (const spy of [write, move, sync]) spy.mockRestore()
  })

  test('are not replaced while another process does that', () => {
    const dir = temporaryDirectory()
    const release = lockPath(join(dir, FEED_LINES_FILE), 0)
    expect(feedLinesIn(dir).replaceLines('', '/a\n')).toBeFalse()
    release?.()
    expect(feedLinesIn(dir).replaceLines('', '/a\n')).toBeTrue()
  })

  test('that cannot be read are named', () => {
    const dir = temporaryDirectory()
    mkdirSync(join(dir, FEED_LINES_FILE))
    expect(() => feedLinesIn(dir).readLines()).toThrow(
      `${join(dir, FEED_LINES_FILE)} cannot be read: it is a directory, not a file`,
    )
  })
})

test('the feeds of the console are not read from a named pipe, which would wait for somebody who writes', () => {
  const dir = temporaryDirectory()
  Bun.spawnSync(['mkfifo', join(dir, FEED_LINES_FILE)])
  expect(() => feedLinesIn(dir).readLines()).toThrow(
    `${join(dir, FEED_LINES_FILE)} cannot be read: it is not a regular file`,
  )
})
