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

const FIXTURE = readFileSync(join(import.meta.dir, '../../fixtures/databases/access-1.sql'), 'utf8')

/** A data directory whose access.db is the fixture. */
function oldDirectory() {
  const dir = temporaryDirectory()
  const file = join(dir, ACCESS_FILE)
  const db = new Database(file, { create: true })
  db.run(FIXTURE)
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

const KEYS: { readonly [name: string]: string } = {
  demo: 'demo',
  expired: 'key-that-expired',
  revoked: 'key-that-is-revoked',
  temp1: 'temp_oEm1Z8xgZj47a3e0gBYalXyRZ1JQw8mx',
  temp2: 'temp_IuVeFvyVk4xK0algnasBaLstj3ghjioR',
  temp3: 'temp_0vFzSaUbDjRCiP7ko2Q0YKhk6gVoYdyK',
  temp4: 'temp_wH0hV4ZPfAZb6gOkx9iLav7mNtTJnH2V',
}

/** Seconds after the fixture's last request, key, type of proxies, client; status, body or code. */
type Replayed = readonly [
  ...[seconds: number, key: string, type: string, client: string],
  ...[answer: string, rateLimit: string],
]

/** What the program that wrote the fixture answers to these requests, one after the other. */
const REPLAYED: readonly Replayed[] = [
  [
    1,
    'hour',
    'http',
    IP,
    '429 RATE_LIMIT_EXCEEDED; retry after 1799 s',
    '"burst";r=0;t=1799, "daily";r=2;t=43199',
  ],
  [1, 'day', 'http', IP, '429 DAILY_LIMIT_REACHED; retry after 43199 s', '"daily";r=0;t=43199'],
  [
    1,
    'classic',
    'http',
    IP,
    '429 RATE_LIMIT_EXCEEDED; retry after 4 s',
    '"burst";r=0;t=4, "daily";r=34556;t=43199',
  ],
  [1, 'networks', 'socks4', IP, '429 SUBNET_LIMIT_REACHED; retry after 43199 s', ''],
  [1, 'networks', 'http', '192.0.2.7', '429 SUBNET_LIMIT_REACHED; retry after 43199 s', ''],
  [1, 'networks', 'http', '2001:db8:0:2::1', '429 SUBNET_LIMIT_REACHED; retry after 43199 s', ''],
  [1, 'networks', 'http', '198.51.255.255', '200 192.0.2.1:80', ''],
  [1, 'networks', 'https', '2001:db8:0:1:ffff::', '200 198.51.100.3:443', ''],
  [1, 'demo', 'http', '203.0.113.1', '429 DEMO_LIMIT_REACHED; retry after 59 s', '"demo";r=0;t=59'],
  [
    1,
    'demo',
    'http',
    '2001:db8:0:1:ffff::',
    '429 DEMO_LIMIT_REACHED; retry after 59 s',
    '"demo";r=0;t=59',
  ],
  [1, 'demo', 'http', '203.0.113.2', '200 192.0.0.0:80', '"demo";r=1;t=60'],
  [1, 'demo', 'http', '2001:db8:0:3::1', '200 192.0.0.0:80', '"demo";r=1;t=60'],
  [
    1,
    'temp1',
    'http',
    '203.0.113.5',
    '429 TEMP_LIMIT_REACHED; retry after 3539 s',
    '"key";r=1;t=3539, "address";r=0;t=3539',
  ],
  [
    1,
    'temp4',
    'http',
    '203.0.113.5',
    '429 TEMP_LIMIT_REACHED; retry after 3539 s',
    '"key";r=2;t=0, "address";r=0;t=3539',
  ],
  [
    1,
    'temp3',
    'http',
    '203.0.113.6',
    '429 TEMP_LIMIT_REACHED; retry after 3599 s',
    '"key";r=0;t=3599, "address";r=2;t=0',
  ],
  [
    1,
    'temp4',
    'http',
    '2001:db8:0:2::9',
    '429 TEMP_LIMIT_REACHED; retry after 3599 s',
    '"key";r=2;t=0, "address";r=0;t=3599',
  ],
  [
    1,
    'temp4',
    'http',
    '2001:db8:0:3::1',
    '200 192.0.2.1:80',
    '"key";r=1;t=3600, "address";r=1;t=3600',
  ],
  [1, 'temp2', 'http', '203.0.113.6', '200 192.0.2.1:80', '"key";r=0;t=3599, "address";r=1;t=3600'],
  [1, 'expired', 'http', IP, '403 INVALID_KEY', ''],
  [1, 'revoked', 'http', IP, '403 INVALID_KEY', ''],
  [1, 'standard', 'http', IP, '200 192.0.2.1:80', '"burst";r=3;t=4, "daily";r=34558;t=43199'],
  [1, 'one', 'http', IP, '200 192.0.2.1:80', ''],
  [
    4.999,
    'classic',
    'http',
    IP,
    '429 RATE_LIMIT_EXCEEDED; retry after 1 s',
    '"burst";r=0;t=1, "daily";r=34556;t=43196',
  ],
  [5, 'classic', 'http', IP, '200 192.0.2.1:80', '"burst";r=1;t=5, "daily";r=34555;t=43195'],
  [5, 'classic', 'socks4', IP, '200 203.0.113.4:4145', '"burst";r=0;t=5, "daily";r=34554;t=43195'],
  [
    5,
    'classic',
    'socks4',
    IP,
    '429 RATE_LIMIT_EXCEEDED; retry after 5 s',
    '"burst";r=0;t=5, "daily";r=34554;t=43195',
  ],
  [60, 'demo', 'http', '203.0.113.1', '200 192.0.0.0:80', '"demo";r=1;t=60'],
  [60, 'demo', 'http', '2001:db8:0:1::3', '200 192.0.0.0:80', '"demo";r=1;t=60'],
  [
    1799.999,
    'hour',
    'http',
    IP,
    '429 RATE_LIMIT_EXCEEDED; retry after 1 s',
    '"burst";r=0;t=1, "daily";r=2;t=41401',
  ],
  [1800, 'hour', 'http', IP, '200 192.0.2.1:80', '"burst";r=0;t=900, "daily";r=1;t=41400'],
  [2700, 'hour', 'http', IP, '200 192.0.2.1:80', '"burst";r=0;t=900, "daily";r=0;t=40500'],
  [
    3539.999,
    'temp4',
    'http',
    '203.0.113.5',
    '429 TEMP_LIMIT_REACHED; retry after 1 s',
    '"key";r=1;t=62, "address";r=0;t=1',
  ],
  [3540, 'temp4', 'http', '203.0.113.5', '200 192.0.2.1:80', '"key";r=0;t=61, "address";r=0;t=60'],
  [
    3600,
    'hour',
    'http',
    IP,
    '429 DAILY_LIMIT_REACHED; retry after 39600 s',
    '"burst";r=1;t=1800, "daily";r=0;t=39600',
  ],
  [
    3600,
    'temp3',
    'http',
    '2001:db8:0:2::1',
    '200 192.0.2.1:80',
    '"key";r=1;t=3600, "address";r=1;t=3600',
  ],
  [43_199.999, 'day', 'http', IP, '429 DAILY_LIMIT_REACHED; retry after 1 s', '"daily";r=0;t=1'],
  [43_199.999, 'networks', 'socks4', IP, '429 SUBNET_LIMIT_REACHED; retry after 1 s', ''],
  [43_200, 'day', 'http', IP, '200 192.0.2.1:80', '"daily";r=2;t=86400'],
  [43_200, 'networks', 'socks4', '192.0.2.7', '200 203.0.113.4:4145', ''],
  [43_200, 'hour', 'http', IP, '200 192.0.2.1:80', '"burst";r=2;t=3600, "daily";r=4;t=86400'],
]

test('every limit of a database with schema 1 counts on', async () => {
  const { dir, db } = oldDirectory()
  db.close()
  addList(dir, [
    { ip: '192.0.2.1:80', type: 'http', works: 100 },
    { ip: '198.51.100.3:443', type: 'https', works: 100 },
    { ip: '203.0.113.4:4145', type: 'socks4', works: 100 },
  ])
  const service = await startService(dir)
  for (const [seconds, name, type, client, answer, rateLimit] of REPLAYED) {
    service.setClock(seconds)
    const path = `/api?key=${KEYS[name] ?? `key-of-plan-${name}`}&type=${type}&time=100000`
    const { status, text, headers } = await service.request(path, from(client))
    const body = /"code":"(\w+)"/.exec(text)?.[1] ?? text.trim()
    const wait = headers.get('retry-after')
    const actual = `${status} ${body}${wait === null ? '' : `; retry after ${wait} s`}`
    expect([seconds, name, type, client, actual, headers.get('ratelimit') ?? '']).toEqual([
      ...[seconds, name, type, client, answer, rateLimit],
    ])
  }
  await service.stop()
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
