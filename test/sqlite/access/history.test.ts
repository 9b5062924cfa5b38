/**
 * The use of keys by hour and by day (src/sqlite/access/history.ts, key-use.ts; contract F3, G5):
 * exact, durable with the admission, the same for all processes on a file, kept for 90 days.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { limitRulesOf } from '../../../src/access/entitlements.ts'
import { type DayUse, HISTORY_DAYS, unusedDay } from '../../../src/access/history.ts'
import { hashKey } from '../../../src/access/key.ts'
import { DAY_MS, HOUR_MS } from '../../../src/lib/time.ts'
import { T0 } from '../../support/fixtures.ts'
import {
  DEMO,
  dayWith,
  IP,
  type OpenUsage,
  openUsage,
  regular,
  TODAY,
} from '../../support/limits.ts'
import { cleanUp, temporaryDirectory } from '../../support/temporary.ts'

afterAll(cleanUp)

const FREE = regular({})
const NOON = 12

/** Adds keys with these ids, which `days` and `last_seen` are kept for. */
function addIds({ db }: OpenUsage, ...ids: string[]): void {
  const insert = db.prepare(
    `insert into keys (id, hash, prefix, label, plan, created_at) values (?, ?, '', '', null, 0)`,
  )
  for (const id of ids) insert.run(id, hashKey(id))
}

/** The days of a key, from so many days before today. */
const daysOf = ({ usage }: OpenUsage, id = 'k1', before = HISTORY_DAYS): readonly DayUse[] =>
  usage.history([id], TODAY - before, TODAY + before)[0]?.days ?? []
const seenOf = ({ usage }: OpenUsage, id = 'k1'): number | null =>
  usage.history([id], TODAY, TODAY)[0]?.lastSeenMs ?? null

const note = ({ usage }: OpenUsage, records: number, refused: number, nowMs = T0): void =>
  usage.note({ keyId: 'k1', records, refused, nowMs })

describe('records and refusals', () => {
  test('make no row while there are none', () => {
    const usage = openUsage()
    usage.usage.flush('all')
    expect(usage.countRows('batches')).toBe(0)
    usage.close()
  })
})

describe('what is not written yet', () => {
  test('noted before usage is read again, after it, and on the next day are all seen and written', () => {
    const dir = temporaryDirectory()
    const [one, two] = [openUsage(dir), openUsage(dir)]
    one.admit(FREE, IP, T0)
    note(one, 3, 1)
    one.db.run('pragma query_only = on')
    expect(() => one.usage.flush('all')).toThrow(/readonly/)
    one.db.run('pragma query_only = off')
    const noted = (records: number, refused: number) =>
      dayWith(TODAY, NOON, 1, { records, refused })
    expect(daysOf(one)).toEqual([noted(3, 1)]) // this reads it again
    note(one, 4, 0)
    expect(daysOf(one)).toEqual([noted(7, 1)])
    note(one, 0, 5, T0 + DAY_MS)
    note(one, 2, 0, T0 + DAY_MS)
    const all = [noted(7, 1), { ...unusedDay(TODAY + 1), records: 2, refused: 5 }]
    expect(daysOf(one)).toEqual(all)
    expect(daysOf(one, 'k2')).toEqual([])
    one.usage.flush('all')
    one.usage.flush('all')
    expect([daysOf(one), daysOf(two)]).toEqual([all, all])
    for (const each of [one, two]) each.close()
  })
})

describe('a kill loses no admission of the use', () => {
  test.each([
    ['a log', { chunks: 8, chunkChars: 1e9 }],
    ['a log and a snapshot', { chunks: 8, chunkChars: 64 }],
    ['a snapshot', { chunks: 1, chunkChars: 1 }],
  ])('read from %s', (_, options) => {
    const dir = temporaryDirectory()
    const usage = openUsage(dir, options)
    addIds(usage, 'k1', 'k2')
    for (let n = 0; n < 60; n += 1)
      usage.admit(regular({}, `k${1 + (n % 2)}`), IP, T0 + n * HOUR_MS)
    const another = openUsage(dir, options) // the first was never closed
    for (const id of ['k1', 'k2']) {
      expect(daysOf(another, id)).toEqual(daysOf(usage, id))
      expect(daysOf(another, id).reduce((sum, { requests }) => sum + requests, 0)).toBe(30)
      expect(seenOf(another, id)).toBe(T0 + (id === 'k1' ? 58 : 59) * HOUR_MS)
    }
    for (const each of [usage, another]) each.close()
  })
})

describe('days that are over', () => {
  test('are moved slice by slice', () => {
    const usage = openUsage()
    const ids = Array.from({ length: 450 }, (_, n) => `k${n}`)
    addIds(usage, ...ids)
    usage.usage.admit(ids.map(id => ({ rules: limitRulesOf(regular({}, id), IP), nowMs: T0 })))
    usage.admit(FREE, IP, T0 + DAY_MS)
    const counts: number[] = []
    do counts.push(usage.countRows('days'))
    while (usage.usage.prune(T0 + DAY_MS))
    counts.push(usage.countRows('days'))
    expect([...new Set(counts)]).toEqual([0, 200, 400, 450])
    usage.close()
  })
})

test('days that are over are looked for slice by slice among many addresses of demo too', () => {
  const usage = openUsage()
  const addresses = Array.from({ length: 2_000 }, (_, n) => `192.0.${n >> 8}.${n & 255}`)
  usage.usage.admit(addresses.map(ip => ({ rules: limitRulesOf(DEMO, ip), nowMs: T0 })))
  let slices = 1
  while (usage.usage.prune(T0)) slices += 1
  expect(slices).toBe(4) // of at least 600 each
  usage.close()
})
