/**
 * Putting a new list into the place of a damaged one (src/sqlite/stores.ts, database-files.ts): what
 * becomes of the WAL, of the damaged list and of one that another process has put there meanwhile.
 */
import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import {
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { addressText } from '../../src/proxies/proxy.ts'
import { PROXY_FILE, walOf } from '../../src/sqlite/data-directory.ts'
import { filesOf, lockPath, moveDatabase, removeDatabase } from '../../src/sqlite/database-files.ts'
import { type List, openList, withList, withListToReplace } from '../../src/sqlite/stores.ts'
import { walBytes } from '../../src/sqlite/wal.ts'
import { checkListFile, flipLast } from '../support/damage.ts'
import { addList, fillList, NO_FILTER, T0 } from '../support/fixtures.ts'
import { endpointOf } from '../support/rows.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const clock = () => T0
const rowOf = (ip: string) => ({ ip: `${ip}:80`, type: 'http' })
const addressesIn = ({ finder }: List): string[] =>
  finder
    .findEndpoints(NO_FILTER, { nowMs: T0, addressBits: 32 })
    .map(row => addressText(endpointOf(row)))
    .sort()

/** An open list of two rows, the second of which is in its WAL only, because of a reader. */
function openLiveList(dir: string): List {
  const list = openList(dir, { clock })
  onCleanUp(list.close)
  fillList(list, [rowOf('192.0.2.1')])
  const reader = new Database(list.file, { readonly: true })
  reader.run('begin')
  reader.query('select count(*) from proxies').get()
  fillList(list, [rowOf('192.0.2.2')])
  reader.close()
  expect(walBytes(list.file)).toBeGreaterThan(0)
  return list
}

/** What tells one file from another in the same place. */
const inodesOf = (file: string): number[] => [file, walOf(file)].map(path => statSync(path).ino)

test('who had a lock whose file was removed leaves the lock of another in its place', () => {
  const file = join(temporaryDirectory(), 'checker')
  const first = lockPath(file, 0)
  rmSync(`${file}.lock`)
  const second = lockPath(file, 0)
  first?.()
  expect(lockPath(file, 0)).toBeNull()
  second?.()
})

test('a database in whose place another came while it was opened is not taken for that one', () => {
  const [dir, other] = [temporaryDirectory(), temporaryDirectory()]
  addList(dir, [rowOf('192.0.2.1')])
  addList(other, [rowOf('192.0.2.2')])
  const file = join(dir, PROXY_FILE)
  const { db } = openList(dir, { clock })
  expect(filesOf(db, file)?.inode).toBe(statSync(file).ino)
  renameSync(join(other, PROXY_FILE), file)
  expect(() => filesOf(db, file)).toThrow(`${file} was replaced while it was opened`)
  using reopened = openList(dir, { clock })
  expect(addressesIn(reopened)).toEqual(['192.0.2.2:80'])
})

test('a list that was put into the place of a damaged one meanwhile keeps its file and its WAL', async () => {
  const dir = temporaryDirectory()
  addList(dir, [rowOf('192.0.2.99')])
  const file = join(dir, PROXY_FILE)
  writeFileSync(file, readFileSync(file).fill(255, 4096))
  const release = lockPath(file, 0)
  const damages: string[] = []
  const live: { list: List; inodes: number[] }[] = []
  const found = await withListToReplace(dir, clock, addressesIn, {
    onDamage: sentence => void damages.push(sentence),
    onWait() {
      removeDatabase(file)
      release?.()
      live.push({ list: openLiveList(dir), inodes: inodesOf(file) })
    },
  })
  expect(damages).toHaveLength(1)
  expect(found).toEqual(['192.0.2.1:80', '192.0.2.2:80'])
  const [{ list, inodes } = { list: null, inodes: [] }] = live
  expect(inodesOf(file)).toEqual(inodes)
  if (list !== null) fillList(list, [rowOf('192.0.2.3')])
  expect(await withList(dir, clock, 'read', addressesIn)).toHaveLength(3)
})

test('moveDatabase removes the WAL of the list whose place the new one takes', async () => {
  const { file: source } = openLiveList(temporaryDirectory())
  const dir = temporaryDirectory()
  const file = join(dir, PROXY_FILE)
  for (const path of ['', '-wal']) copyFileSync(source + path, file + path) // as after a kill
  const fresh = join(dir, 'fresh')
  const list = openList(dir, { clock, file: fresh })
  fillList(list, [rowOf('198.51.100.1')])
  list.close()
  moveDatabase(fresh, file)
  expect([existsSync(fresh), existsSync(walOf(file))]).toEqual([false, false])
  expect(await withList(dir, clock, 'read', addressesIn)).toEqual(['198.51.100.1:80'])
})

test.each([
  ['a short list is replaced by another file', 100, 1],
  ['a long one keeps its file, and gets new indexes', 20_000, 0],
])('where rows and indexes disagree, %s', async (_, rows, damages) => {
  const dir = temporaryDirectory()
  addList(
    dir,
    Array.from({ length: rows }, (_, i) => rowOf(`10.0.${i >> 8}.${i & 255}`)),
  )
  const file = join(dir, PROXY_FILE)
  flipLast(file)
  expect(checkListFile(file)).not.toEqual([])
  const said: string[] = []
  const replace = (list: List): unknown => fillList(list, [rowOf('192.0.2.1')], 'replace')
  await withListToReplace(dir, clock, replace, {
    onDamage: sentence => void said.push(sentence),
    onWait: () => expect.unreachable(),
  })
  expect(said).toHaveLength(damages)
  expect(checkListFile(file)).toEqual([])
  expect(await withList(dir, clock, 'read', addressesIn)).toEqual(['192.0.2.1:80'])
})
