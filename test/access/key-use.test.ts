/**
 * The use of keys by hour and by day (contract F3, G5) on every engine: any sequence of admissions,
 * give-backs, answers and prunes on two servers adds up to what a model counts.
 */
import { afterAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { keySubject, limitRulesOf } from '../../src/access/entitlements.ts'
import { type DayUse, HISTORY_DAYS, unusedDay } from '../../src/access/history.ts'
import type { UsageStore } from '../../src/access/ports.ts'
import type { Admitted } from '../../src/access/rate-limit.ts'
import { DAY_MS, HOUR_MS, utcDay } from '../../src/lib/time.ts'
import { T0 } from '../support/fixtures.ts'
import { decideAll, IP, regular } from '../support/limits.ts'
import { cleanUp } from '../support/temporary.ts'
import { ENGINES, type TestUsage } from '../support/usage.ts'

afterAll(cleanUp)

const IDS = ['k0', 'k1', 'k2']

const KINDS = ['admit', 'back', 'note', 'prune', 'reset', 'flush', 'restart'] as const
const anyStep = fc.record({
  kind: fc.constantFrom('admit', 'admit', 'admit', ...KINDS),
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

/** Takes steps on two servers; gives what the model counts and what each server has, by key. */
async function play(usage: TestUsage, steps: readonly Step[]) {
  const servers = [usage.open(), usage.open()]
  const model = createModel()
  const admitted: { id: string; back: Admitted }[] = []
  let nowMs = T0
  await usage.addKeys(...IDS)
  const takers: { [kind in Step['kind']]: (step: Step, its: UsageStore) => Promise<void> } = {
    async admit({ key, stepMs }, its) {
      nowMs += stepMs
      await usage.at(nowMs)
      const caller = regular({}, `k${key}`)
      const rules = limitRulesOf(caller, IP)
      const [decision] = await decideAll(its, [{ rules, nowMs }])
      if (decision?.kind !== 'admitted') throw new Error('no limit refuses')
      admitted.push({ id: caller.id, back: { rules, instants: decision.instants } })
      model.request(caller.id, nowMs, 1)
    },
    async back(_, its) {
      const last = admitted.pop()
      if (last === undefined) return
      await its.refund([last.back])
      model.request(last.id, last.back.instants[0] ?? 0, -1)
    },
    async note({ key, records, refused }, its) {
      const more = { records, refused }
      its.note({ keyId: `k${key}`, ...more, nowMs })
      model.note(`k${key}`, nowMs, more)
    },
    async prune(_, its) {
      while (await its.prune(nowMs));
    },
    async reset({ key }, its) {
      await its.reset(keySubject(`k${key}`), 'all', nowMs)
      const kept = admitted.filter(({ id }) => id !== `k${key}`)
      admitted.splice(0, admitted.length, ...kept)
    },
    flush: async (_, its) => its.flush(),
    async restart({ server }, its) {
      await its.flush()
      servers[server] = usage.open()
    },
  }
  for (const step of steps) await takers[step.kind](step, servers[step.server] as UsageStore)
  for (const its of servers) await its.flush()
  const [first, last] = [utcDay(nowMs) - HISTORY_DAYS + 1, utcDay(nowMs)]
  const found: DayUse[][][] = []
  for (const its of servers) {
    const uses = await its.history(IDS, first, last)
    found.push(uses.map(({ days }) => comparable(days)))
  }
  const expected = IDS.map(id => comparable(model.of(id).filter(({ day }) => day >= first)))
  return { found, expected }
}

test.each(ENGINES.filter(({ isHere }) => isHere))(
  'any sequence on two servers, restarts included, adds up to what a model counts: $name',
  ({ open, runs }) =>
    fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 20, maxLength: 80 }), async steps => {
        // SQLite's snapshot is read and written all the time
        const usage = await open({ chunks: 2, chunkChars: 200, removeEvery: 2 })
        try {
          const { found, expected } = await play(usage, steps)
          for (const each of found) expect(each).toEqual(expected)
        } finally {
          await usage.close()
        }
      }),
      { numRuns: Number(process.env.RUNS ?? runs) },
    ),
)
