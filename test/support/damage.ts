/** Damage to the file of a database that nobody has open, or a running server. */
import { Database } from 'bun:sqlite'
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { findDamage } from '../../src/sqlite/database.ts'
import { openListFile } from '../../src/sqlite/proxies/store.ts'

/** Flips a bit in an entry of an index: only a comparison of rows and indexes finds it. */
export function flipLast(file: string): void {
  const bytes = readFileSync(file)
  bytes[bytes.length - 3] = (bytes.at(-3) ?? 0) ^ 4
  writeFileSync(file, bytes)
}

/** Overwrites the first page of a table and of each of its indexes; the schema stays as it is. */
export function overwriteRoots(file: string, table = 'proxies'): void {
  const db = new Database(file)
  const roots = db
    .query<{ page: number; bytes: number }, [string]>(
      `select rootpage as page, page_size as bytes from sqlite_schema, pragma_page_size
        where tbl_name = ? and rootpage > 0`,
    )
    .all(table)
  db.close(true)
  const descriptor = openSync(file, 'r+')
  for (const { page, bytes } of roots) {
    writeSync(descriptor, Buffer.alloc(bytes, 0xff), 0, bytes, (page - 1) * bytes)
  }
  closeSync(descriptor)
}

/** The damage of the list in `file`; `null` when it is intact. */
export function damageOf(file: string): string | null {
  using db = openListFile(file, { isServer: true, mustExist: true })
  return findDamage(db)
}
