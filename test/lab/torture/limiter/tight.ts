/**
 * How tight retry_after is (contract B3), on a clock moved by hand over midnight, forwards and
 * back: a second before it the same request is still refused, at it the request comes further.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Caller, chargeOne, metersOf } from '../../../../src/access/access.ts'
import type { Plan } from '../../../../src/access/plan.ts'
import { admitOne } from '../../../../src/access/rate-limit.ts'
import { openRegistry } from '../../../../src/app.ts'
import { createUsageStore, openAccessFile } from '../../../../src/sqlite/access/usage.ts'
import { between, type Finding, pick, type Run, randomOf, scaled } from '../part.ts'
import { exchange, type Serving, startServing } from '../serving.ts'

type Random = () => number

const REFUSALS = 100_000
/** Of them over real sockets to the program, on a clock of its own. */
const REFUSALS_SERVED = 400
const SECOND_MS = 1_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const MIDNIGHT = Date.UTC(2026, 10, 21)
/** Requests of one story: it begins with nothing used. */
const STORY = 40

/** How a clock may move, in milliseconds. */
const MOVES: readonly ((random: Random) => number)[] = [
  () => 0,
  random => between(random, 0, 1_200),
  random => between(random, 0, 1_200),
  random => between(random, 0, 12_000),
  random => pick(random, [1, 999, 1000, 1001, 4_999, 5_000, 5_001, 59_999, 60_000, HOUR_MS]),
  random => between(random, 0, 30 * 60_000),
  random => -between(random, 1, 20_000),
  random => pick(random, [-DAY_MS, -HOUR_MS, 12 * HOUR_MS, DAY_MS - 1, DAY_MS]),
]
/** One move of the clock; the usual ones are more likely than hours and days. */
export const move = (random: Random): number =>
  pick(random, random() < 0.7 ? MOVES.slice(0, 4) : MOVES)(random)

/** An instant of the last day before midnight, often of its last seconds. */
export const startMs = (random: Random): number =>
  MIDNIGHT - (random() < 0.5 ? between(random, 0, 30_000) : between(random, 0, DAY_MS))

const maybe = <T>(random: Random, chance: number, make: () => T): T | null =>
  random() < chance ? make() : null

export const anyPlan = (random: Random): Plan => ({
  name: 'any',
  burst: maybe(random, 0.7, () => ({
    requests: between(random, 1, 5),
    seconds: pick(random, [1, 2, 5, 60, 3_600, 86_400]),
  })),
  daily: maybe(random, 0.5, () => between(random, 1, 8)),
  subnets: maybe(random, 0.4, () => between(random, 4, 8)),
  clients: maybe(random, 0.2, () => between(random, 1, 3)),
  count: null,
})

export const ADDRESSES = [
  ...['198.51.100.7', '198.51.100.8', '198.52.100.7', '203.0.113.9'],
  ...['2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1'],
]

type Asked = { caller: Caller; ip: string; subnets: number[] }

/** How far a request came: an answer may still be refused for its networks once it is admitted. */
type Outcome = { stage: 'refused' | 'admitted' | 'served'; seconds: number }

/** A store with nothing used, and requests of it that are undone again when asked to. */
function openWorld() {
  const db = openAccessFile(':memory:')
  const store = createUsageStore(db)
  const undone = new Error('undone')
  function ask({ caller, ip, subnets }: Asked, nowMs: number): Outcome {
    const verdict = admitOne(store, metersOf(caller, ip), nowMs)
    if (verdict.refused !== null) return { stage: 'refused', seconds: verdict.retryAfterSeconds }
    const refusal = chargeOne(store, { caller, ip, subnets, verdict }, nowMs)
    if (refusal === null) return { stage: 'served', seconds: 0 }
    return { stage: 'admitted', seconds: refusal.context.retryAfterSeconds ?? 0 }
  }
  return {
    ask: (asked: Asked, nowMs: number): Outcome => store.transaction(() => ask(asked, nowMs)),
    /** Whether it would come further at another instant; nothing is used. */
    wouldPass(asked: Asked, { stage }: Outcome, nowMs: number): boolean {
      let then: Outcome['stage'] = stage
      try {
        store.transaction(() => {
          then = ask(asked, nowMs).stage
          throw undone
        })
      } catch (error) {
        if (error !== undone) throw error
      }
      return stage === 'refused' ? then !== 'refused' : then === 'served'
    },
    close: () => db.close(),
  }
}

/** What was seen of refusals. */
type Seen = {
  refusals: number
  /** Those that waited over a midnight, and those at a clock that had stepped back. */
  overMidnight: number
  steppedBack: number
  late: string[]
  early: string[]
}
const nothingSeen = (): Seen => ({
  ...{ refusals: 0, overMidnight: 0, steppedBack: 0 },
  ...{ late: [], early: [] },
})

const dayOf = (ms: number): number => Math.floor(ms / DAY_MS)

function note(seen: Seen, nowMs: number, highestMs: number, seconds: number): void {
  seen.refusals += 1
  if (dayOf(nowMs + seconds * SECOND_MS) > dayOf(nowMs)) seen.overMidnight += 1
  if (nowMs < highestMs) seen.steppedBack += 1
}

function anyAsked(random: Random, callers: readonly Caller[]): Asked {
  const subnets = Array.from({ length: between(random, 0, 4) }, () => between(random, 0, 12))
  return { caller: pick(random, callers), ip: pick(random, ADDRESSES), subnets }
}

/** One story: some callers ask again and again, and every refusal is put to the test. */
function tellStory(random: Random, seen: Seen): void {
  const world = openWorld()
  const paid = ['a', 'b'].map((id): Caller => ({ kind: 'regular', id, plan: anyPlan(random) }))
  const callers: Caller[] = [
    ...paid,
    ...paid,
    { kind: 'demo', id: 'demo' },
    { kind: 'temp', id: 't' },
  ]
  let nowMs = startMs(random)
  let highestMs = nowMs
  for (let n = 0; n < STORY; n += 1) {
    nowMs += move(random)
    const asked = anyAsked(random, callers)
    const outcome = world.ask(asked, nowMs)
    const { stage, seconds } = outcome
    if (stage !== 'served') {
      note(seen, nowMs, highestMs, seconds)
      const what = JSON.stringify({ ...asked, nowMs, ...outcome })
      const after = (wait: number) => world.wouldPass(asked, outcome, nowMs + wait * SECOND_MS)
      if (!Number.isInteger(seconds) || seconds < 1 || !after(seconds)) seen.early.push(what)
      if (seconds > 1 && after(seconds - 1)) seen.late.push(what)
    }
    highestMs = Math.max(highestMs, nowMs)
  }
  world.close()
}

/** Stories until there were so many refusals. */
export function tellStories(seed: number, refusals: number): Seen {
  const random = randomOf(seed, 'stories')
  const seen = nothingSeen()
  while (seen.refusals < refusals) tellStory(random, seen)
  return seen
}

const KEYS: readonly (readonly [key: string, plan: Partial<Plan> | null])[] = [
  ['pl_burst', { burst: { requests: 3, seconds: 5 } }],
  ['pl_long', { burst: { requests: 2, seconds: 86_400 } }],
  ['pl_daily', { daily: 3 }],
  ['pl_both', { burst: { requests: 2, seconds: 7_200 }, daily: 4 }],
  ['pl_clients', { clients: 1 }],
  ['temp_one', null],
  ['temp_two', null],
]

function addKeys(data: string): void {
  const registry = openRegistry(data)
  const none = { burst: null, daily: null, subnets: null, clients: null, count: null }
  for (const [key, limits] of KEYS) {
    const plan = limits && key
    if (limits) registry.plans.set({ ...none, ...limits, name: key })
    registry.keys.add({ key, label: '', plan, expiresAt: null }, MIDNIGHT - 2 * DAY_MS)
  }
  registry.close()
}

/** Asks one of the servers at an instant: seconds to wait, or `null`: admitted. */
function createAsk(servers: readonly Serving[], clock: string, random: Random) {
  return async (key: string, ip: string, nowMs: number): Promise<number | null> => {
    writeFileSync(clock, String(nowMs))
    const head = `Host: x\r\nConnection: close\r\nX-Forwarded-For: ${ip}\r\n`
    const request = `GET /api?key=${key} HTTP/1.1\r\n${head}\r\n`
    const { status, text } = await exchange(pick(random, servers).at, request)
    if (status === 404 || status === 200) return null
    const wait = Number(/"retry_after":(\d+)/.exec(text)?.[1])
    const field = Number(/\r\nretry-after: *(\d+)/i.exec(text)?.[1])
    if (status !== 429 || wait !== field) throw new Error(`not a refusal: ${text}`)
    return wait
  }
}

/** The same over sockets, two servers on one clock; every request is served in the end. */
async function overSockets(run: Run, seen: Seen): Promise<void> {
  const random = randomOf(run.seed, 'tight')
  const data = run.directory('tight')
  addKeys(data)
  const clock = join(data, 'clock')
  let nowMs = startMs(random)
  writeFileSync(clock, String(nowMs))
  const start = () =>
    startServing(run.binary, { data, clock, more: ['--trust-proxy', '127.0.0.1'] })
  const servers = [await start(), await start()]
  const ask = createAsk(servers, clock, random)
  const full = seen.refusals + scaled(REFUSALS_SERVED, run)
  let highestMs = nowMs
  while (seen.refusals < full) {
    nowMs += move(random)
    const key = random() < 0.2 ? 'demo' : pick(random, KEYS)[0]
    const ip = pick(random, ADDRESSES)
    const seconds = await ask(key, ip, nowMs)
    if (seconds !== null) {
      note(seen, nowMs, highestMs, seconds)
      const what = JSON.stringify({ key, ip, nowMs, seconds })
      const before = nowMs + (seconds - 1) * SECOND_MS
      if (seconds > 1 && (await ask(key, ip, before)) === null) seen.late.push(what)
      if ((await ask(key, ip, before + SECOND_MS)) !== null) seen.early.push(what)
      highestMs = Math.max(highestMs, before + SECOND_MS)
      // Half of the time the clock steps back to where it was.
      if (random() < 0.5) nowMs = before + SECOND_MS
    }
    highestMs = Math.max(highestMs, nowMs)
  }
  await Promise.all(servers.map(server => server.stop()))
}

const number = (n: number): string => n.toLocaleString('en-US')

export async function tightFindings(run: Run): Promise<Finding[]> {
  const full = scaled(REFUSALS, run)
  const seen = tellStories(run.seed, full)
  const alone = seen.refusals
  await overSockets(run, seen)
  for (const what of seen.early.slice(0, 3)) run.say(`early: ${what}`)
  for (const what of seen.late.slice(0, 3)) run.say(`late: ${what}`)
  return [
    {
      promise: 'retry_after is the fewest seconds after which the same request is admitted',
      figure:
        `${seen.early.length} too short, ${seen.late.length} too long of ` +
        `${number(seen.refusals)} (${number(seen.overMidnight)} over midnight, ` +
        `${number(seen.steppedBack)} after the clock stepped back, ` +
        `${number(seen.refusals - alone)} over sockets)`,
      bound: `0 of at least ${number(full)}`,
      holds:
        seen.early.length + seen.late.length === 0 && seen.overMidnight > 0 && seen.steppedBack > 0,
    },
  ]
}
