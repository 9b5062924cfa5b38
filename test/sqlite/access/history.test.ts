/**
 * The use of keys by hour and by day (src/sqlite/access/history.ts, key-use.ts, days.ts; contract F3,
 * G5): exact, durable with the admission, the same for all processes on a file, kept for 90 days.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { limitRulesOf } from '../../../src/access/entitlements.ts'
import { type DayUse, HISTORY_DAYS, unusedDay } from '../../../src/access/history.ts'
import { hashKey } from '../../../src/access/key.ts'
import type { Admitted } from '../../../src/access/rate-limit.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, utcDay } from '../../../src/lib/time.ts'
import { T0 } from '../../support/fixtures.ts'
import {
  burst,
  DEMO,
  IP,
  MIDNIGHT,
  type OpenUsage,
  openUsage,
  regular,
  TODAY,
  temp,
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

/** A day with so many requests in one hour. */
const dayWith = (
  day: number,
  hour: number,
  requests: number,
  more: Partial<DayUse> = {},
): DayUse => ({
  ...{ ...unusedDay(day), requests },
  hours: [...Array<number>(hour).fill(0), requests],
  ...more,
})

describe('the use of a key', () => {
  test('is counted by hour and by day: requests admitted, not those refused', () => {
    const usage = openUsage()
    const twice = regular(burst(2, 5))
    for (const ms of [0, 1, 2, 3]) usage.admit(twice, IP, T0 + ms)
    usage.admit(twice, IP, T0 + 2 * HOUR_MS)
    const hours = [...Array<number>(NOON).fill(0), 2, 0, 1]
    expect(daysOf(usage)).toEqual([{ ...unusedDay(TODAY), requests: 3, hours }])
    expect(seenOf(usage)).toBe(T0 + 2 * HOUR_MS)
    usage.close()
  })

  test('is empty for a key that was never used', () => {
    const usage = openUsage()
    expect([daysOf(usage, 'nobody'), seenOf(usage, 'nobody')]).toEqual([[], null])
    usage.close()
  })

  test('of a temporary key is counted once, that of demo for all addresses together', () => {
    const usage = openUsage()
    usage.admit(temp('t1'), IP, T0)
    usage.admit(DEMO, IP, T0)
    usage.admit(DEMO, '198.51.100.8', T0 + 1)
    expect(daysOf(usage, 't1')).toEqual([dayWith(TODAY, NOON, 1)])
    expect(daysOf(usage, 'demo')).toEqual([dayWith(TODAY, NOON, 2)])
    expect(daysOf(usage, IP)).toEqual([])
    usage.close()
  })

  test('does not count a request that was given back; last seen stays', () => {
    const usage = openUsage()
    const decision = usage.admit(FREE, IP, T0)
    usage.admit(FREE, IP, T0 + 1)
    const instants = decision.kind === 'admitted' ? decision.instants : []
    const back: Admitted = { rules: limitRulesOf(FREE, IP), instants }
    usage.usage.giveBack([back])
    expect(daysOf(usage)).toEqual([dayWith(TODAY, NOON, 1)])
    expect(seenOf(usage)).toBe(T0 + 1)
    usage.close()
  })

  test('belongs to the day and the hour that the request counts at, over midnight too', () => {
    const usage = openUsage()
    for (const ms of [-1, 0, 1]) usage.admit(FREE, IP, MIDNIGHT + ms)
    usage.admit(FREE, IP, MIDNIGHT - 5) // the clock stepped back: it counts at the latest instant
    expect(daysOf(usage)).toEqual([dayWith(TODAY, 23, 1), dayWith(TODAY + 1, 0, 3)])
    usage.close()
  })
})

const note = ({ usage }: OpenUsage, records: number, refused: number, nowMs = T0): void =>
  usage.note({ keyId: 'k1', records, refused, nowMs })

describe('records and refusals', () => {
  test('are seen at once, and are in the file after a flush', () => {
    const dir = temporaryDirectory()
    const [one, two] = [openUsage(dir), openUsage(dir)]
    note(one, 7, 0)
    note(one, 0, 1)
    const noted = [{ ...unusedDay(TODAY), records: 7, refused: 1 }]
    expect([daysOf(one), daysOf(two)]).toEqual([noted, []])
    one.usage.flush('all')
    expect([daysOf(one), daysOf(two)]).toEqual([noted, noted])
    one.usage.flush('all') // once
    expect(daysOf(two)).toEqual(noted)
    for (const each of [one, two]) each.close()
  })

  test('that cannot be written stay noted, and are written later', () => {
    const dir = temporaryDirectory()
    const [one, two] = [openUsage(dir), openUsage(dir)]
    note(one, 3, 2)
    one.db.run('pragma query_only = on')
    expect(() => one.usage.flush('all')).toThrow(/readonly/)
    one.db.run('pragma query_only = off')
    one.usage.flush('all')
    expect(daysOf(two)).toEqual([{ ...unusedDay(TODAY), records: 3, refused: 2 }])
    for (const each of [one, two]) each.close()
  })

  test('of a clock that is ahead do not touch a limit, and no usage is forgotten for them', () => {
    const usage = openUsage()
    const once = regular({ daily: 1 })
    usage.admit(once, IP, T0)
    note(usage, 0, 1, T0 + 400 * DAY_MS)
    usage.usage.flush('all')
    usage.prune(T0 + 400 * DAY_MS)
    expect(usage.admit(once, IP, T0 + MINUTE_MS).kind).toBe('refused')
    usage.close()
  })

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
  test('are moved to their table by a prune, once, whichever process prunes', () => {
    const dir = temporaryDirectory()
    const servers = [openUsage(dir), openUsage(dir)]
    const [one, two] = servers as [OpenUsage, OpenUsage]
    addIds(one, 'k1')
    for (let n = 0; n < 5; n += 1) (n % 2 ? one : two).admit(FREE, IP, T0 + n)
    one.usage.note({ keyId: 'k1', records: 9, refused: 4, nowMs: T0 })
    one.usage.flush('all')
    one.admit(FREE, IP, T0 + DAY_MS)
    const expected = [
      dayWith(TODAY, NOON, 5, { records: 9, refused: 4 }),
      dayWith(TODAY + 1, NOON, 1),
    ]
    expect(one.countRows('days')).toBe(0)
    for (const server of [one, two, one, two]) {
      server.prune(T0 + DAY_MS)
      for (const each of servers) expect(daysOf(each)).toEqual(expected)
    }
    expect(one.countRows('days')).toBe(1)
    const another = openUsage(dir)
    expect(daysOf(another)).toEqual(expected)
    for (const each of [one, two, another]) each.close()
  })

  test('get what comes later too', () => {
    const usage = openUsage()
    addIds(usage, 'k1')
    usage.admit(FREE, IP, T0)
    usage.admit(FREE, IP, T0 + DAY_MS)
    usage.prune(T0 + DAY_MS)
    usage.usage.note({ keyId: 'k1', records: 5, refused: 0, nowMs: T0 }) // a long answer that ended
    usage.usage.flush('all')
    usage.prune(T0 + DAY_MS)
    expect(daysOf(usage)[0]).toEqual(dayWith(TODAY, NOON, 1, { records: 5 }))
    usage.close()
  })

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

describe('days long over', () => {
  test(`are kept for ${HISTORY_DAYS} days, and no longer; last seen is kept`, () => {
    const usage = openUsage()
    addIds(usage, 'k1', 'k2')
    usage.admit(regular({}, 'k2'), IP, T0)
    for (let day = 0; day < HISTORY_DAYS + 3; day += 1) {
      usage.admit(FREE, IP, T0 + day * DAY_MS)
      usage.prune(T0 + day * DAY_MS)
    }
    const kept = daysOf(usage, 'k1', 200).map(({ day }) => day - TODAY)
    expect([kept.length, kept.at(0), kept.at(-1)]).toEqual([HISTORY_DAYS, 3, HISTORY_DAYS + 2])
    expect([daysOf(usage, 'k2', 200), seenOf(usage, 'k2')]).toEqual([[], T0])
    usage.close()
  })

  test('are not removed because the clock runs ahead of every admission', () => {
    const usage = openUsage()
    addIds(usage, 'k1')
    for (const day of [0, 1, 2]) usage.admit(FREE, IP, T0 + day * DAY_MS)
    usage.prune(T0 + 2 * DAY_MS)
    usage.prune(T0 + 400 * DAY_MS)
    expect(daysOf(usage).map(({ day }) => day - TODAY)).toEqual([0, 1, 2])
    usage.close()
  })

  test('are not removed by requests while the clock is more than 90 days ahead', () => {
    const usage = openUsage()
    addIds(usage, 'k1')
    for (let day = 0; day < HISTORY_DAYS; day += 1) {
      usage.admit(FREE, IP, T0 + day * DAY_MS)
      usage.prune(T0 + day * DAY_MS)
    }
    const real = (): number[] => daysOf(usage, 'k1', 200).map(({ day }) => day - TODAY)
    const before = real()
    for (const day of [400, 401]) {
      usage.admit(FREE, IP, T0 + day * DAY_MS)
      usage.prune(T0 + day * DAY_MS)
    }
    // Those that would have been removed soon in any case, one for each wrong day.
    expect(real()).toEqual(before.slice(2))
    usage.close()
  })

  test('of a key that was removed are not kept', () => {
    const usage = openUsage()
    usage.admit(regular({}, 'gone'), IP, T0)
    usage.admit(FREE, IP, T0 + DAY_MS)
    usage.prune(T0 + DAY_MS)
    expect([usage.countRows('days'), daysOf(usage, 'gone')]).toEqual([0, []])
    usage.close()
  })
})

// ---------------------------------------------------------------------------------------------
// Any sequence

const IDS = ['k0', 'k1', 'k2']

const KINDS = [
  ...(['admit', 'admit', 'admit', 'admit', 'back', 'note', 'prune', 'flush', 'restart'] as const),
]
const anyStep = fc.record({
  kind: fc.constantFrom(...KINDS),
  server: fc.nat({ max: 1 }),
  key: fc.nat({ max: 2 }),
  stepMs: fc.oneof(fc.nat({ max: 3 * HOUR_MS }), fc.constantFrom(DAY_MS, 3 * DAY_MS)),
  records: fc.nat({ max: 9 }),
  refused: fc.nat({ max: 2 }),
})
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never

/** What the days of keys must be: written from the contract alone. */
function createModel() {
  const uses = new Map<string, DayUse>()
  const add = (
    id: string,
    ms: number,
    change: (use: DayUse, hours: number[]) => Partial<DayUse>,
  ) => {
    const day = Math.floor(ms / DAY_MS)
    const use = uses.get(`${id} ${day}`) ?? { ...unusedDay(day), hours: Array<number>(24).fill(0) }
    uses.set(`${id} ${day}`, { ...use, ...change(use, [...use.hours]) })
  }
  return {
    request(id: string, ms: number, n: 1 | -1): void {
      add(id, ms, ({ requests }, hours) => {
        const hour = new Date(ms).getUTCHours()
        hours[hour] = (hours[hour] ?? 0) + n
        return { requests: requests + n, hours }
      })
    },
    note: (id: string, ms: number, more: { records: number; refused: number }): void =>
      add(id, ms, ({ records, refused }) => ({
        records: records + more.records,
        refused: refused + more.refused,
      })),
    of: (id: string): DayUse[] =>
      [...uses].filter(([name]) => name.startsWith(`${id} `)).map(([, use]) => use),
  }
}

const comparable = (days: readonly DayUse[]): DayUse[] =>
  days
    .map(use => ({ ...use, hours: Array.from({ length: 24 }, (_, hour) => use.hours[hour] ?? 0) }))
    .filter(({ requests, records, refused }) => requests + records + refused > 0)
    .sort((a, b) => a.day - b.day)

/** Takes steps on two processes; gives what the model counts and what each process has, by key. */
function play(steps: readonly Step[]) {
  const dir = temporaryDirectory()
  const options = { chunks: 2, chunkChars: 200, removeMax: 4 }
  const servers = [openUsage(dir, options), openUsage(dir, options)]
  const serverOf = (n: number): OpenUsage => servers[n] ?? openUsage(dir, options)
  const model = createModel()
  const admitted: { id: string; back: Admitted }[] = []
  let nowMs = T0
  addIds(serverOf(0), ...IDS)
  const takers: { [kind in Step['kind']]: (step: Step, its: OpenUsage) => void } = {
    admit({ key, stepMs }, its) {
      nowMs += stepMs
      const caller = regular({}, `k${key}`)
      const decision = its.admit(caller, IP, nowMs)
      if (decision.kind === 'refused') throw new Error('no limit refuses')
      const back = { rules: limitRulesOf(caller, IP), instants: decision.instants }
      admitted.push({ id: caller.id, back })
      model.request(caller.id, nowMs, 1)
    },
    back(_, its) {
      const last = admitted.pop()
      if (last === undefined) return
      its.usage.giveBack([last.back])
      model.request(last.id, last.back.instants[0] ?? 0, -1)
    },
    note({ key, records, refused }, its) {
      const more = { records, refused }
      its.usage.note({ keyId: `k${key}`, ...more, nowMs })
      model.note(`k${key}`, nowMs, more)
    },
    prune: (_, its) => its.prune(nowMs),
    flush: (_, its) => its.usage.flush('all'),
    restart({ server }, its) {
      its.usage.flush('all')
      its.close()
      servers[server] = openUsage(dir, options)
    },
  }
  for (const step of steps) takers[step.kind](step, serverOf(step.server))
  for (const { usage } of servers) usage.flush('all')
  const [first, last] = [utcDay(nowMs) - HISTORY_DAYS + 1, utcDay(nowMs)]
  const found = servers.map(({ usage }) =>
    usage.history(IDS, first, last).map(({ days }) => comparable(days)),
  )
  for (const { close } of servers) close()
  const expected = IDS.map(id => comparable(model.of(id).filter(({ day }) => day >= first)))
  return { found, expected }
}

test('any sequence on two processes, restarts included, adds up to what a model counts', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { minLength: 20, maxLength: 80 }), steps => {
      const { found, expected } = play(steps)
      for (const each of found) expect(each).toEqual(expected)
    }),
    { numRuns: 30 },
  )
})
