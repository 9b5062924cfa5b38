/**
 * Usage in SQLite (src/sqlite/access/, contract B3, B6, B8, F3): what is written and what is removed when, also
 * of the use of keys by day. Several servers: `access/any-sequence.test.ts`.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { consumptionOf, keySubject } from '../../../src/access/entitlements.ts'
import { type DayUse, HISTORY_DAYS, unusedDay } from '../../../src/access/history.ts'
import type { LimitRule } from '../../../src/access/rate-limit.ts'
import { DAY_MS } from '../../../src/lib/time.ts'
import { ACCESS_FILE } from '../../../src/sqlite/data-directory.ts'
import { T0 } from '../../support/fixtures.ts'
import { dayWith, IP, type OpenUsage, openUsage, regular, TODAY } from '../../support/limits.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const K1 = keySubject('k1')

// ---------------------------------------------------------------------------------------------
// The file

describe('access.db', () => {
  test('that cannot be written fails the probe, which counts nothing', () => {
    const { db, usage, countRows } = openUsage()
    usage.probe()
    expect(countRows('batches')).toBe(0)
    db.run('pragma query_only = on')
    expect(() => usage.probe()).toThrow(/readonly/)
    db.run('pragma query_only = off')
    expect(() => usage.probe()).not.toThrow()
  })
})

const RULE: LimitRule = {
  subject: K1,
  window: { name: 'burst', limit: 3, ms: 60_000 },
  daily: null,
}

/** Usage in a file, and another process that holds its lock. */
function locked() {
  const dir = temporaryDirectory()
  openUsage(dir).close()
  const other = new Database(join(dir, ACCESS_FILE))
  let attempts = 0
  let waitedMs = 0
  return {
    other,
    attempts: () => attempts,
    /** A server whose clock moves by a millisecond in each pause, which calls `onPause`. */
    open(onPause: (n: number) => void, msMax = 250) {
      const pause = (): void => {
        attempts += 1
        waitedMs += 1
        onPause(attempts)
      }
      return openUsage(dir, {}, { msMax, pause, stopwatch: () => () => waitedMs })
    },
  }
}

describe('beside a saturated server', () => {
  test('a batch succeeds when only its last attempt gets the lock', () => {
    const { other, attempts, open } = locked()
    const { db, usage, read } = open(n => {
      if (n === 200) other.run('rollback')
    })
    db.run('pragma busy_timeout = 0')
    other.run('begin immediate')
    expect(usage.admit([{ rules: [RULE], nowMs: T0 }])).toMatchObject([{ kind: 'admitted' }])
    expect(attempts()).toBe(200)
    expect(read(K1).admissions).toEqual([T0])
    other.close()
  })

  test('an admission of another server counts when it comes during the wait for the lock', () => {
    const { other, open } = locked()
    const { db, usage } = open(() => {
      other.run(`insert into batches values (1, '[["key","k1",${T0},1,1]]')`)
      other.run('commit')
    })
    db.run('pragma busy_timeout = 0')
    other.run('begin immediate')
    const [decision] = usage.admit([{ rules: [RULE], nowMs: T0 }])
    expect(decision?.limits[0]?.remaining).toBe(1)
    other.close()
  })

  test('a lock that is never released fails the batch after its timeout', () => {
    const { other, attempts, open } = locked()
    const { db, usage, read } = open(() => {}, 30)
    db.run('pragma busy_timeout = 0')
    other.run('begin immediate')
    expect(() => usage.admit([{ rules: [RULE], nowMs: T0 }])).toThrow('database is locked')
    expect(attempts()).toBe(30)
    other.run('rollback')
    expect(read(K1).admissions).toEqual([])
    other.close()
  })
})

const FREE = regular({})
const NOON = 12

/** The days of a key, from so many days before today. */
const daysOf = ({ usage }: OpenUsage, id = 'k1', before = HISTORY_DAYS): readonly DayUse[] =>
  usage.history([id], TODAY - before, TODAY + before)[0]?.days ?? []
const seenOf = ({ usage }: OpenUsage, id = 'k1'): number | null =>
  usage.history([id], TODAY, TODAY)[0]?.lastSeenMs ?? null

const note = ({ usage }: OpenUsage, records: number, refused: number, nowMs = T0): void =>
  usage.note({ keyId: 'k1', records, refused, nowMs })

test('a flush that fails loses no use: it is shown, and written by the next flush', () => {
  const dir = temporaryDirectory()
  const [one, two] = [openUsage(dir), openUsage(dir)]
  one.addKeys('k1')
  one.admit(FREE, IP, T0)
  note(one, 3, 1)
  one.db.run('pragma query_only = on')
  expect(() => one.usage.flush()).toThrow(/readonly/)
  one.db.run('pragma query_only = off')
  const noted = (records: number, refused: number) => dayWith(TODAY, NOON, 1, { records, refused })
  expect(daysOf(one)).toEqual([noted(3, 1)]) // this reads it again
  note(one, 4, 0)
  expect(daysOf(one)).toEqual([noted(7, 1)])
  note(one, 0, 5, T0 + DAY_MS)
  note(one, 2, 0, T0 + DAY_MS)
  const all = [noted(7, 1), { ...unusedDay(TODAY + 1), records: 2, refused: 5 }]
  expect(daysOf(one)).toEqual(all)
  expect(daysOf(one, 'k2')).toEqual([])
  one.usage.flush()
  one.usage.flush()
  expect([daysOf(one), daysOf(two)]).toEqual([all, all])
})

test('a kill loses only the use by hour since the last flush', () => {
  const dir = temporaryDirectory()
  const [killed, other] = [openUsage(dir), openUsage(dir)]
  other.addKeys('k1')
  killed.admit(FREE, IP, T0)
  killed.usage.flush()
  killed.admit(FREE, IP, T0 + 1)
  expect(daysOf(killed)).toEqual([dayWith(TODAY, NOON, 2)])
  expect(daysOf(other)).toEqual([dayWith(TODAY, NOON, 1)])
  expect([seenOf(killed), seenOf(other)]).toEqual([T0 + 1, T0 + 1])
  expect(other.read(K1).requests).toBe(2) // limits lose nothing
})

describe('networks of a day', () => {
  const served = (...subnets: number[]) => ({ ip: IP, subnets, atMs: T0, nowMs: T0 })
  /** How many networks the answers of the day have had. */
  const countOf = ({ usage }: Pick<OpenUsage, 'usage'>) =>
    usage.countNetworks([{ subject: K1, day: TODAY }])[0]?.served

  test('that were rolled back are not counted', () => {
    const { usage, db, ...one } = openUsage()
    db.run(`create temp trigger broken before insert on networks when new.network = '9'
            begin select raise(abort, 'no'); end`)
    const caller = regular({ subnets: 4 })
    const batch = [served(1), served(2), served(9)].map(each => consumptionOf(caller, each))
    expect(() => usage.consume(batch)).toThrow('no')
    one.consume(caller, served(3, 4))
    expect(countOf({ usage })).toBe(2)
  })
})
