/** The memory of the checker in SQLite: what it gives back, who comes next, its lock, and its file. */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { newCandidate } from '../../src/checker/candidate.ts'
import type { Candidate, Past, Queue } from '../../src/checker/ports.ts'
import { StoreError } from '../../src/lib/errors.ts'
import { checkerStatusIn, openCandidates, readCandidates } from '../../src/sqlite/candidates.ts'
import { CHECKS_FILE } from '../../src/sqlite/data-directory.ts'
import { lockPath } from '../../src/sqlite/database-files.ts'
import { CHECKER_STATUS } from '../support/checker-status.ts'
import { T0 } from '../support/fixtures.ts'
import { ROOT } from '../support/program.ts'
import { cleanUp, onCleanUp, temporaryDirectory } from '../support/temporary.ts'

afterAll(cleanUp)

function open(dir: string | null = null) {
  const checks = openCandidates(dir)
  onCleanUp(checks.close)
  return checks
}

const LEDGER = { day: 20_000, speedBytes: 5 }

/** A candidate that is due, and may come early, so many milliseconds after T0. */
const candidate = (
  id: number,
  {
    queue = 'raw' as Queue,
    dueMs = 0,
    earlyMs = dueMs,
    ...more
  }: Partial<Candidate> & {
    dueMs?: number
    earlyMs?: number
  } = {},
): Candidate => ({
  ...newCandidate({ ip: '1.2.3.4', port: 80, types: 0, works: null, checkedAt: 0 }, T0, false),
  ...{ id, queue, nextAtMs: T0 + dueMs, idleAtMs: T0 + earlyMs },
  ...more,
})

const PAST: Past = {
  ...{ at: T0, result: 'ok' },
  attempts: [
    { type: 'http', purpose: 'judge', result: 'not the judge', ms: 120, detail: '200' },
    { type: 'socks5', purpose: 'judge', result: 'ok', ms: 80, detail: '' },
  ],
  measured: { type: 'socks5', anon: 'elite', because: '', ipOut: '1.2.3.4', pingMs: 80 },
}
const FULL: Partial<Candidate> = {
  ...{ okAtMs: T0 - 5, named: 8, streak: 3, checkedMs: T0 - 7 },
  works: { good: 12.5, total: 720, checks: 3 },
  measured: {
    ...{ type: 'socks5', anon: 'anonymous', because: 'via', ipOut: '::1', pingMs: null },
    ...{ speed: 9000, services: { smtp: true, google: false }, hasTls: false },
  },
  ...{ speedMs: T0 - 1, servicesMs: T0 - 2, tlsMs: T0 - 3 },
  history: [PAST, { at: T0 - 9, result: 'timeout', attempts: [] }],
}

describe('a candidate', () => {
  test.each([
    ['that was never checked', candidate(1)],
    ['of which everything is known', candidate(2 ** 48 - 1, { ...FULL, queue: 'living' })],
  ])('is read unchanged, also by another process: %s', (_, each) => {
    const dir = temporaryDirectory()
    const checks = open(dir)
    expect(checks.add([each])).toBe(1)
    expect(checks.find(each.id)).toEqual(each)
    expect(readCandidates(dir, ({ find }) => find(each.id))).toEqual(each)
    checks.save({ checked: [each], forgotten: [], postponed: [], ledger: LEDGER })
    expect(checks.find(each.id)).toEqual(each)
  })

  test('that exists is not added again', () => {
    const checks = open()
    checks.add([candidate(1, FULL)])
    expect(checks.add([candidate(1), candidate(2), candidate(2)])).toBe(1)
    expect(checks.find(1)?.streak).toBe(3)
    expect(checks.find(3)).toBeNull()
  })

  test('that is due later is neither due nor early before', () => {
    const checks = open()
    checks.add([candidate(1, { dueMs: -5 }), candidate(2, { dueMs: 900, earlyMs: 100 })])
    const postponed = [1, 2].map(id => ({ id, untilMs: T0 + 500 }))
    checks.save({ checked: [], forgotten: [], postponed, ledger: LEDGER })
    expect(checks.find(1)).toMatchObject({ nextAtMs: T0 + 500, idleAtMs: T0 + 500 })
    expect(checks.find(2)).toMatchObject({ nextAtMs: T0 + 900, idleAtMs: T0 + 500 })
    checks.save({ checked: [candidate(1)], forgotten: [], postponed, ledger: LEDGER })
    expect(checks.find(1)?.nextAtMs).toBe(T0)
  })
})

describe('the next candidates', () => {
  test('are the due ones of a queue, longest due first, until the visitor stops', () => {
    const checks = open()
    checks.add([
      ...[5, 4, 3, 2, 1].map(id => candidate(id, { dueMs: -id })),
      ...[candidate(6, { dueMs: 1 }), candidate(7, { queue: 'down', dueMs: -9 })],
    ])
    const visited = (queue: Queue, count = 9): number[] => {
      const ids: number[] = []
      checks.due(queue, T0, id => ids.push(id) < count)
      return ids
    }
    expect(visited('raw')).toEqual([5, 4, 3, 2, 1])
    expect(visited('raw', 2)).toEqual([5, 4])
    expect(visited('down')).toEqual([7])
    expect(visited('living')).toEqual([])
  })

  test('are the ones of all queues that may be early, next due first', () => {
    const queues: Queue[] = ['living', 'down', 'raw']
    const oneOf = fc.record({
      queue: fc.constantFrom(...queues),
      dueMs: fc.integer({ min: -5, max: 60 }),
      pauseMs: fc.integer({ min: 0, max: 100 }),
    })
    const property = fc.property(
      fc.array(oneOf, { maxLength: 80 }),
      fc.integer({ min: 1, max: 6 }),
      fc.array(fc.nat(80), { maxLength: 9 }),
      (some, count, busy) => {
        using checks = openCandidates(null)
        const all = some.map(({ queue, dueMs, pauseMs }, id) =>
          candidate(id, { queue, dueMs, earlyMs: dueMs - pauseMs / 2 - 0.5 }),
        )
        checks.add(all.map(each => ({ ...each, idleAtMs: Math.floor(each.idleAtMs) })))
        const excluded = new Set(busy)
        const expected = all
          .filter(({ id, idleAtMs, nextAtMs }) => {
            return !excluded.has(id) && Math.floor(idleAtMs) <= T0 && nextAtMs > T0
          })
          .sort((a, b) => a.nextAtMs - b.nextAtMs)
        const found = checks.idle(T0, count, excluded)
        const dueOf = (id: number | undefined) => all.find(each => each.id === id)?.nextAtMs
        expect(found.map(dueOf)).toEqual(expected.slice(0, count).map(({ nextAtMs }) => nextAtMs))
        expect(new Set(found).size).toBe(found.length)
      },
    )
    fc.assert(property, { numRuns: 200 })
  })
})

test('counts, freshness and lag describe the queues', () => {
  const dir = temporaryDirectory()
  let checks = openCandidates(dir)
  checks.add([
    ...[1, 2, 3].map(id => candidate(id, { queue: 'living', okAtMs: T0 - id, dueMs: id - 3 })),
    ...[candidate(4, { queue: 'down', okAtMs: T0 }), candidate(5), candidate(6)],
  ])
  const state = () => [checks.counts(), checks.freshSince(T0 - 2), checks.lagMs(T0)] as const
  expect(state()).toEqual([{ living: 3, down: 1, raw: 2 }, 2, 2])
  checks.save({
    checked: [
      candidate(1, { queue: 'down', okAtMs: T0 - 1, dueMs: 99 }),
      candidate(5, { queue: 'living', okAtMs: T0, dueMs: 99 }),
    ],
    ...{ forgotten: [6, 4, 77], postponed: [], ledger: LEDGER },
  })
  const after = [{ living: 3, down: 1, raw: 0 }, 2, 1] as const
  expect(state()).toEqual(after)
  checks.close()
  checks = open(dir)
  expect(state()).toEqual(after)
  expect(checks.lagMs(T0 - 100)).toBe(0)
})

test('ledger and status are stored, and other processes read the status', () => {
  const dir = temporaryDirectory()
  const { read } = checkerStatusIn(dir)
  expect(read()).toBeNull()
  const checks = open(dir)
  expect([read(), checks.status.read(), checks.ledger()]).toEqual([null, null, null])
  for (const alive of [1, 2]) checks.status.write({ ...CHECKER_STATUS, alive })
  checks.save({ checked: [], forgotten: [], postponed: [], ledger: LEDGER })
  expect([read(), checks.status.read()]).toEqual(
    [1, 1].map(() => ({ ...CHECKER_STATUS, alive: 2 })),
  )
  checks.close()
  using again = openCandidates(dir)
  expect(again.ledger()).toEqual(LEDGER)
})

describe('the lock of the checker', () => {
  const refusal = (dir: string) =>
    `another checker is at work on ${dir}: there is one for a data directory`

  test('refuses a second checker until the first has ended', () => {
    const dir = temporaryDirectory()
    const first = openCandidates(dir)
    expect(() => openCandidates(dir)).toThrow(refusal(dir))
    expect(first.find(1)).toBeNull()
    first.close()
    openCandidates(dir).close()
    expect(readdirSync(dir).sort()).toEqual(['checker.lock', CHECKS_FILE])
  })

  test('ends with its process', async () => {
    const dir = temporaryDirectory()
    const source = `import { openCandidates } from './src/sqlite/candidates.ts'
      const checks = openCandidates(${JSON.stringify(dir)})
      console.log('locked')
      setInterval(() => checks.find(1), 1000)`
    const child = Bun.spawn([process.execPath, '-e', source], { cwd: ROOT, stdout: 'pipe' })
    onCleanUp(() => child.kill('SIGKILL'))
    await child.stdout.getReader().read()
    expect(() => openCandidates(dir)).toThrow(refusal(dir))
    child.kill('SIGKILL')
    await child.exited
    open(dir)
  })
})

describe('a file', () => {
  const cases: [string, (file: string) => void, string][] = [
    [
      'that is damaged',
      file => writeFileSync(file, 'not a database at all, not a database at all'),
      ' is not a database; remove it: the checker then begins with the list and its files',
    ],
    [
      'of a newer program',
      file => {
        openCandidates(join(file, '..')).close()
        new Database(file).run('pragma user_version = 99')
      },
      ' was written by a newer proxylist (schema 99, this one knows 3); use that version',
    ],
    [
      'of another program',
      file => {
        const db = new Database(file)
        db.run('create table t (a)')
        db.close()
      },
      ' is a database of another program',
    ],
  ]
  test.each(cases)('is refused with advice, and its lock released: %s', (_, make, sentence) => {
    const dir = temporaryDirectory()
    const file = join(dir, CHECKS_FILE)
    make(file)
    for (const attempt of [() => openCandidates(dir), () => checkerStatusIn(dir).read()]) {
      expect(attempt).toThrow(file + sentence)
    }
    const release = lockPath(join(dir, 'checker'), 0)
    expect(release).not.toBeNull()
    release?.()
  })

  test('that fails later is a store failure, and changes nothing', () => {
    const checks = open(temporaryDirectory())
    checks.add([candidate(1)])
    const broken = { ...candidate(2), nextAtMs: 0.5 }
    expect(() =>
      checks.save({
        ...{ checked: [candidate(1, { queue: 'living' }), broken], forgotten: [] },
        ...{ postponed: [], ledger: LEDGER },
      }),
    ).toThrow(StoreError)
    expect([checks.counts(), checks.find(1)?.queue]).toEqual([
      { living: 0, down: 0, raw: 1 },
      'raw',
    ])
  })
})
