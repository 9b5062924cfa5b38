/**
 * Holds the server's list: its version, a text that is another one after every change, and which
 * rows retention removes.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { readRow } from '../../src/import/row.ts'
import { DAY_MS, SECOND_MS } from '../../src/lib/time.ts'
import { createVersionText, openServerList } from '../../src/sqlite/server-list.ts'
import { openList, PROXY_FILE } from '../../src/sqlite/stores.ts'
import { addList, T0, type TestRow } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const OPENINGS = 50

const openAt = (dir: string, clock: () => number) =>
  openServerList(dir, 'the service', clock, () => {})

test('the text of the version differs for each opening and each change, however many', () => {
  const versionText = createVersionText()
  // A number that counts openings in its upper bits would lose changes after 2 ** 13 of them.
  const openings = [...Array(50).keys(), 2 ** 13, 2 ** 13 + 1, 2 ** 32, 2 ** 52]
  const changes = [0, 1, 2, 2 ** 31, 2 ** 32 - 1]
  const texts = openings.flatMap(opening => changes.map(change => versionText(opening, change)))
  expect(new Set(texts).size).toBe(openings.length * changes.length)
  expect(versionText(1, 2)).toBe(versionText(1, 2))
})

test('the version is another one after every change and every opening of the list', async () => {
  const dir = temporaryDirectory()
  const add = (host: number): void => addList(dir, [{ ip: `192.0.2.${host}:80`, type: 'http' }])
  add(1)
  const file = join(dir, PROXY_FILE)
  const list = openAt(dir, () => T0)
  try {
    const seen = new Set<string>()
    for (let opening = 0; opening < OPENINGS; opening += 1) {
      seen.add(list.version())
      renameSync(file, `${file}.away`)
      list.tick() // closes it: the file is missing
      renameSync(`${file}.away`, file)
      list.tick() // opens it again
    }
    expect(seen.size).toBe(OPENINGS)
    const before = list.version()
    expect(list.version()).toBe(before)
    for (const host of [2, 3, 4]) {
      add(host)
      await new Promise(resolve => setImmediate(resolve)) // the version is read once in a turn
      seen.add(list.version())
    }
    expect(seen.size).toBe(OPENINGS + 3)
    expect(seen).not.toContain(before)
  } finally {
    list.close()
  }
})

describe('retention counts from the clock or the newest check, whichever is earlier', () => {
  const DAY = DAY_MS / SECOND_MS
  const RETAIN_MS = 7 * DAY_MS
  const row = (host: number, age: number): TestRow => ({
    ip: `192.0.2.${host}:80`,
    type: 'http',
    age,
  })

  test.each([
    ['the clock', T0, [0, 7 * DAY, 7 * DAY + 1], 1],
    ['the newest check of an old list', T0, [8 * DAY, 15 * DAY, 15 * DAY + 1], 1],
    ['the newest check when the clock is ahead', T0 + 8 * DAY_MS, [0, 6 * DAY], 0],
    ['the clock when a check lies ahead of it', T0, [-300, 7 * DAY, 7 * DAY + 1], 1],
    ['the clock when it is behind', T0 - 8 * DAY_MS, [0, 15 * DAY, 15 * DAY + 1], 1],
  ] as const)('%s', (_, nowMs, ages, removed) => {
    const dir = temporaryDirectory()
    addList(
      dir,
      ages.map((age, i) => row(i + 1, age)),
    )
    const list = openAt(dir, () => nowMs)
    const expected = { removed, rowsBefore: ages.length, mayRemain: false }
    expect(list.removeStale(RETAIN_MS, nowMs)).toEqual(expected)
    list.close()
  })

  test('a clock that runs ahead removes nothing until something is imported under it', () => {
    const dir = temporaryDirectory()
    addList(dir, [row(1, 0), row(2, 6 * DAY)])
    const aheadMs = T0 + 8 * DAY_MS
    const list = openAt(dir, () => aheadMs)
    const nothing = { removed: 0, rowsBefore: 2, mayRemain: false }
    expect(list.removeStale(RETAIN_MS, aheadMs)).toEqual(nothing)
    const other = openList(dir)
    const importTx = other.begin('merge')
    const defaults = { type: undefined, nowMs: aheadMs, provider: 'the service' }
    const result = readRow({ ip: '192.0.2.3:80', type: 'http' }, defaults)
    if (result.ok) importTx.add(result.proxy)
    void importTx.commit()
    other.close()
    expect(list.removeStale(RETAIN_MS, aheadMs)).toEqual({ ...nothing, removed: 2, rowsBefore: 3 })
    list.close()
  })

  test('an empty list stays as it is', () => {
    const dir = temporaryDirectory()
    addList(dir, [])
    const list = openAt(dir, () => T0)
    expect(list.removeStale(RETAIN_MS, T0)).toEqual({ removed: 0, rowsBefore: 0, mayRemain: false })
    list.close()
  })
})
