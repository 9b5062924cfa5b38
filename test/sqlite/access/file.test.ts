/** The file of keys, plans and usage (src/sqlite/access/file.ts): how it is opened. */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { openAccessFile } from '../../../src/sqlite/access/file.ts'
import { ACCESS_FILE } from '../../../src/sqlite/data-directory.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

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
