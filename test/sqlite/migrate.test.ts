/**
 * Migrations, with a made-up second schema: a database is migrated in one transaction, whole or not at all; and
 * which files are refused, with which sentence.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, spyOn, test } from 'bun:test'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashKey } from '../../src/access/key.ts'
import { CommandError } from '../../src/lib/errors.ts'
import { TYPES } from '../../src/proxies/proxy.ts'
import { typeBits } from '../../src/proxies/types.ts'
import { ACCESS_SCRIPTS, openAccessFile } from '../../src/sqlite/access/file.ts'
import { ACCESS_FILE, FEEDS_FILE, PROXY_FILE } from '../../src/sqlite/data-directory.ts'
import { type OpenOptions, openDatabase } from '../../src/sqlite/database.ts'
import { APPLICATION_IDS, schemaVersion } from '../../src/sqlite/migrate.ts'
import { LIST_SCRIPTS, openListFile } from '../../src/sqlite/proxies/store.ts'
import { ROOT } from '../support/program.ts'
import { cleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

const ROWS = 20_000
const FIRST = 'create table numbers (n integer primary key)'
/** Takes some milliseconds, in which it can be killed. */
const SECOND = `
  alter table numbers add column square integer not null default 0;
  update numbers set square = n * n;
  create index numbers_by_square on numbers (square);
  create table sums (sum integer);
  insert into sums select sum(square) from numbers`

const OPTIONS = { kind: 'feeds', scripts: [FIRST] } as const
const NEXT = { ...OPTIONS, scripts: [FIRST, SECOND] }

/** A database of the first schema, closed. */
function firstDatabase(): string {
  const file = join(temporaryDirectory(), FEEDS_FILE)
  const db = openDatabase(file, OPTIONS)
  db.run(
    `with recursive up (n) as (select 1 union all select n + 1 from up where n < ${ROWS})
     insert into numbers select n from up`,
  )
  db.close(true)
  return file
}

/** What is wrong with a database, which is to be of its version altogether; `null`: nothing. */
function wrongIn(db: Database): string | null {
  const [sum] = db.query('select sum(n) from numbers').values()
  if (Number(sum) !== (ROWS * (ROWS + 1)) / 2) return 'rows'
  const names = db.query('select name from sqlite_schema order by 1').values().flat()
  if (schemaVersion(db) === 1) return names.length === 1 ? null : 'schema 1'
  const isWhole =
    names.length === 3 &&
    db.query('select sum(square) = (select sum from sums) from numbers').values()[0]?.[0] === 1
  return isWhole ? null : 'schema 2'
}

/** Expects of a database that it is of the second schema once it is opened by this. */
function expectNewest(file: string): void {
  const db = openDatabase(file, NEXT)
  expect([schemaVersion(db), wrongIn(db)]).toEqual([2, null])
  db.close(true)
}

/** Starts a process that opens a database with the second schema, and says when it begins. */
const openInProcess = (file: string) =>
  Bun.spawn(
    [
      ...[process.execPath, '-e'],
      `import { openDatabase } from ${JSON.stringify(join(ROOT, 'src/sqlite/database.ts'))}
       process.stdout.write('begins')
       openDatabase(${JSON.stringify(file)}, ${JSON.stringify(NEXT)}).close(true)`,
    ],
    { stdout: 'pipe', stderr: 'pipe' },
  )

test('a new database has the newest schema and its application id', () => {
  const file = join(temporaryDirectory(), FEEDS_FILE)
  const db = openDatabase(file, NEXT)
  expect(schemaVersion(db)).toBe(2)
  expect(db.query('pragma application_id').values()).toEqual([[APPLICATION_IDS.feeds]])
  db.close(true)
})

describe('a database of an earlier schema', () => {
  test('is migrated to the newest once, with all its rows', () => {
    const file = firstDatabase()
    openDatabase(file, NEXT).close(true)
    const contents = readFileSync(file)
    expectNewest(file)
    expect(readFileSync(file).equals(contents)).toBeTrue()
  })

  test('is migrated by one of several processes that open it at once', async () => {
    const file = firstDatabase()
    const processes = [1, 2, 3].map(() => openInProcess(file))
    expect(await Promise.all(processes.map(({ exited }) => exited))).toEqual([0, 0, 0])
    expectNewest(file)
  })

  test('is unchanged when a script fails', () => {
    const file = firstDatabase()
    const scripts = [FIRST, `${SECOND}; insert into nowhere values (1)`]
    expect(() => openDatabase(file, { ...OPTIONS, scripts })).toThrow(/no such table: nowhere/)
    const db = openDatabase(file, OPTIONS)
    expect([schemaVersion(db), wrongIn(db)]).toEqual([1, null])
    db.close(true)
  })

  test('is refused by a reader, and is unchanged', () => {
    const file = firstDatabase()
    const contents = readFileSync(file)
    expect(() => openDatabase(file, { ...NEXT, isReader: true })).toThrow(
      new CommandError(
        `${file} was written by an earlier proxylist; serve, or a command that changes something, upgrades it`,
      ),
    )
    expect(readFileSync(file).equals(contents)).toBeTrue()
  })
})

describe('before keys or list are migrated', () => {
  const scripts = [FIRST, SECOND]
  const options = { kind: 'access', scripts } as const

  /** A database of keys of the first schema, with a number in it. */
  function firstKeys(number = 7): string {
    const file = join(temporaryDirectory(), ACCESS_FILE)
    insertNumber(file, number)
    return file
  }
  function insertNumber(file: string, number: number): void {
    const db = openDatabase(file, { ...options, scripts: [FIRST] })
    db.run('insert into numbers values (?)', [number])
    db.close(true)
  }
  const numbersIn = (file: string): unknown[] => {
    using db = new Database(file, { readonly: true })
    return [schemaVersion(db), ...db.query('select * from numbers').values().flat()]
  }
  /** Migrates a database; returns what was said on stderr. */
  function upgrade(file: string, more: Partial<OpenOptions> = {}): string[] {
    const said = spyOn(process.stderr, 'write').mockReturnValue(true)
    try {
      openDatabase(file, { ...options, ...more }).close(true)
      return said.mock.calls.map(([text]) => String(text))
    } finally {
      said.mockRestore()
    }
  }

  test('a copy is kept beside it, for its owner only, and named on stderr', () => {
    const file = firstKeys()
    const copy = `${file}.before-schema-2`
    writeFileSync(`${copy}.new`, 'a part that a killed process left')
    expect(upgrade(file)).toEqual([`kept a copy of ${file}, as it was before schema 2: ${copy}\n`])
    expect(numbersIn(copy)).toEqual([1, 7])
    expect(statSync(copy).mode & 0o777).toBe(0o600)
    expect(numbersIn(file)[0]).toBe(2)
  })

  test('a copy that cannot be made leaves the database unchanged', () => {
    const file = firstKeys()
    mkdirSync(`${file}.before-schema-2`)
    expect(() => upgrade(file)).toThrow()
    expect(numbersIn(file)).toEqual([1, 7])
  })
})

test('a list of schema 2 gets sets of types, and keeps all other values', () => {
  const file = join(temporaryDirectory(), PROXY_FILE)
  const before = openDatabase(file, { kind: 'proxies', scripts: LIST_SCRIPTS.slice(0, 2) })
  before.run(
    `insert into proxies (id, checked_at, ping_ms, type, anon, works, speed, services, country, city, ip_out)
     select value, 9, 8, value, 7, 6, 5, 4, 3, 2, '' from json_each('[0,1,2,3]')`,
  )
  const rest = 'checked_at, ping_ms, anon, works, speed, services, country, city, ip_out'
  const kept = before.query(`select ${rest} from proxies`).values()
  before.close(true)
  using db = openListFile(file)
  expect(db.query('select id, types from proxies order by id').values()).toEqual(
    TYPES.map((type, id) => [id, typeBits([type])]),
  )
  expect(db.query(`select ${rest} from proxies`).values()).toEqual(kept)
  expect(db.query('pragma integrity_check').values()).toEqual([['ok']])
})

test('keys of schema 3 stay, and all clients may use them', () => {
  const file = join(temporaryDirectory(), ACCESS_FILE)
  const before = openDatabase(file, { kind: 'access', scripts: ACCESS_SCRIPTS.slice(0, 3) })
  const key = ['a', hashKey('one'), 'pl_', 'label', 'note', null, 7, 8, null, null]
  before.run(`insert into keys values (${key.map(() => '?').join()})`, key)
  before.close(true)
  using db = openAccessFile(file)
  expect(db.query('select * from keys').values()).toEqual([[...key, '']])
})

describe('a file that this program must not open', () => {
  test.each([
    [
      'pragma user_version = 2',
      ' was written by a newer proxylist (schema 2, this one knows 1); use that version',
    ],
    [
      `pragma application_id = ${APPLICATION_IDS.access}`,
      ' is another database of proxylist under this name',
    ],
    ['pragma application_id = 1', ' is a database of another program'],
    ['pragma application_id = 0', ' is a database of another program'],
  ])('is refused and unchanged: %s', (pragmas, sentence) => {
    const file = firstDatabase()
    const db = new Database(file)
    for (const statement of pragmas.split('; ')) db.run(statement)
    db.close(true)
    const contents = readFileSync(file)
    const modes: Partial<OpenOptions>[] = [
      {},
      { isServer: true },
      { mustExist: true },
      { isReader: true },
    ]
    for (const mode of modes) {
      const open = (): unknown => openDatabase(file, { ...OPTIONS, ...mode })
      expect(open).toThrow(new CommandError(file + sentence))
    }
    expect(readFileSync(file).equals(contents)).toBeTrue()
  })
})
