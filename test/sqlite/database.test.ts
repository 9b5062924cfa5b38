/** Opening and closing databases: what is closed leaves no open file. */
import { afterAll, expect, test } from 'bun:test'
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { openAccessFile } from '../../src/sqlite/access/file.ts'
import { requireHeader } from '../../src/sqlite/database.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

/** How many open files of this process are at a path that begins so. */
const openAt = (path: string): number =>
  readdirSync('/proc/self/fd').filter(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(path)
    } catch {
      return false // that of the folder itself
    }
  }).length

test('a header that is read every second leaves no open file', () => {
  const file = join(temporaryDirectory(), 'access.db')
  const db = openAccessFile(file)
  requireHeader(file, 'access')
  const before = openAt(file)
  for (let n = 0; n < 50; n += 1) requireHeader(file, 'access')
  expect(openAt(file)).toBe(before)
  db.close()
})
