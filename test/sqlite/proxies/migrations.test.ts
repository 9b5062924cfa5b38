/**
 * Holds what becomes of lists that earlier releases made: the same rows, a right checksum, and a
 * file stamp exactly where there was one, so that an upgrade costs no check and no 503.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { CommandError, StoreError } from '../../../src/lib/errors.ts'
import { isChecksumRight } from '../../../src/sqlite/integrity/checksum.ts'
import { isStamped } from '../../../src/sqlite/integrity/file-stamp.ts'
import { APPLICATION_IDS, schemaVersion } from '../../../src/sqlite/migrate.ts'
import { checkListFile, LIST_SCHEMA } from '../../../src/sqlite/proxies/store.ts'
import { openServerList } from '../../../src/sqlite/server-list.ts'
import { openList, PROXY_FILE } from '../../../src/sqlite/stores.ts'
import { NO_FILTER, T0 } from '../../support/fixtures.ts'
import { proxylist } from '../../support/program.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const NEWEST = LIST_SCHEMA.length
const ROWS = 300
const clock = () => T0
const AT_T0 = { nowMs: T0, addressBits: 32 } as const

/** Every form that a column may have. */
const FILL = `
  insert into cities values (1, 'Москва', 'Moscow'), (2, 'Пермь', ''), (3, 'Орёл and a much longer name', '');
  with recursive n (i) as (select 0 union all select i + 1 from n where i + 1 < ${ROWS})
  insert into proxies select
    (10 * 16777216 + i) * 65536 + 80, ${T0 / 1000} - i,
    case i % 7 when 0 then 9007199254740991 else i end, i % 4, i % 4, i % 102 - 1, i * 1000 - 1,
    i % 32, i % 3 * 133, i % 4,
    case i % 3 when 0 then '' when 1 then 3221225985 + i else '2001:db8:0:1:2:3:4:' || i end
  from n`

/** Where a list of each schema with a checksum holds its stamp. */
const STAMP = { 2: 'digest set written_at', 3: 'checksum set stamped_at' }

type OldList = { version: 1 | 2 | 3; isStamped?: boolean; damage?: string }

/** A data directory with a list as the release of a schema version made it, and left it. */
function oldList({ version, isStamped = true, damage }: OldList) {
  const dir = temporaryDirectory()
  const file = join(dir, PROXY_FILE)
  const db = new Database(file, { create: true, strict: true })
  db.run('pragma page_size = 4096')
  db.run('pragma journal_mode = wal')
  for (const script of LIST_SCHEMA.slice(0, version)) db.run(script)
  db.run(`pragma application_id = ${APPLICATION_IDS.proxies}`)
  db.run(`pragma user_version = ${version}`)
  db.run(FILL)
  if (damage !== undefined) db.run(damage)
  if (version !== 1) db.run(`update ${STAMP[version]} = ?`, [T0])
  db.run('pragma wal_checkpoint(truncate)')
  db.close(true)
  const seconds = T0 / 1000 - Number(!isStamped)
  utimesSync(file, seconds, seconds)
  return { dir, file }
}

const TRIGGER = /^create trigger (?:if not exists )?proxies_update [\s\S]*?^ {2}end;/m
/** Changes a row without the trigger that follows such changes. */
const behind = (version: 2 | 3): string => `drop trigger proxies_update;
  update proxies set speed = speed + 1 where id = (select min(id) from proxies);
  ${TRIGGER.exec(LIST_SCHEMA[version - 1] ?? '')?.[0]}`

/** All rows of the tables that hold the list. */
function contentOf(file: string): unknown[] {
  using db = new Database(file, { readonly: true })
  return ['proxies', 'cities'].map(table => db.query(`select * from ${table} order by id`).all())
}
const numbersOf = (db: Database, columns: string, table: string): unknown[] =>
  db.query(`select ${columns} from ${table}`).values()

describe.each([1, 2, 3] as const)('a list of schema %d', version => {
  test('has the same rows and cities after it, and a right checksum', () => {
    const { dir, file } = oldList({ version })
    const before = contentOf(file)
    expect(before.map(rows => (Array.isArray(rows) ? rows.length : 0))).toEqual([ROWS, 3])
    const list = openList(dir, { clock })
    expect([schemaVersion(list.db), isChecksumRight(list.db)]).toEqual([NEWEST, true])
    const found = list.proxies.records.findAll(NO_FILTER, AT_T0)
    expect(found).toHaveLength(ROWS)
    // What names are compared by is not stored: no new import is needed when it changes.
    const cities = ['ОРЕЛ AND A MUCH LONGER NÂME']
    const there = list.proxies.endpoints.findAll({ ...NO_FILTER, cities }, AT_T0)
    expect(there).toHaveLength(ROWS / 4)
    list.close()
    expect(contentOf(file)).toEqual(before)
    expect(checkListFile(file, clock)).toEqual([])
  })

  test('keeps its checksum right from then on', async () => {
    const { dir, file } = oldList({ version })
    const list = openList(dir, { clock })
    for (const sql of [
      'delete from proxies where id % 3 = 0',
      "update cities set name = 'Köln' where id = 2",
    ]) {
      list.db.run(sql)
      expect(isChecksumRight(list.db)).toBeTrue()
    }
    list.settle()
    list.close()
    expect(checkListFile(file, clock)).toEqual([])
  })

  test('that was damaged before is found damaged after', () => {
    // Of schema 1 there is no checksum that could be wrong: an index is.
    const damage =
      version !== 1
        ? behind(version)
        : `drop index proxies_by_port; create index proxies_by_port on proxies (id & 65535)`
    const { dir, file } = oldList({ version, damage })
    openList(dir, { clock }).close()
    expect(checkListFile(file, clock)).toEqual([
      version !== 1 ? 'the rows do not match the checksum' : 'the schema is not what it should be',
    ])
  })

  test('is migrated by one of many processes that open it at once', async () => {
    const { dir, file } = oldList({ version })
    const outcomes = await Promise.all(
      [1, 2, 3].map(() => proxylist(['list', 'count=1', '--data', dir])),
    )
    const right = { exitCode: 0, stdout: '10.0.0.0:80\n', stderr: '' }
    expect(outcomes).toEqual([right, right, right])
    expect(checkListFile(file, clock)).toEqual([])
  })
})

describe('a list of schema 2 that lacks a trigger', () => {
  const WITHOUT = 'drop trigger proxies_update;'

  test('has all triggers after it', () => {
    const { dir, file } = oldList({ version: 2, damage: WITHOUT })
    openList(dir, { clock }).close()
    expect(checkListFile(file, clock)).toEqual([])
  })

  test('is found damaged when a row has changed meanwhile, and can be replaced', async () => {
    const damage = `${WITHOUT} update proxies set works = 5 where id % 2 = 0`
    const { dir, file } = oldList({ version: 2, isStamped: false, damage })
    const stdin = 'http://192.0.2.9:80\n'
    const { exitCode, stderr } = await proxylist(['import', '-', '--data', dir], { stdin })
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('is damaged')])
    const replaced = await proxylist(['import', '-', '--replace', '--data', dir], { stdin })
    expect(replaced).toMatchObject({ exitCode: 0 })
    expect(checkListFile(file, clock)).toEqual([])
  })
})

describe.each([2, 3] as const)('the file stamp of a list of schema %d', version => {
  test('stays, and is larger than before', () => {
    const { dir, file } = oldList({ version })
    const list = openList(dir, { clock })
    expect(isStamped(list.db, file)).toBeTrue()
    const [[at] = []] = list.db.query('select stamped_at from checksum').values()
    expect(at).toBe(T0 + 1)
    list.close()
  })

  test('is not given to a list that had none', () => {
    const { dir, file } = oldList({ version, isStamped: false })
    const list = openList(dir, { clock })
    expect(isStamped(list.db, file)).toBeFalse()
    list.close()
  })

  test('does not hide a list that proves damaged', () => {
    const { dir, file } = oldList({ version, damage: behind(version) })
    openList(dir, { clock }).close()
    expect(checkListFile(file, clock)).not.toEqual([])
    const list = openList(dir, { clock })
    expect(isStamped(list.db, file)).toBeFalse()
    list.close()
  })

  test('is over the same numbers of the rows', () => {
    const { dir, file } = oldList({ version })
    using old = new Database(file, { readonly: true })
    const before =
      version === 2
        ? numbersOf(old, 'rows, sum, cities', 'digest')
        : numbersOf(old, 'rows, proxies, cities', 'checksum')
    old.close()
    const list = openList(dir, { clock })
    expect(numbersOf(list.db, 'rows, proxies, cities', 'checksum')).toEqual(before)
    expect(numbersOf(list.db, 'count(*)', "sqlite_schema where name = 'digest'")).toEqual([[0]])
    list.close()
  })
})

describe('a server that starts on', () => {
  const NOT_CHECKED = /was not closed properly and is being checked; answering 503/
  const find = (list: ReturnType<typeof openServerList>) =>
    list.findEndpoints(NO_FILTER, { nowMs: T0, addressBits: 32 }).length

  /** A server's list, and what was said. */
  function serverOn({ dir }: { dir: string }) {
    const said: string[] = []
    const list = openServerList(dir, 'the service', clock, sentence => void said.push(sentence))
    list.tick() // as `serve` does at once
    return { list, said, [Symbol.dispose]: list.close }
  }

  test.each([2, 3] as const)(
    'a stamped list of schema %d answers the first request, and says nothing',
    version => {
      using server = serverOn(oldList({ version }))
      expect(server.list.version()).toBe('0.0')
      expect(find(server.list)).toBe(ROWS)
      server.list.tick()
      expect(server.said).toEqual([])
    },
  )

  test.each([
    ['a list of schema 2 without a stamp', { version: 2, isStamped: false }],
    ['a list of schema 3 without a stamp', { version: 3, isStamped: false }],
    ['a list of schema 1', { version: 1 }],
  ] as const)('%s checks it before it answers', async (_, old) => {
    using server = serverOn(oldList(old))
    expect(() => find(server.list)).toThrow(StoreError)
    expect(server.said).toEqual([expect.stringMatching(NOT_CHECKED)])
    while (server.said.length === 1) await Bun.sleep(5)
    expect(server.said[1]).toEndWith('works again')
    expect(find(server.list)).toBe(ROWS)
  })
})

describe('a list of a newer schema', () => {
  const NEWER = `was written by a newer proxylist (schema ${NEWEST + 1}, this one knows ${NEWEST}); use that version`

  test('is refused, and left as it is', async () => {
    const { dir, file } = oldList({ version: 2 })
    const db = new Database(file)
    db.run(`pragma user_version = ${NEWEST + 1}`)
    db.close(true)
    const before = readFileSync(file)
    const expected = new CommandError(`${file} ${NEWER}`)
    expect(() => openList(dir)).toThrow(expected)
    expect(() => openServerList(dir, 'the service', clock, () => {})).toThrow(expected)
    for (const args of [['list'], ['import', '-'], ['import', '-', '--replace'], ['serve']]) {
      const outcome = await proxylist([...args, '--data', dir], { stdin: 'http://192.0.2.9:80\n' })
      expect(outcome).toEqual({ exitCode: 1, stdout: '', stderr: `proxylist: ${file} ${NEWER}\n` })
    }
    expect(readFileSync(file)).toEqual(before)
  })
})
