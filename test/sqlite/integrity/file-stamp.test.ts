/**
 * Holds the file stamp: which lists have it, that each is larger than the one before whatever the
 * clock does, and that no process takes a change of another process of ours for a foreign one.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { statSync, symlinkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { systemClock } from '../../../src/lib/clock.ts'
import { StoreError } from '../../../src/lib/errors.ts'
import {
  emptyWal,
  fingerprintOf,
  isStamped,
  stamp,
  walBytes,
  watchFile,
} from '../../../src/sqlite/integrity/file-stamp.ts'
import { checkListFile } from '../../../src/sqlite/proxies/store.ts'
import { type List, openList } from '../../../src/sqlite/stores.ts'
import { addList, fillList, NO_FILTER, T0, type TestRow } from '../../support/fixtures.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const ROWS: readonly TestRow[] = Array.from({ length: 300 }, (_, i) => ({
  ip: `10.0.${i >> 8}.${i & 255}:80`,
  type: 'http',
  age: i,
}))

function listWith(rows: readonly TestRow[]) {
  const dir = temporaryDirectory()
  const list = openList(dir)
  fillList(list, rows)
  return { dir, file: list.file, list }
}

/** The stamp that a list holds. */
const stampedAt = ({ db }: List): number =>
  db.query<{ at: number }, []>('select stamped_at as at from checksum').get()?.at ?? 0

describe('the stamp', () => {
  test('is on a new list, after an import, and after a check', () => {
    const { file, list } = listWith(ROWS)
    expect(isStamped(list.db, file)).toBeTrue()
    utimesSync(file, T0 / 1000, T0 / 1000)
    expect(isStamped(list.db, file)).toBeFalse()
    expect(checkListFile(file, systemClock)).toEqual([])
    expect(isStamped(list.db, file)).toBeTrue()
    list.close()
    const empty = openList(temporaryDirectory())
    expect(isStamped(empty.db, empty.file)).toBeTrue()
    empty.close()
  })

  test('stays while the list is opened, read and closed', () => {
    const { dir, file, list } = listWith(ROWS)
    list.close()
    for (const _ of [1, 2]) {
      const again = openList(dir)
      const found = again.proxies.records.findAll(NO_FILTER, { nowMs: T0, addressBits: 32 })
      expect(found).toHaveLength(300)
      expect(isStamped(again.db, file)).toBeTrue()
      again.close()
    }
  })

  test('stays when the WAL is emptied after a reader has kept it', () => {
    const { dir, file, list } = listWith(ROWS)
    const reader = openList(dir)
    reader.db.run('begin')
    expect(reader.proxies.isEmpty()).toBeFalse()
    fillList(list, [{ ip: '192.0.2.1:80', type: 'http' }])
    list.settle()
    expect(walBytes(file)).toBeGreaterThan(0)
    reader.db.run('commit')
    emptyWal(list.db, file, T0)
    expect([walBytes(file), isStamped(list.db, file)]).toEqual([0, true])
    reader.close()
    list.close()
  })

  test('is taken from a list that a check finds damaged', () => {
    const { file, list } = listWith(ROWS)
    list.db.run('update checksum set proxies = proxies + 1')
    list.settle()
    expect(isStamped(list.db, file)).toBeTrue()
    expect(checkListFile(file, systemClock)).not.toEqual([])
    expect(isStamped(list.db, file)).toBeFalse()
    list.close()
  })
})

describe('the stamp, while another process writes,', () => {
  test('is missing until that process stamps the list', () => {
    const { dir, file, list } = listWith(ROWS)
    const writer = openList(dir)
    list.proxies.removeOlderThan(T0 - 100_000) // a change that is not stamped yet
    writer.db.run('begin immediate')
    stamp(list.db, file, T0 + 60_000)
    expect(isStamped(list.db, file)).toBeFalse()
    writer.db.run('commit')
    writer.settle()
    expect(isStamped(list.db, file)).toBeTrue()
    writer.close()
    list.close()
  })

  test('is not set by a check: the file would have it before the WAL is copied', () => {
    const { dir, file, list } = listWith(ROWS)
    const copier = openList(dir)
    copier.db.run('begin immediate') // as `copyWal` does while it copies
    const copiedMs = T0 - 5000
    utimesSync(file, copiedMs / 1000, copiedMs / 1000)
    stamp(list.db, file, T0 + 60_000)
    expect(fingerprintOf(file)?.modifiedMs).toBe(copiedMs)
    copier.db.run('rollback')
    copier.close()
    list.close()
  })
})

describe('the stamp, while another process stamps the list,', () => {
  /** Calls `then` once, after the WAL was emptied into the file of a list. */
  function afterCopy({ db }: List, then: () => void): void {
    const run = db.run.bind(db)
    db.run = (sql, ...rest) => {
      const changes = run(sql, ...rest)
      if (!sql.includes('wal_checkpoint')) return changes
      db.run = run
      then()
      return changes
    }
  }

  test('is not set before that process has copied the WAL: the file would change after it', () => {
    const { dir, file, list } = listWith(ROWS)
    const other = openList(dir)
    let atCommit = 0
    afterCopy(list, () => {
      other.db.run('update checksum set stamped_at = stamped_at + 60000') // copied a moment later
      atCommit = stampedAt(other)
    })
    list.settle()
    expect(fingerprintOf(file)?.modifiedMs).not.toBe(atCommit)
    other.settle()
    expect(isStamped(list.db, file)).toBeTrue()
    list.close()
    other.close()
  })
})

describe('the time of a stamp', () => {
  test('of a file that cannot be examined is a StoreError', () => {
    const loop = join(temporaryDirectory(), 'loop')
    symlinkSync(loop, loop)
    expect(() => fingerprintOf(loop)).toThrow(StoreError)
  })

  test('is a second before the clock, in the list and on its file', () => {
    const dir = temporaryDirectory()
    addList(dir, ROWS) // dated by another clock
    const list = openList(dir, { clock: () => T0 + 1_000_000_000 })
    list.settle()
    expect(stampedAt(list)).toBe(T0 + 999_999_000)
    expect(Math.round(statSync(list.file).mtimeMs)).toBe(T0 + 999_999_000)
    list.close()
  })

  test('is not the time that the file has while the WAL is emptied into it', () => {
    const { file, list } = listWith(ROWS)
    const nowMs = Date.now()
    stamp(list.db, file, nowMs)
    for (const ms of [nowMs - 1, nowMs, nowMs + 5]) {
      utimesSync(file, ms / 1000, ms / 1000)
      expect(isStamped(list.db, file)).toBeFalse()
    }
    list.close()
  })
})

describe('each stamp is larger than the one before', () => {
  const CLOCKS: readonly (readonly [what: string, times: readonly number[]])[] = [
    ['within a millisecond', [T0, T0, T0, T0]],
    ['when the clock steps back', [T0, T0 - 1, T0 - 3_600_000, 0]],
    ['when the clock has stood still for a while', [T0, T0, T0 + 1, T0 + 1]],
  ]
  test.each(CLOCKS)('%s', (_, times) => {
    const dir = temporaryDirectory()
    let nowMs = T0
    const list = openList(dir, { clock: () => nowMs })
    const other = openList(dir)
    const watch = watchFile(other.db, other.file)
    let last = stampedAt(list)
    for (const [i, time] of times.entries()) {
      nowMs = time
      fillList(list, [{ ip: `192.0.2.${i}:80`, type: 'http' }])
      watch.verify()
      expect(stampedAt(list)).toBeGreaterThan(last)
      expect([isStamped(list.db, list.file), watch.isUnstamped()]).toEqual([true, false])
      last = stampedAt(list)
      stamp(list.db, list.file, nowMs) // without a change of a row
      watch.verify()
      expect(stampedAt(list)).toBeGreaterThan(last)
      last = stampedAt(list)
    }
    list.close()
    other.close()
  })
})

/** What processes of ours do to a list; `n` is another number each time. */
const ACTIONS = {
  import: (list: List, _: number, n: number) =>
    fillList(list, [{ ip: `192.0.2.${n}:80`, type: 'http' }]),
  replace: (list: List) => void list.begin('replace').commit(),
  // The server removes slice by slice, and stamps after the last.
  removeSlice: (list: List) => void list.proxies.removeOlderThan(T0 - 10_000),
  stamp: (list: List) => list.settle(),
  emptyWal: (list: List, nowMs: number) => emptyWal(list.db, list.file, nowMs),
  check: (list: List, nowMs: number) => void checkListFile(list.file, () => nowMs),
} as const
type Action = keyof typeof ACTIONS
/** What one of two processes does at a time, perhaps while the list is read. */
type Step = { by: 0 | 1; action: Action; timeMs: number; isRead: boolean }

/** Two processes with one clock, which both watch the list, and a reader, which keeps its WAL. */
function createProcesses() {
  const { dir, file, list: first } = listWith(ROWS.slice(0, 20))
  let nowMs = T0
  const clock = () => nowMs
  const options = { clock, isServer: true }
  const workers = [openList(dir, options), openList(dir, options)] as const
  const { db: reader } = first
  const watches = workers.map(({ db }) => watchFile(db, file))
  return {
    act({ by, action, timeMs, isRead }: Step, n: number): void {
      nowMs = timeMs
      if (isRead) for (const sql of ['begin', 'select count(*) from proxies']) reader.run(sql)
      ACTIONS[action](workers[by], nowMs, n)
      if (isRead) reader.run('commit')
    },
    verify: () => watches.map(({ verify }) => verify()),
    stampedAt: () => stampedAt(workers[0]),
    [Symbol.dispose](): void {
      for (const { close } of [...workers, first]) close()
    },
  }
}

describe('watching a list', () => {
  test('takes no change of ours for a foreign one, by either process and with any clock', () => {
    const someStep: fc.Arbitrary<Step> = fc.record({
      by: fc.constantFrom(0, 1),
      action: fc.constantFrom(...(Object.keys(ACTIONS) as Action[])), // the table's own names
      timeMs: fc.constantFrom(0, T0 - 1, T0, T0, T0 + 1, Date.UTC(2040, 0, 1)),
      isRead: fc.integer({ min: 0, max: 14 }).map(n => n === 7), // rarely: a stamp waits for that
    })
    fc.assert(
      fc.property(fc.array(someStep, { minLength: 5, maxLength: 15 }), steps => {
        using processes = createProcesses()
        for (const [n, step] of steps.entries()) {
          const before = Math.abs(processes.stampedAt())
          processes.act(step, n)
          expect(processes.verify).not.toThrow()
          // It is negative while a change is not stamped.
          expect(Math.abs(processes.stampedAt())).toBeGreaterThanOrEqual(before)
        }
      }),
      { numRuns: 25 },
    )
  })

  test('says that a change is not stamped yet, until it is', () => {
    const { dir, file, list } = listWith(ROWS)
    const other = openList(dir)
    const watch = watchFile(other.db, file)
    list.proxies.removeOlderThan(T0 - 100_000)
    list.db.run('pragma wal_checkpoint(truncate)') // the file has another time now
    watch.verify()
    expect(watch.isUnstamped()).toBeTrue()
    list.settle()
    watch.verify()
    expect(watch.isUnstamped()).toBeFalse()
    list.close()
    other.close()
  })

  test('finds a change of the file that none of ours has made', () => {
    const { file, list } = listWith(ROWS)
    const watch = watchFile(list.db, file, () => {})
    watch.verify()
    utimesSync(file, T0 / 1000, T0 / 1000)
    expect(watch.verify).toThrow(new StoreError(`${file} was changed by something else`))
    list.close()
  })

  test('waits for a process of ours that has copied the WAL and not set the time yet', () => {
    const { file, list } = listWith(ROWS)
    let pauses = 0
    const watch = watchFile(list.db, file, () => {
      pauses += 1
      const stampMs = stampedAt(list)
      if (pauses === 3) utimesSync(file, stampMs / 1000, stampMs / 1000)
    })
    utimesSync(file, T0 / 1000, T0 / 1000)
    watch.verify()
    expect([pauses, watch.isUnstamped()]).toEqual([3, false])
    list.close()
  })
})
