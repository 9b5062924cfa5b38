/** Killing the program, and what is wrong with its files afterwards. */
import { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import type { Child } from '../../../support/launch.ts'
import { files } from '../../support/serve.ts'

/** Kills a child at once; says whether that ended it, and not that it had ended by itself. */
export async function kill(child: Child): Promise<boolean> {
  child.kill('SIGKILL')
  await child.exited
  return child.signalCode() === 'SIGKILL'
}

/** The indexes that every list has. */
const INDEX_NAMES = ['age', 'country', 'city', 'port'].map(name => `proxies_by_${name}`)

/** What SQLite finds wrong with a file. */
export const integrityFaults = (db: Database): string[] =>
  db
    .prepare<{ integrity_check: string }, []>('pragma integrity_check')
    .all()
    .map(row => row.integrity_check)
    .filter(text => text !== 'ok')

/** What is wrong with a list's file, if there is one: damage, a missing index, a missing city. */
export function listFaults(data: string): string[] {
  if (!existsSync(files(data).list)) return []
  using db = new Database(files(data).list, { readwrite: true })
  const select = (sql: string): unknown[] => db.prepare<unknown[], []>(sql).values().flat()
  const names = select('select name from sqlite_schema')
  if (names.length === 0) return integrityFaults(db) // killed before the first table
  const [strays] = select(
    'select count(*) from proxies where city > 0 and city not in (select id from cities)',
  )
  return [
    ...integrityFaults(db),
    ...INDEX_NAMES.filter(name => !names.includes(name)).map(name => `no index ${name}`),
    ...(strays === 0 ? [] : [`${strays} rows of an unknown city`]),
  ]
}
