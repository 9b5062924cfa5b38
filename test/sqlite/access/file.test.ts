/**
 * The file of keys, plans and usage (src/sqlite/access/file.ts): how it is opened, and that a
 * database with an earlier schema keeps every key, plan and limit.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError } from '../../../src/lib/errors.ts'
import { ACCESS_SCHEMA, openAccessFile } from '../../../src/sqlite/access/file.ts'
import { registryProblems } from '../../../src/sqlite/findings.ts'
import { schemaVersion } from '../../../src/sqlite/migrate.ts'
import { ACCESS_FILE, openRegistry } from '../../../src/sqlite/stores.ts'
import { from } from '../../support/answer.ts'
import { addList } from '../../support/fixtures.ts'
import { SERVICES } from '../../support/service.ts'
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
// Earlier schemas

const fixture = (name: string): string =>
  readFileSync(join(import.meta.dir, '../../fixtures/databases', name), 'utf8')

/** Versions of the schema before the newest. */
const OLD = ACCESS_SCHEMA.slice(1).map((_, i) => i + 1)

/**
 * Requests to the program that wrote the databases, one after the other, and its answers. A line is
 * seconds after T0, key, type of proxies and client, then status, RateLimit, Retry-After and body.
 */
const TRANSCRIPT = fixture('access-1.txt').trim().split('\n')

/** A data directory whose access.db is the fixture of a version. */
function oldDirectory(version = 1) {
  const dir = temporaryDirectory()
  const file = join(dir, ACCESS_FILE)
  const db = new Database(file, { create: true })
  db.run(fixture(`access-${version}.sql`))
  return { dir, file, db }
}

const rowsOf = (db: Database, select: string): unknown[][] => db.prepare(select).values()

const NETWORKS = `select subject_kind || ':' || subject_id || ':' || network_set, day, network
  from networks order by 1, 2, 3`
const BATCHES = `select value ->> 0 || ':' || (value ->> 1), value ->> 2, value ->> 3, value ->> 4
  from batches, json_each(admissions) order by batches.id, json_each.id`
/** What the schemas hold, version by version, each in the columns of schema 1. */
const CONTENT: { [table: string]: readonly string[] } = {
  plans: [
    ...Array<string>(3).fill('select * from plans order by name'),
    `select name, burst_requests, burst_seconds, daily, subnets, clients, count from plans
     where name not in ('demo', 'temp') order by name`,
  ],
  keys: [
    ...Array<string>(3).fill('select * from keys order by id'),
    `select id, hash, prefix, label, plan, created_at, expires_at, revoked_at from keys order by id`,
  ],
  admissions: [
    'select subject, at, requests, kept from admissions order by id',
    `select subject_kind || ':' || subject_id, at, requests, kept from admissions order by id`,
    BATCHES,
    BATCHES,
  ],
  networks: [
    `select subject, day, network from networks where subject <> 'probe' order by 1, 2, 3`,
    NETWORKS,
    NETWORKS,
    NETWORKS,
  ],
}
/** What a database with schema `version` holds, by table. */
const contentOf = (db: Database, version: number): unknown[][][] =>
  Object.values(CONTENT).map(selects => rowsOf(db, selects[version - 1] ?? ''))

test.each(OLD)('there is a database that schema %d made', version => {
  const { db } = oldDirectory(version)
  const made = new Database(':memory:')
  for (const script of ACCESS_SCHEMA.slice(0, version)) made.run(script)
  const tables = `select name, sql from sqlite_schema where sql is not null order by name`
  const statements = (of: Database) =>
    rowsOf(of, tables).map(row => row.join(' ').replace(/--.*|\s+/g, ' '))
  expect(statements(db)).toEqual(statements(made))
  expect(schemaVersion(db)).toBe(version)
  for (const each of [db, made]) each.close()
})

describe.each(OLD)('a database with schema %d', version => {
  test('keeps every row of every table', () => {
    const { file, db } = oldDirectory(version)
    const content = contentOf(db, version)
    db.close()
    const migrated = openAccessFile(file)
    for (const rows of content) expect(rows.length).toBeGreaterThan(5)
    expect(contentOf(migrated, ACCESS_SCHEMA.length)).toEqual(content)
    expect(schemaVersion(migrated)).toBe(ACCESS_SCHEMA.length)
    migrated.close()
  })

  test('is intact afterwards, and is migrated once', () => {
    const { dir, file, db } = oldDirectory(version)
    db.close()
    const old = readFileSync(file)
    expect(registryProblems(dir)).toEqual([]) // of a copy in memory
    expect(readFileSync(file).equals(old)).toBe(true)
    openRegistry(dir).close()
    expect(registryProblems(dir)).toEqual([])
    const contents = readFileSync(file)
    openRegistry(dir).close()
    expect(readFileSync(file).equals(contents)).toBe(true)
  })
})

test.each([1, 2])('schema %d becomes batches of a thousand admissions, in order', version => {
  const { file, db } = oldDirectory(version)
  const columns = version === 1 ? 'subject' : 'subject_kind, subject_id'
  const insert = db.prepare(
    `insert into admissions (${columns}, at, requests, kept)
     values (${version === 1 ? "'key:' || ?" : "'key', ?"}, 1, 1, 1)`,
  )
  const before = Number(rowsOf(db, 'select count(*) from admissions')[0]?.[0])
  db.transaction(() => {
    for (let n = before; n < 2500; n += 1) insert.run(String(n))
  })()
  insert.finalize()
  db.close()
  const migrated = openAccessFile(file)
  const counts = 'select id, json_array_length(admissions) from batches order by id'
  expect(rowsOf(migrated, counts)).toEqual([
    [1, 1000],
    [2, 1000],
    [3, 500],
  ])
  const ids = `select value ->> 1 from batches, json_each(admissions)
    where value ->> 2 = 1 order by batches.id, json_each.id`
  expect(rowsOf(migrated, ids)).toEqual(
    Array.from({ length: 2500 - before }, (_, n) => [String(before + n)]),
  )
  migrated.close()
})

describe('a plan named demo or temp of an earlier schema', () => {
  test.each(OLD)('stays under another name if a key has it; schema %d', version => {
    const { file, db } = oldDirectory(version)
    db.run(`insert into plans values ('demo', 9, 9, 9, 9, 9, 9), ('temp', 8, 8, 8, 8, 8, 8)`)
    db.run(`insert into keys values ('k', x'00', 'p', '', 'demo', 1, null, null)`)
    db.close()
    const migrated = openAccessFile(file)
    const plans = `select name, burst_requests, burst_seconds, daily, count, downloads, enabled
      from plans where name like 'demo%' or name like 'temp%' order by 1`
    expect(rowsOf(migrated, plans)).toEqual([
      ['demo', 2, 60, null, 50, 1, 1],
      ['demo.old', 9, 9, 9, 9, 4, 1],
      ['temp', 2, 3600, null, 30, 1, 1],
    ])
    expect(rowsOf(migrated, `select plan from keys where id = 'k'`)).toEqual([['demo.old']])
    migrated.close()
  })
})

test.each(OLD.flatMap(version => SERVICES.map(([kind, start]) => [version, kind, start] as const)))(
  'every limit of a database with schema %d counts on, %s',
  async (version, _, start) => {
    const { dir, db } = oldDirectory(version)
    db.close()
    addList(dir, [
      { ip: '192.0.2.1:80', type: 'http', works: 100 },
      { ip: '198.51.100.3:443', type: 'https', works: 100 },
      { ip: '203.0.113.4:4145', type: 'socks4', works: 100 },
    ])
    const service = await start(dir, {})
    const actual: string[] = []
    for (const line of TRANSCRIPT) {
      const [request = ''] = line.split(': ', 1)
      const [seconds, key, type, client = ''] = request.split(' ')
      service.setClock(Number(seconds))
      const path = `/api?key=${key}&type=${type}&time=100000`
      const { status, text, headers } = await service.request(path, from(client))
      // Earlier versions said nothing of networks.
      const known = headers.get('ratelimit')?.split(', ') ?? []
      const told = known.filter(item => !/^"(subnets|clients)"/.test(item)).join(', ')
      const limits = told === '' ? 'no limits' : told
      const wait = headers.get('retry-after') ?? 'none'
      actual.push(`${request}: ${status} ${limits}; retry-after ${wait}; ${text.trim()}`)
    }
    await service.stop()
    expect(actual).toEqual(TRANSCRIPT)
    expect(actual.length).toBeGreaterThan(30)
  },
)

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
    const before = contentOf(db, 1)
    for (const isServer of [false, true]) {
      expect(() => openAccessFile(file, { isServer })).toThrow(new CommandError(file + sentence))
    }
    expect(contentOf(db, 1)).toEqual(before)
    db.close()
  })
})
