/**
 * Owns the integrity checks of databases, which read everything: a list of a million proxies takes
 * some seconds. Every index of the list is read too, because answers come from the indexes alone.
 */
import { Database } from 'bun:sqlite'
import { messageOf } from '../lib/errors.ts'
import { createAdmissionLog } from './access/admission-log.ts'
import { isDamage } from './errors.ts'
import { hashSql, isChecksumRight, ROW_NUMBERS } from './integrity/checksum.ts'

const ORDER = ['id', 'checked_at', 'ping_ms'] as const

/** What each index holds. */
const INDEXED: { [index: string]: readonly [string, ...string[]] } = {
  proxies_by_age: ROW_NUMBERS,
  proxies_by_country: ROW_NUMBERS,
  proxies_by_city: [...ORDER, 'city'],
  proxies_by_port: [...ORDER, 'id & 65535'],
}

type Row = { [column: string]: unknown }

/** The problems that `find` returns on one snapshot; damage that it throws is one, too. */
function onSnapshot(db: Database, find: () => string[]): string[] {
  try {
    db.run('begin')
    try {
      return find()
    } finally {
      db.run('rollback')
    }
  } catch (error) {
    if (isDamage(error)) return [messageOf(error)]
    throw error
  }
}

const row = (db: Database, sql: string): Row => db.prepare<Row, []>(sql).get() ?? {}

/** The first problem that SQLite's own check finds. */
function structureProblems(db: Database, pragma: 'quick_check' | 'integrity_check'): string[] {
  const [found] = Object.values(row(db, `pragma ${pragma}(1)`)).map(String)
  return found === undefined || found === 'ok' ? [] : [found.replaceAll('\n', ' ')]
}

const schemaOf = (db: Database): Set<string> =>
  new Set(
    db
      .prepare<{ sql: string }, []>('select sql from sqlite_schema')
      .all()
      .map(r => r.sql),
  )

/** Whether tables, indexes and triggers are as in a new list; there may be others. */
function isSchemaIntact(db: Database, scripts: readonly string[]): boolean {
  const fresh = new Database(':memory:')
  for (const script of scripts) fresh.run(script)
  const isIntact = schemaOf(fresh).isSubsetOf(schemaOf(db))
  fresh.close()
  return isIntact
}

/** The problems of the rows and the indexes of the list. */
function contentProblems(db: Database): string[] {
  const problems = isChecksumRight(db) ? [] : ['the rows do not match the checksum']
  const sums = Object.entries(INDEXED).map(([index, held]) => `sum(${hashSql(held)}) as ${index}`)
  const ofRows = row(db, `select count(*) as n, ${sums.join(', ')} from proxies not indexed`)
  for (const [index, held] of Object.entries(INDEXED)) {
    const sum = `select count(*) as n, sum(${hashSql(held)}) as sum from proxies`
    const { n, sum: ofIndex } = row(db, `${sum} indexed by ${index}`)
    if (n === ofRows.n && ofIndex === ofRows[index]) continue
    problems.push(`index ${index} does not match the rows`)
  }
  return problems
}

/** The problems of an open list whose schema comes from `scripts`; none when it is intact. */
export const checkList = (db: Database, scripts: readonly string[]): string[] =>
  onSnapshot(db, () => {
    const problems = structureProblems(db, 'quick_check')
    if (!isSchemaIntact(db, scripts)) problems.push('the schema is not what it should be')
    return problems.length > 0 ? problems : contentProblems(db)
  })

/** The problems of open keys, plans and usage; none when they are intact. */
export const checkRegistry = (db: Database): string[] =>
  onSnapshot(db, () => {
    const orphans = db.prepare<Row, []>('pragma foreign_key_check').all().length
    const problems = structureProblems(db, 'integrity_check')
    const admissions = createAdmissionLog(db)
    admissions.catchUp() // throws where it cannot be read
    admissions.readHistory()
    return orphans === 0 ? problems : [...problems, `${orphans} keys are of no plan`]
  })
