/** Creating databases, and locks on paths. */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BUILT_IN_PLANS } from '../../src/access/plan.ts'
import { openAccessFile } from '../../src/sqlite/access/file.ts'
import { createPlanStore, seedPlans } from '../../src/sqlite/access/plans.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { lockPath } from '../../src/sqlite/database-files.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

test('a new database has its schema and content in one step', () => {
  const file = join(temporaryDirectory(), ACCESS_FILE)
  const tables: unknown[] = []
  const fill = (db: Database): void => {
    seedPlans(db)
    using other = new Database(file)
    tables.push(...other.query('select name from sqlite_schema').all())
  }
  for (const _ of [1, 2]) {
    const db = openAccessFile(file, { fill })
    expect(createPlanStore(db).list()).toHaveLength(BUILT_IN_PLANS.length)
    db.close()
  }
  expect(tables).toEqual([])
})

test('a lock on a path keeps its file, and another process gets it afterwards', () => {
  const file = join(temporaryDirectory(), 'checker')
  const release = lockPath(file, 0)
  expect(lockPath(file, 0)).toBeNull()
  release?.()
  expect(existsSync(`${file}.lock`)).toBeTrue()
  const again = lockPath(file, 0)
  expect(again).not.toBeNull()
  again?.()
})

describe('access.db', () => {
  test('is refused when it is empty: a new database in its place would refuse every key', () => {
    const file = join(temporaryDirectory(), ACCESS_FILE)
    writeFileSync(file, '')
    expect(() => openAccessFile(file)).toThrow(`${file} is damaged: it is empty`)
    expect(readFileSync(file, 'utf8')).toBe('')
  })

  test('delays a server only briefly while another process writes, a command longer', () => {
    const file = join(temporaryDirectory(), ACCESS_FILE)
    const waits = [openAccessFile(file, { isServer: true }), openAccessFile(file)].map(db => {
      const row = db.query<{ timeout: number }, []>('pragma busy_timeout').get()
      db.close()
      return row?.timeout ?? Number.NaN
    })
    expect(waits[0]).toBeLessThanOrEqual(500)
    expect(waits[1]).toBeGreaterThanOrEqual(5000)
  })
})
