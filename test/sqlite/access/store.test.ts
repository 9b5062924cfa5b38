/**
 * The file of keys, plans and usage (src/sqlite/access/store.ts): how it is opened, and that a
 * database with an earlier schema keeps every key, plan and limit.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError } from '../../../src/lib/errors.ts'
import { ACCESS_SCHEMA, openAccessFile } from '../../../src/sqlite/access/store.ts'
import { schemaVersion } from '../../../src/sqlite/migrate.ts'
import { ACCESS_FILE, openRegistry, registryProblems } from '../../../src/sqlite/stores.ts'
import { from } from '../../support/answer.ts'
import { addList, T0 } from '../../support/fixtures.ts'
import { IP, openUsage, regular } from '../../support/limits.ts'
import { startService } from '../../support/service.ts'
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

// ---------------------------------------------------------------------------------------------
// Schema 1

const fixture = (name: string): string =>
  readFileSync(join(import.meta.dir, '../../fixtures/databases', name), 'utf8')

const DATABASE = fixture('access-1.sql')

/**
 * Requests to the program that wrote the database, one after the other, and its answers. A line is
 * seconds after T0, key, type of proxies and client, then status, RateLimit, Retry-After and body.
 */
const TRANSCRIPT = fixture('access-1.txt').trim().split('\n')

/** A data directory whose access.db is the fixture. */
function oldDirectory() {
  const dir = temporaryDirectory()
  const file = join(dir, ACCESS_FILE)
  const db = new Database(file, { create: true })
  db.run(DATABASE)
  return { dir, file, db }
}

const rowsOf = (db: Database, select: string): unknown[][] => db.prepare(select).values()

/** What schemas 1 and 2 hold, each in the columns of schema 1. */
const CONTENT = {
  plans: ['select * from plans order by name'],
  keys: ['select * from keys order by id'],
  admissions: [
    'select id, subject, at, requests, kept from admissions order by id',
    `select id, subject_kind || ':' || subject_id, at, requests, kept from admissions order by id`,
  ],
  networks: [
    `select subject, day, network from networks where subject <> 'probe' order by 1, 2, 3`,
    `select subject_kind || ':' || subject_id || ':' || network_set, day, network from networks
     order by 1, 2, 3`,
  ],
} as const

describe('a database with schema 1', () => {
  test('is a database that schema 1 made: its tables are those of the first script', () => {
    const { db } = oldDirectory()
    const made = new Database(':memory:')
    made.run(ACCESS_SCHEMA[0] ?? '')
    const tables = `select name, sql from sqlite_schema where sql is not null order by name`
    const statements = (of: Database) =>
      rowsOf(of, tables).map(row => row.join(' ').replace(/--.*|\s+/g, ' '))
    expect(statements(db)).toEqual(statements(made))
    expect(schemaVersion(db)).toBe(1)
    for (const each of [db, made]) each.close()
  })

  for (const [table, [before, after = before]] of Object.entries(CONTENT)) {
    test(`keeps every row of its ${table}`, () => {
      const { file, db } = oldDirectory()
      const rows = rowsOf(db, before)
      db.close()
      const migrated = openAccessFile(file)
      expect(rows.length).toBeGreaterThan(5)
      expect(rowsOf(migrated, after)).toEqual(rows)
      expect(schemaVersion(migrated)).toBe(2)
      migrated.close()
    })
  }

  test('is intact afterwards, and is migrated once', () => {
    const { dir, file, db } = oldDirectory()
    db.close()
    expect(registryProblems(dir)).toEqual([])
    const contents = readFileSync(file)
    openRegistry(dir).close()
    expect(readFileSync(file).equals(contents)).toBe(true)
  })

  test('gives new admissions ids after the ones it had', () => {
    const { dir, db } = oldDirectory()
    const lastId = rowsOf(db, 'select max(id) from admissions')[0]?.[0]
    db.close()
    const usage = openUsage(dir)
    usage.admit(regular({}, 'another'), IP, T0)
    const added = `select id from admissions where subject_id = 'another'`
    expect(rowsOf(usage.db, added)).toEqual([[Number(lastId) + 1]])
    usage.close()
  })
})

test('every limit of a database with schema 1 counts on', async () => {
  const { dir, db } = oldDirectory()
  db.close()
  addList(dir, [
    { ip: '192.0.2.1:80', type: 'http', works: 100 },
    { ip: '198.51.100.3:443', type: 'https', works: 100 },
    { ip: '203.0.113.4:4145', type: 'socks4', works: 100 },
  ])
  const service = await startService(dir)
  const actual: string[] = []
  for (const line of TRANSCRIPT) {
    const [request = ''] = line.split(': ', 1)
    const [seconds, key, type, client = ''] = request.split(' ')
    service.setClock(Number(seconds))
    const path = `/api?key=${key}&type=${type}&time=100000`
    const { status, text, headers } = await service.request(path, from(client))
    const limits = headers.get('ratelimit') ?? 'no limits'
    const wait = headers.get('retry-after') ?? 'none'
    actual.push(`${request}: ${status} ${limits}; retry-after ${wait}; ${text.trim()}`)
  }
  await service.stop()
  expect(actual).toEqual(TRANSCRIPT)
  expect(actual.length).toBeGreaterThan(30)
})

describe('a file that this program must not open', () => {
  const newer = ACCESS_SCHEMA.length + 1
  test.each([
    [
      ...([`pragma user_version = ${newer}`] as const),
      ` was written by a newer proxylist (schema ${newer}, this one knows ${newer - 1}); ` +
        'use that version',
    ],
    [
      ...(['pragma application_id = 0x5052584c'] as const),
      ' is another database of proxylist under this name',
    ],
    [...(['pragma application_id = 1'] as const), ' is a database of another program'],
  ])('is refused and left as it is: %s', (pragma, sentence) => {
    const { file, db } = oldDirectory()
    db.run(pragma)
    const content = () =>
      [CONTENT.plans, CONTENT.keys, CONTENT.admissions, CONTENT.networks].map(([select]) =>
        rowsOf(db, select),
      )
    const before = content()
    for (const isServer of [false, true]) {
      expect(() => openAccessFile(file, { isServer })).toThrow(new CommandError(file + sentence))
    }
    expect(content()).toEqual(before)
    db.close()
  })
})
