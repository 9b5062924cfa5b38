/** Holds the version of the server's list: a text that is another one after every change. */
import { afterAll, expect, test } from 'bun:test'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { openServerList } from '../../src/sqlite/server-list.ts'
import { PROXY_FILE } from '../../src/sqlite/stores.ts'
import { addList, T0 } from '../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

/** A number that counts openings in its upper bits would lose changes of the list after so many. */
const OPENINGS = 2 ** 13 + 8

test('the version is another one after every change, however often the list was opened', async () => {
  const dir = temporaryDirectory()
  const add = (host: number): void => addList(dir, [{ ip: `192.0.2.${host}:80`, type: 'http' }])
  add(1)
  const file = join(dir, PROXY_FILE)
  const list = openServerList(
    dir,
    'the service',
    () => T0,
    () => {},
  )
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
