/** Holds that the digest follows every change of the list, and that a check sees any other. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Unavailable } from '../../../src/api/errors.ts'
import { openList, PROXY_FILE } from '../../../src/app.ts'
import { isDigestRight } from '../../../src/sqlite/integrity/checksum.ts'
import { emptyLog, isSealed, logBytes, markOf } from '../../../src/sqlite/integrity/file-stamp.ts'
import { checkListFile, openProxyFile, PROXY_SCHEMA } from '../../../src/sqlite/proxies/store.ts'
import { fillList, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = Array.from({ length: 300 }, (_, i) => ({
  ip: `10.0.${i >> 4}.${i & 255}:${80 + (i % 5)}`,
  type: 'socks5',
  age: i,
  country: ['de', 'us', undefined][i % 3],
  city: i % 2 === 0 ? `Город ${i % 20}` : undefined,
  city_en: i % 4 === 0 ? `City ${i % 20}` : undefined,
  ip_out: ['', '192.0.2.7', '2001:db8:0:1:2:3:4:5'][i % 3],
  ping: i % 7 === 0 ? undefined : i / 1000,
  speed: i * 1000,
  works: i % 101,
}))

function listWith(rows: readonly TestRow[]) {
  const dir = temporaryDirectory()
  const list = openList(dir)
  fillList(list, rows)
  return { dir, file: join(dir, PROXY_FILE), list }
}

describe('the digest is right after', () => {
  const CHANGES: readonly (readonly [string, (list: ReturnType<typeof openList>) => void])[] = [
    ['an import', () => {}],
    [
      'an update',
      list =>
        fillList(
          list,
          ROWS.map(row => ({ ...row, age: 0, works: 5 })),
        ),
    ],
    [
      'new names of cities',
      list => fillList(list, [{ ...ROWS[0], age: 0, city: 'Ёж, нет'.slice(0, 2) }]),
    ],
    ['removing old rows', list => void list.proxies.removeOlderThan(T0 - 100_000)],
    ['moving all checks', list => list.proxies.shiftChecks(7)],
    [
      'a change by another program',
      list => list.db.run(`update proxies set ip_out = 'fe80::1', speed = -1 where id % 2 = 0`),
    ],
    ['removing everything', list => list.db.run('delete from proxies')],
    [
      'replacing the list',
      list => {
        const target = list.beginImport(true)
        target.commit()
      },
    ],
    [
      'so many rows that indexes are built anew',
      list =>
        fillList(
          list,
          Array.from({ length: 20_100 }, (_, i) => ({
            ip: `11.${i >> 8}.${i & 255}.1:1`,
            type: 'http',
          })),
        ),
    ],
  ]
  test.each(CHANGES)('%s', (_, change) => {
    const { file, list } = listWith(ROWS)
    change(list)
    expect(isDigestRight(list.db)).toBeTrue()
    list.close()
    expect(checkListFile(file)).toEqual([])
  })
})

/** Changes rows behind the back of the triggers, as damage does. */
const behind = (file: string, sql: string): void => {
  const db = openProxyFile(file)
  const triggers = db
    .query<{ name: string; sql: string }, []>(
      `select name, sql from sqlite_schema where type = 'trigger'`,
    )
    .all()
  for (const { name } of triggers) db.run(`drop trigger ${name}`)
  db.run(sql)
  for (const trigger of triggers) db.run(trigger.sql)
  db.close(true)
}
const DAMAGES = [
  ...['checked_at', 'ping_ms', 'type', 'anon', 'works', 'speed', 'services', 'country', 'city'].map(
    column =>
      `update proxies set ${column} = ${column} + 1 where rowid = (select min(id) from proxies)`,
  ),
  `update proxies set ip_out = '2001:db8:0:1:2:3:4:6' where ip_out = '2001:db8:0:1:2:3:4:5'`,
  `update proxies set ip_out = cast(ip_out as blob) where typeof(ip_out) = 'text' and ip_out != ''`,
  `update proxies set speed = speed + case id % 2 when 0 then 8 else -8 end
     where id in (select id from proxies order by id limit 2)`,
  'delete from proxies where id = (select max(id) from proxies)',
  `insert into proxies select id + 1, checked_at, ping_ms, type, anon, works, speed, services,
     country, city, ip_out from proxies limit 1`,
  `update cities set name = 'Гopoд' where id = 1`,
  `update cities set name_en = name_en || ' ' where id = 2`,
  'delete from cities where id = 3',
]
describe('a check finds', () => {
  test.each(DAMAGES)('%s', sql => {
    const { file, list } = listWith(ROWS)
    list.close()
    behind(file, sql)
    expect(checkListFile(file)).toEqual(['the rows do not match the digest'])
  })

  test('a missing index, and one of another form', () => {
    for (const [sql, found] of [
      ['drop index proxies_by_age', 'the schema is not what it should be'],
      ['drop trigger proxies_insert', 'the schema is not what it should be'],
      ['create index mine on proxies (speed)', undefined],
    ] as const) {
      const { file, list } = listWith(ROWS)
      list.db.run(sql)
      list.close()
      expect(checkListFile(file)[0]).toBe(found as string)
    }
  })
})

test('a check finds every flipped bit that changes an answer', () => {
  const { dir, file, list } = listWith(ROWS)
  list.close()
  const whole = readFileSync(file)
  const ask = (): string => {
    const { proxies, close } = openList(dir, true, true)
    const filters = [
      NO_FILTER,
      { ...NO_FILTER, countries: ['DE'] },
      { ...NO_FILTER, port: 82 },
      { ...NO_FILTER, cities: ['город 4'] },
    ]
    const found = filters.map(filter => [
      proxies.select(filter, false, T0),
      proxies.selectQuickly(filter, false, T0),
    ])
    close()
    return Bun.inspect(found, { depth: 9 })
  }
  const right = ask()
  const step = 1511 // a prime: another bit and column each time
  for (let at = 101; at < whole.length; at += step) {
    const bytes = Buffer.from(whole)
    bytes[at] = (bytes[at] ?? 0) ^ (1 << (at % 8))
    for (const end of ['-wal', '-shm']) rmSync(file + end, { force: true })
    writeFileSync(file, bytes)
    let problems: string[] = []
    try {
      problems = checkListFile(file)
    } catch (error) {
      problems = [String(error)]
    }
    if (problems.length === 0) expect({ at, answers: ask() }).toEqual({ at, answers: right })
  }
})

describe('the seal', () => {
  test('is on a new list, after an import, and after a check', () => {
    const { file, list } = listWith(ROWS)
    expect(isSealed(list.db, file)).toBeTrue()
    utimesSync(file, T0 / 1000, T0 / 1000)
    expect(isSealed(list.db, file)).toBeFalse()
    expect(checkListFile(file)).toEqual([])
    expect(isSealed(list.db, file)).toBeTrue()
    list.close()
    const empty = openList(temporaryDirectory())
    expect(isSealed(empty.db, empty.file)).toBeTrue()
    empty.close()
  })

  test('does not come off by opening, reading and closing', () => {
    const { dir, file, list } = listWith(ROWS)
    list.close()
    for (const _ of [1, 2]) {
      const again = openList(dir)
      expect(again.proxies.select(NO_FILTER, false, T0)).toHaveLength(300)
      expect(isSealed(again.db, file)).toBeTrue()
      again.close()
    }
  })

  test('stays when the log is emptied after a reader has kept it', () => {
    const { dir, file, list } = listWith(ROWS)
    const reader = openList(dir)
    reader.db.run('begin')
    expect(reader.proxies.isEmpty()).toBeFalse()
    fillList(list, [{ ip: '192.0.2.1:80', type: 'http' }])
    list.settle()
    expect(logBytes(file)).toBeGreaterThan(0)
    reader.db.run('commit')
    emptyLog(list.db, file)
    expect([logBytes(file), isSealed(list.db, file)]).toEqual([0, true])
    reader.close()
    list.close()
  })

  test('of files that cannot be looked at is no failure of ours', () => {
    const loop = join(temporaryDirectory(), 'loop')
    symlinkSync(loop, loop)
    expect(() => markOf(loop)).toThrow(Unavailable)
  })

  test('comes off what a check finds damaged', () => {
    const { file, list } = listWith(ROWS)
    list.db.run('update digest set sum = sum + 1')
    list.settle()
    expect(isSealed(list.db, file)).toBeTrue()
    expect(checkListFile(file)).not.toEqual([])
    expect(isSealed(list.db, file)).toBeFalse()
    list.close()
  })
})

test('the schema is what existing lists were made with', () => {
  // A check compares the text of a list's schema: a change needs a version of its own.
  const text = PROXY_SCHEMA.join('')
  expect([PROXY_SCHEMA.length, Bun.hash.xxHash32(text)]).toEqual([2, 1_676_606_722])
})
