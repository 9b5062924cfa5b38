/** The store of usage beside other servers on one data directory (src/sqlite/usage.ts). */
import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { ACCESS_FILE } from '../src/app.ts'
import { admitOne, type Meter } from '../src/limits.ts'
import { createUsageStore, openAccessFile } from '../src/sqlite/usage.ts'
import { cleanUp, T0, temporaryDirectory } from './harness.ts'

afterAll(cleanUp)

const METER: Meter = {
  subject: 'key:k1',
  window: { name: 'burst', limit: 3, ms: 60_000 },
  daily: null,
}

test('a server that starts reads the log before it takes the lock others need', () => {
  const file = join(temporaryDirectory(), ACCESS_FILE)
  const running = openAccessFile(file, { serving: true })
  const usage = createUsageStore(running)
  usage.transaction(() => admitOne(usage, [METER], T0))

  const starting = openAccessFile(file, { serving: true })
  starting.run('pragma busy_timeout = 0')
  const store = createUsageStore(starting)
  running.run('begin immediate') // so nothing that is read below was read under the lock
  expect(() => store.transaction(() => {})).toThrow('database is locked')
  running.run('rollback')
  // Rows a connection deletes itself are no news to it: what it still knows, it had read before.
  starting.run('delete from admissions')
  expect(store.read(METER.subject)?.admissions).toEqual([T0])
  starting.close()
  running.close()
})
