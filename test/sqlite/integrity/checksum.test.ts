/** Holds that the checksum follows every change of the list, and that a check finds any other. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { systemClock } from '../../../src/lib/clock.ts'
import { isChecksumRight } from '../../../src/sqlite/integrity/checksum.ts'
import { checkListFile, LIST_SCHEMA, openListFile } from '../../../src/sqlite/proxies/store.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { fillList, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { proxiesOf } from '../../support/rows.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const AT_T0 = { nowMs: T0, addressBits: 32 } as const

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
  return { dir, file: list.file, list }
}

describe('the checksum is right after', () => {
  const CHANGES: readonly (readonly [string, (list: List) => void])[] = [
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
    ['replacing the list', list => void list.begin('replace').commit()],
    [
      'so many rows that indexes are built again',
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
    expect(isChecksumRight(list.db)).toBeTrue()
    list.close()
    expect(checkListFile(file, systemClock)).toEqual([])
  })
})

/** Changes rows behind the back of the triggers, as damage does. */
const behind = (file: string, sql: string): void => {
  const db = openListFile(file, systemClock)
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
    expect(checkListFile(file, systemClock)).toEqual(['the rows do not match the checksum'])
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
      expect(checkListFile(file, systemClock)[0]).toBe(found as string)
    }
  })
})

test('a check finds every flipped bit that changes an answer', () => {
  const { dir, file, list } = listWith(ROWS)
  list.close()
  const whole = readFileSync(file)
  const ask = (): string => {
    const { proxies, close } = openList(dir, { isServer: true, mustExist: true })
    const filters = [
      NO_FILTER,
      { ...NO_FILTER, countries: ['DE'] },
      { ...NO_FILTER, port: 82 },
      { ...NO_FILTER, cities: ['город 4'] },
    ]
    const found = filters.map(filter => [
      proxiesOf(proxies.finder.find(filter, AT_T0)),
      proxies.records.findQuickly(filter, AT_T0, proxies.version()),
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
      problems = checkListFile(file, systemClock)
    } catch (error) {
      problems = [String(error)]
    }
    if (problems.length === 0) expect({ at, answers: ask() }).toEqual({ at, answers: right })
  }
})

describe('the schema', () => {
  // A check compares the text of a list's schema: a change needs a version of its own.
  test('is what existing lists were made with', () => {
    const hash = (text: string): number => Bun.hash.xxHash32(text)
    const [first = '', second = '', ...others] = LIST_SCHEMA
    const released = first + second.replace(/^--.*/, '').trimEnd() // without its first comment
    expect([hash(released), ...others.map(hash)]).toEqual([
      1_676_606_722, 3_502_827_175, 989_325_160,
    ])
  })

  test('of a new list reads no clock', () => {
    const clocks =
      /\b(?:unixepoch|julianday|strftime|timediff|date(?:time)?|time)\s*\(|current_(?:time|date)|'now'/i
    const { db, close } = openList(null)
    const texts = db
      .query<{ sql: string }, []>('select sql from sqlite_schema where sql is not null')
      .all()
    close()
    expect(texts.length).toBeGreaterThan(10)
    expect(texts.filter(({ sql }) => clocks.test(sql))).toEqual([])
    expect(LIST_SCHEMA.filter(script => clocks.test(script))).toEqual([LIST_SCHEMA[1] ?? ''])
  })
})
