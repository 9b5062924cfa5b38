/** What can be wrong with a data directory: how it comes about, and what is said of the file. */
import { Database } from 'bun:sqlite'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { openList, openRegistry } from '../../src/sqlite/stores.ts'

type Damage = readonly [name: string, make: (dir: string) => void, says: RegExp]
export const DAMAGES: readonly Damage[] = [
  [
    'a file that is not a database',
    dir => {
      for (const file of [PROXY_FILE, ACCESS_FILE]) writeFileSync(join(dir, file), 'x'.repeat(9999))
    },
    / is not a database; .*restore a backup with: proxylist restore --force FILE$/,
  ],
  [
    'a database of another program',
    dir => {
      for (const file of [PROXY_FILE, ACCESS_FILE]) {
        const db = new Database(join(dir, file))
        db.run('create table songs (title text)')
        db.close()
      }
    },
    / is a database of another program$/,
  ],
  [
    'a newer schema',
    dir => {
      for (const { db, close } of [openList(dir), openAccess(dir)]) {
        db.run('pragma user_version = 99')
        close()
      }
    },
    / was written by a newer proxylist \(schema 99, /,
  ],
  [
    'a damaged database',
    dir => {
      openList(dir).close()
      openRegistry(dir).close()
      for (const file of [PROXY_FILE, ACCESS_FILE]) overwrite(join(dir, file), 4096)
    },
    / is damaged; .*restore a backup with: proxylist restore --force FILE$/,
  ],
  [
    'the two files in each other’s place',
    dir => {
      openList(dir).close()
      openRegistry(dir).close()
      renameSync(join(dir, PROXY_FILE), join(dir, 'other'))
      renameSync(join(dir, ACCESS_FILE), join(dir, PROXY_FILE))
      renameSync(join(dir, 'other'), join(dir, ACCESS_FILE))
    },
    / is another database of proxylist under this name$/,
  ],
  [
    'directories where files should be',
    dir => {
      for (const file of [PROXY_FILE, ACCESS_FILE]) mkdirSync(join(dir, file))
    },
    / cannot be opened or created/,
  ],
]

const openAccess = (dir: string) => {
  openRegistry(dir).close()
  const db = new Database(join(dir, ACCESS_FILE))
  return { db, close: () => db.close() }
}

function overwrite(file: string, from: number): void {
  const bytes = readFileSync(file)
  writeFileSync(file, bytes.fill(255, from))
}

/** A command for each way to open a file, and that file. */
export const READERS = [
  ['list', PROXY_FILE],
  ['import a.txt', PROXY_FILE],
  ['keys list', ACCESS_FILE],
  ['plans set x', ACCESS_FILE],
  ['serve --listen 127.0.0.1:0', ACCESS_FILE],
] as const
