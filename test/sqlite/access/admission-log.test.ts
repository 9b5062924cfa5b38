/**
 * The log of admissions and its snapshot (src/sqlite/access/admission-log.ts, subjects.ts): their form in
 * the file, the length of the log, and what a start reads. `access/any-sequence.test.ts` tests that no admission is lost.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { keySubject } from '../../../src/access/entitlements.ts'
import type { Admission } from '../../../src/access/rate-limit.ts'
import { StoreError } from '../../../src/lib/errors.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/lib/time.ts'
import { ACCESS_SCRIPTS } from '../../../src/sqlite/access/file.ts'
import { T0 } from '../../support/fixtures.ts'
import { DEMO, openUsage, TODAY } from '../../support/limits.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const WINDOW = { name: 'burst', limit: 3, ms: MINUTE_MS }
/** An admission of a key, which is refused after three in a minute. */
const of = (id: string, nowMs = T0): Admission => ({
  rules: [{ subject: keySubject(id), window: WINDOW, daily: null }],
  nowMs,
})

/** What a file holds. */
const batchesIn = (db: Database): unknown[][] =>
  db.prepare('select id, admissions from batches order by id').values()
const chunksIn = (db: Database): unknown[][] =>
  db.prepare('select chunk, through, usage from snapshot order by chunk').values()
const idsIn = (db: Database): unknown[] => batchesIn(db).map(([id]) => id)

describe('the log', () => {
  test('has a row for the admissions of each transaction, in their order', () => {
    const { db, usage } = openUsage()
    usage.admit([of('a'), of('b'), of('a', T0 + 1)])
    usage.admit([of('a', T0 + 2), of('a', T0 + 3)]) // the last is refused
    expect(batchesIn(db)).toEqual([
      [1, `[["key","a",${T0},1,1],["key","b",${T0},1,1],["key","a",${T0 + 1},2,2]]`],
      [2, `[["key","a",${T0 + 2},3,3]]`],
    ])
  })
})

describe('the length of the log', () => {
  test('stays short, however many admissions and servers there are', () => {
    const dir = temporaryDirectory()
    const options = { chunks: 4, chunkChars: 500, removeEvery: 8 }
    const servers = [openUsage(dir, options), openUsage(dir, options)]
    for (let n = 0; n < 2000; n += 1) {
      servers[n % 2]?.usage.admit([of(`key-${n % 40}`, T0 + n * MINUTE_MS)])
    }
    const [one] = servers
    const db = one?.db ?? openUsage().db
    const chars = batchesIn(db).join('').length
    const chunkChars = Math.max(...chunksIn(db).map(([, , usage]) => String(usage).length))
    expect(chars).toBeGreaterThan(500)
    expect(chars).toBeLessThan(4 * Math.max(500, 2 * chunkChars) * 2)
  })

  test('is never zero: the last row stays, so that no id is reused', () => {
    const { db, usage, prune } = openUsage(null, { chunks: 2, chunkChars: 1 })
    for (let n = 0; n < 9; n += 1) usage.admit([of('a', T0 + n * DAY_MS)])
    prune(T0 + 9 * DAY_MS)
    expect(idsIn(db)).toEqual([9])
    usage.admit([of('a', T0 + 9 * DAY_MS)])
    expect(idsIn(db)).toContain(10)
  })
})

describe('chunks', () => {
  test('are the same in all versions: 256, by this hash', () => {
    const { db, usage, prune } = openUsage()
    usage.admit([of('a'), of('k7x2m9qa'), of('198.51.100.7', T0 + 3 * HOUR_MS)])
    usage.admit([of('b', T0 + 3 * HOUR_MS)])
    prune(T0 + 3 * HOUR_MS)
    const chunks = chunksIn(db).filter(([, , usage]) => usage !== '[]')
    expect(chunksIn(db).length).toBe(256)
    expect(chunks.map(([chunk, , usage]) => [chunk, JSON.parse(String(usage))[0][1]])).toEqual([
      [32, 'a'],
      [59, 'k7x2m9qa'],
      [233, 'b'],
      [243, '198.51.100.7'],
    ])
  })
})

describe('a prune', () => {
  test.each([
    ['a log', { chunks: 8, chunkChars: 1e9 }],
    ['a log and a snapshot', { chunks: 8, chunkChars: 64 }],
    ['a snapshot', { chunks: 1, chunkChars: 1 }],
  ])('leaves no removed address in %s', (_, options) => {
    const { db, usage, admit, prune, read } = openUsage(null, options)
    for (let n = 0; n < 50; n += 1) admit(DEMO, `192.0.2.${n}`, T0)
    usage.admit([of('a')])
    const later = T0 + 2 * HOUR_MS + 1
    for (let n = 0; n < 200; n += 1) usage.admit([of(`b-${n}`, later)])
    prune(later)
    const text = [...batchesIn(db), ...chunksIn(db)].join('\n')
    expect(text).not.toContain('192.0.2.')
    expect(text).toContain('"a"')
    expect(read({ kind: 'demo', id: '192.0.2.7' }).admissions).toEqual([])
  })
})

describe('a transaction that fails', () => {
  const fail = (db: Database, statement: string): void =>
    void db.run(
      `create temp trigger broken before ${statement} begin select raise(abort, 'broken'); end`,
    )

  test('removes no usage while it prunes', () => {
    const { db, usage, prune, read } = openUsage(null, { chunks: 2 })
    usage.admit([of('old')])
    usage.admit([of('a', T0 + 3 * DAY_MS)])
    fail(db, 'delete on batches')
    expect(() => prune(T0 + 3 * DAY_MS)).toThrow('broken')
    expect(read(keySubject('old')).admissions).toEqual([T0])
    db.run('drop trigger broken')
    prune(T0 + 3 * DAY_MS)
    expect(read(keySubject('old')).admissions).toEqual([])
    expect(idsIn(db)).toEqual([2])
  })
})

describe('a migration from schema 1', () => {
  test('keeps usage that limits count, and the days of charts in their new table', () => {
    const db = new Database(':memory:')
    const [schema1 = '', ...later] = ACCESS_SCRIPTS
    db.run(schema1)
    const usage = `[["key","a",2,[${T0},1]]]`
    const history = JSON.stringify([['a', T0, [[TODAY, 7, 1, 12, [3, 2]]]]])
    db.run('insert into snapshot values (0, 1, ?, ?)', [usage, history])
    db.run('insert into days values (?, ?, 1, 2, 3, ?)', [TODAY - 1, 'a', '[0,5]'])
    const batch = `["use","a",${T0},1,0],["key","b",${T0},1,1],["moved","b",${T0},${TODAY}]`
    db.run('insert into batches values (2, ?)', [`[${batch}]`])
    for (const script of later) db.run(script)
    expect(batchesIn(db)).toEqual([[2, `[["key","b",${T0},1,1]]`]])
    expect(chunksIn(db)).toEqual([[0, 1, usage]])
    expect(db.prepare('select * from days').values()).toEqual([[TODAY - 1, 'a', 1, 2, 3, '[0,5]']])
    db.close()
  })

  test('skips the use of keys that a server of schema 1 still logs', () => {
    const { db, usage, read } = openUsage()
    const batch = `["use","a",${T0},1,0],["key","b",${T0},1,1],["moved","b",${T0},${TODAY}]`
    db.run('insert into batches values (1, ?)', [`[${batch}]`])
    usage.admit([of('b', T0 + 1)])
    expect(read(keySubject('b'))).toMatchObject({ admissions: [T0, T0 + 1], requests: 2 })
  })
})

describe('a start', () => {
  test.each([
    [`update batches set admissions = substr(admissions, 2)`],
    [`update batches set admissions = replace(admissions, 'key', 'kex')`],
    [`update batches set admissions = replace(admissions, '${T0}', 'null')`],
    [`insert into snapshot values (0, 1, '{}')`],
    [`insert into snapshot values (256, 1, '[]')`],
  ])('on usage that cannot be read is a store failure: %s', sql => {
    const dir = temporaryDirectory()
    const { db, usage } = openUsage(dir)
    usage.admit([of('a')])
    db.run(sql)
    const another = openUsage(dir)
    const failure = (() => {
      try {
        return another.usage.admit([of('a')])
      } catch (error) {
        return error
      }
    })()
    expect(failure).toBeInstanceOf(StoreError)
    expect(failure).toMatchObject({
      isDamage: true,
      message: expect.stringContaining('is damaged'),
    })
    expect(another.db.inTransaction).toBe(false)
  })
})
