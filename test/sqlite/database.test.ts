/** Opening and closing databases: what is closed leaves no open file. */
import type { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { BUILT_IN_PLANS } from '../../src/access/plan.ts'
import { openAccessFile } from '../../src/sqlite/access/file.ts'
import { createPlanStore, seedPlans } from '../../src/sqlite/access/plans.ts'
import { ACCESS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { requireHeader } from '../../src/sqlite/database.ts'
import { lockPath, removeDatabase } from '../../src/sqlite/database-files.ts'
import { dataDirectory } from '../support/fixtures.ts'
import { startProgram } from '../support/program.ts'
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

test('a server that starts while another process makes its list waits, and makes none beside it', async () => {
  const dir = dataDirectory([])
  const file = join(dir, PROXY_FILE)
  removeDatabase(file)
  const release = lockPath(file, 0)
  await using server = startProgram(['serve', '--data', dir, '--listen', '127.0.0.1:0'])
  expect(lockPath(file, 2_000)).toBeNull() // takes that long
  expect(existsSync(file)).toBeFalse()
  release?.()
  await server.says(/listening on /)
  expect(await server.stop()).toBe(0)
  expect(server.written.stderr).not.toContain('503')
})

test('what a new database holds from the beginning is written before anybody can open it', () => {
  const file = join(temporaryDirectory(), ACCESS_FILE)
  const isThere: boolean[] = []
  const fill = (db: Database): void => {
    seedPlans(db)
    isThere.push(existsSync(file))
  }
  for (const _ of [1, 2]) {
    const db = openAccessFile(file, { fill })
    expect(createPlanStore(db).list()).toHaveLength(BUILT_IN_PLANS.length)
    db.close()
  }
  expect(isThere).toEqual([false])
})

describe('access.db', () => {
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

  test('has small pages: each admission writes one', () => {
    const db = openAccessFile(':memory:')
    const row = db.query<{ page_size: number }, []>('pragma page_size').get()
    expect(row?.page_size).toBeLessThanOrEqual(1024)
    db.close()
  })
})
