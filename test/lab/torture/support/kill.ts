/** Killing the program: whether the kill is what ended it, what is wrong with its files, and how that is named. */
import { Database } from 'bun:sqlite'
import { existsSync } from 'node:fs'
import type { Child } from '../../../support/launch.ts'
import { files } from '../../support/serve.ts'

/** How many problems are named, and how many characters of each. */
const NAMED = 3
const NAMED_LENGTH = 100

/** Kills a child at once; says whether that ended it, and not that it had ended by itself. */
export async function kill(child: Child): Promise<boolean> {
  child.kill('SIGKILL')
  await child.exited
  return child.signalCode() === 'SIGKILL'
}

/** How many problems there were, and the first of them. */
export function summaryOf(problems: readonly string[]): string {
  if (problems.length === 0) return '0'
  const named = problems.slice(0, NAMED).map(text => text.slice(0, NAMED_LENGTH))
  return `${problems.length} (${named.join('; ')})`
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

/** What is wrong with a list's file, if there is one: damage, a missing index or city, or an index not used. */
export function listFaults(data: string): string[] {
  if (!existsSync(files(data).list)) return []
  const db = new Database(files(data).list, { readwrite: true })
  const select = (sql: string): unknown[] => db.prepare<unknown[], []>(sql).values().flat()
  try {
    const names = select("select name from sqlite_schema where type = 'index'")
    const [strays] = select(
      'select count(*) from proxies where city > 0 and city not in (select id from cities)',
    )
    const plan = select(
      `explain query plan select id from proxies where country = 37
       order by checked_at desc, ping_ms, id`,
    ).join(' ')
    return [
      ...integrityFaults(db),
      ...INDEX_NAMES.filter(name => !names.includes(name)).map(name => `no index ${name}`),
      ...(strays === 0 ? [] : [`${strays} rows of an unknown city`]),
      ...(plan.includes('proxies_by_country') ? [] : [`selects by country ${plan}`]),
    ]
  } finally {
    db.close(true)
  }
}
