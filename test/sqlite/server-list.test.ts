/**
 * The list as the server holds it: its version, a text that is another one after every change; what is done
 * about damage; which rows retention removes.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { StoreError } from '../../src/lib/errors.ts'
import { PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { createVersionText, openServerList } from '../../src/sqlite/server-list.ts'
import { flipLast, overwriteRoots } from '../support/damage.ts'
import { addList, dataDirectory, NO_FILTER, T0 } from '../support/fixtures.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

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

describe('a list that proves damaged', () => {
  const rows = Array.from({ length: 600 }, (_, i) => ({
    ip: `10.0.${i >> 8}.${i & 255}:80`,
    type: 'http',
    age: i,
  }))
  const OPTIONS = { nowMs: T0, addressBits: 32 } as const

  function serving() {
    const dir = dataDirectory(rows)
    const said: string[] = []
    const list = openServerList(
      dir,
      'the service',
      () => T0,
      sentence => void said.push(sentence),
    )
    onCleanUp(list.close)
    return {
      file: join(dir, PROXY_FILE),
      list,
      said,
      find: () => list.findEndpoints(NO_FILTER, OPTIONS),
    }
  }

  /** Ticks, more often than every second, until `isOver`; returns whether the list was ever found to work. */
  async function tickUntil(
    list: ReturnType<typeof openAt>,
    isOver: () => boolean,
  ): Promise<boolean> {
    let hasWorked = false
    while (!isOver()) {
      list.tick()
      hasWorked ||= list.health().works
      await Bun.sleep(5)
    }
    return hasWorked
  }

  test('in a select is refused and said once, until it is whole again and a check has passed', async () => {
    const { file, list, said, find } = serving()
    const intact = readFileSync(file)
    overwriteRoots(file)
    expect(find).toThrow(expect.objectContaining({ isDamage: true }))
    const damaged = expect.stringMatching(
      /is damaged; import .*; answering 503 until that is over$/,
    )
    const startMs = performance.now()
    // Much longer than a check takes: nothing is served in between, and nothing more is said.
    expect(await tickUntil(list, () => performance.now() - startMs > 1500)).toBeFalse()
    expect(find).toThrow(StoreError)
    expect(said).toEqual([damaged])
    writeFileSync(file, intact)
    await tickUntil(list, () => list.health().works)
    expect(find()).toHaveLength(rows.length)
    expect(said).toEqual([damaged, `${file} works again`])
  })

  test('only to a check after the start is served until then', async () => {
    const { file, list, said, find } = serving()
    flipLast(file)
    expect(find()).toHaveLength(rows.length)
    await tickUntil(list, () => said.length > 0)
    expect(find).toThrow(StoreError)
    list.tick()
    expect(said).toEqual([
      expect.stringMatching(/is damaged: row \d+ missing from index .*; import /),
    ])
  })

  test('may be replaced by another file, which is used at once', async () => {
    const { file, list, said, find } = serving()
    overwriteRoots(file)
    expect(find).toThrow(StoreError)
    list.tick()
    const other = join(dataDirectory(rows.slice(1)), PROXY_FILE)
    renameSync(other, file)
    list.tick()
    expect(find()).toHaveLength(rows.length - 1)
    expect(said).toHaveLength(2)
  })

  test('by its time alone is not: only what it holds counts', () => {
    const { file, list, said, find } = serving()
    utimesSync(file, 1, 1)
    list.tick()
    expect(find()).toHaveLength(rows.length)
    expect(said).toEqual([])
  })
})
