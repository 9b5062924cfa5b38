/**
 * Checking that retry_after is minimal (contract B3), on a clock moved over midnight, forwards
 * and back: a second earlier the same request is still refused, and then it comes further.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Caller } from '../../../../src/access/key.ts'
import type { Decision } from '../../../../src/access/rate-limit.ts'
import { rateLimitOf } from '../../../../src/http/reply.ts'
import { addKeys, type Limits, UNLIMITED } from '../../../support/fixtures.ts'
import type { Server } from '../../../support/launch.ts'
import { dayOf } from '../../../support/limiter-oracle.ts'
import { DEMO, openUsage, temp } from '../../../support/limits.ts'
import { between, pick, randomOf } from '../../../support/random.ts'
import { exchange } from '../../support/client.ts'
import { startServe } from '../../support/serve.ts'
import { count } from '../../support/table.ts'
import { type Finding, type Run, scaled } from '../part.ts'

export type { Caller }

export type Asked = { caller: Caller; ip: string; subnets: number[] }

/** How far a request comes: once admitted, its answer may be refused for its networks. */
export type Outcome = { stage: 'refused' | 'admitted' | 'served'; seconds: number }

/** A limiter whose subjects have used nothing. */
export function openLimiter() {
  const { admit, consume, tryAdmit, tryConsume, close } = openUsage()

  /** Takes a request as far as `admitting` and `consuming` let it. */
  function take(
    { caller, ip, subnets }: Asked,
    nowMs: number,
    admitting: typeof admit,
    consuming: typeof consume,
  ): Outcome {
    const decision = admitting(caller, ip, nowMs)
    if (decision.kind === 'refused') {
      return { stage: 'refused', seconds: decision.retryAfterSeconds }
    }
    if (caller.kind !== 'regular') return { stage: 'served', seconds: 0 }
    const { atMs } = decision
    const networks = consuming(caller, { ip, subnets, atMs, nowMs })
    return networks.kind === 'consumed'
      ? { stage: 'served', seconds: 0 }
      : { stage: 'admitted', seconds: networks.retryAfterSeconds }
  }

  return {
    /** Admits a request or refuses it; gives all that a client sees of the decision. */
    admit(caller: Caller, ip: string, nowMs: number) {
      const { limits, ...decision }: Decision = admit(caller, ip, nowMs)
      return { ...decision, rateLimit: rateLimitOf(limits).limit }
    },
    ask: (asked: Asked, nowMs: number): Outcome => take(asked, nowMs, admit, consume),
    /** Whether a refused request would come further at another instant; counts nothing. */
    wouldPass(asked: Asked, { stage }: Outcome, nowMs: number): boolean {
      const then = take(asked, nowMs, tryAdmit, tryConsume).stage
      return stage === 'refused' ? then !== 'refused' : then === 'served'
    },
    close,
  }
}

type Random = () => number

const REFUSALS = 100_000
/** More over real sockets, to a server with a clock of its own. */
const REFUSALS_SERVED = 400
const SECOND_MS = 1_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const MIDNIGHT = Date.UTC(2026, 10, 21)
/** Requests of one sequence, in which nothing is used at first. */
const SEQUENCE = 40

/** Moves of the clock, in milliseconds. */
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
/** A random move of the clock; short ones are more likely than hours and days. */
export const move = (random: Random): number =>
  pick(random, random() < 0.7 ? MOVES.slice(0, 4) : MOVES)(random)

/** An instant of the day before midnight, often of its last seconds. */
export const startMs = (random: Random): number =>
  MIDNIGHT - (random() < 0.5 ? between(random, 0, 30_000) : between(random, 0, DAY_MS))

const maybe = <T>(random: Random, chance: number, make: () => T): T | null =>
  random() < chance ? make() : null

export const anyPlan = (random: Random) => ({
  ...UNLIMITED,
  name: 'any',
  burst: maybe(random, 0.7, () => ({
    requests: between(random, 1, 5),
    seconds: pick(random, [1, 2, 5, 60, 3_600, 86_400]),
  })),
  daily: maybe(random, 0.5, () => between(random, 1, 8)),
  subnets: maybe(random, 0.4, () => between(random, 4, 8)),
  clients: maybe(random, 0.2, () => between(random, 1, 3)),
})

export const ADDRESSES = [
  ...['198.51.100.7', '198.51.100.8', '198.52.100.7', '203.0.113.9'],
  ...['2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1'],
]

/** What was found of refusals. */
type Seen = {
  refusals: number
  /** Those that wait past midnight, and those after the clock stepped back. */
  overMidnight: number
  steppedBack: number
  late: string[]
  early: string[]
}
const nothingSeen = (): Seen => ({
  ...{ refusals: 0, overMidnight: 0, steppedBack: 0 },
  ...{ late: [], early: [] },
})

function note(seen: Seen, nowMs: number, highestMs: number, seconds: number): void {
  seen.refusals += 1
  if (dayOf(nowMs + seconds * SECOND_MS) > dayOf(nowMs)) seen.overMidnight += 1
  if (nowMs < highestMs) seen.steppedBack += 1
}

function anyAsked(random: Random, callers: readonly Caller[]): Asked {
  const subnets = Array.from({ length: between(random, 0, 4) }, () => between(random, 0, 12))
  return { caller: pick(random, callers), ip: pick(random, ADDRESSES), subnets }
}

/** One sequence: some callers ask again and again, and every refusal is checked. */
function playSequence(random: Random, seen: Seen): void {
  const limiter = openLimiter()
  const paid = ['a', 'b'].map((id): Caller => ({ kind: 'regular', id, plan: anyPlan(random) }))
  const callers: Caller[] = [...paid, ...paid, DEMO, temp('t')]
  let nowMs = startMs(random)
  let highestMs = nowMs
  for (let n = 0; n < SEQUENCE; n += 1) {
    nowMs += move(random)
    const asked = anyAsked(random, callers)
    const outcome = limiter.ask(asked, nowMs)
    const { stage, seconds } = outcome
    if (stage !== 'served') {
      note(seen, nowMs, highestMs, seconds)
      const what = JSON.stringify({ ...asked, nowMs, ...outcome })
      const after = (wait: number) => limiter.wouldPass(asked, outcome, nowMs + wait * SECOND_MS)
      if (!Number.isInteger(seconds) || seconds < 1 || !after(seconds)) seen.early.push(what)
      if (seconds > 1 && after(seconds - 1)) seen.late.push(what)
    }
    highestMs = Math.max(highestMs, nowMs)
  }
  limiter.close()
}

/** Plays sequences until there are that many refusals. */
export function playSequences(seed: number, refusals: number): Seen {
  const random = randomOf(seed, 'sequences')
  const seen = nothingSeen()
  while (seen.refusals < refusals) playSequence(random, seen)
  return seen
}

/** Plans with a key of the same name, and temporary keys. */
const PLANS: { readonly [key: string]: Partial<Limits> } = {
  pl_burst: { burst: { requests: 3, seconds: 5 } },
  pl_long: { burst: { requests: 2, seconds: 86_400 } },
  pl_daily: { daily: 3 },
  pl_both: { burst: { requests: 2, seconds: 7_200 }, daily: 4 },
  pl_clients: { clients: 1 },
}
const KEYS = [
  ...Object.keys(PLANS).map(key => ({ key, plan: key })),
  ...['temp_one', 'temp_two'].map(key => ({ key, plan: null })),
]

/** Asks one of the servers at an instant; gives the seconds to wait, or `null` when admitted. */
function createAsk(servers: readonly Server[], clock: string, random: Random) {
  return async (key: string, ip: string, nowMs: number): Promise<number | null> => {
    writeFileSync(clock, String(nowMs))
    const head = `Host: x\r\nConnection: close\r\nX-Forwarded-For: ${ip}\r\n`
    const request = `GET /api?key=${key} HTTP/1.1\r\n${head}\r\n`
    const { status, text } = await exchange(pick(random, servers).where, request)
    if (status === 404 || status === 200) return null
    const wait = Number(/"retry_after":(\d+)/.exec(text)?.[1])
    const field = Number(/\r\nretry-after: *(\d+)/i.exec(text)?.[1])
    if (status !== 429 || wait !== field) throw new Error(`unexpected answer: ${text}`)
    return wait
  }
}

/** The same over sockets: two servers on one clock, and every request is served in the end. */
async function overSockets(run: Run, seen: Seen): Promise<void> {
  const random = randomOf(run.seed, 'tight')
  const data = run.directory('tight')
  addKeys(data, PLANS, KEYS, MIDNIGHT - 2 * DAY_MS)
  const clock = join(data, 'clock')
  let nowMs = startMs(random)
  writeFileSync(clock, String(nowMs))
  const start = () => startServe(run.binary, { data, clock, more: ['--trust-proxy', '127.0.0.1'] })
  const servers = [await start(), await start()]
  const ask = createAsk(servers, clock, random)
  const full = seen.refusals + scaled(REFUSALS_SERVED, run)
  let highestMs = nowMs
  while (seen.refusals < full) {
    nowMs += move(random)
    const key = random() < 0.2 ? 'demo' : pick(random, KEYS).key
    const ip = pick(random, ADDRESSES)
    const seconds = await ask(key, ip, nowMs)
    if (seconds !== null) {
      note(seen, nowMs, highestMs, seconds)
      const what = JSON.stringify({ key, ip, nowMs, seconds })
      const before = nowMs + (seconds - 1) * SECOND_MS
      if (seconds > 1 && (await ask(key, ip, before)) === null) seen.late.push(what)
      if ((await ask(key, ip, before + SECOND_MS)) !== null) seen.early.push(what)
      highestMs = Math.max(highestMs, before + SECOND_MS)
      // Otherwise the clock steps back to where it was.
      if (random() < 0.5) nowMs = before + SECOND_MS
    }
    highestMs = Math.max(highestMs, nowMs)
  }
  await Promise.all(servers.map(server => server.stop()))
}

export async function tightFindings(run: Run): Promise<Finding[]> {
  const full = scaled(REFUSALS, run)
  const seen = playSequences(run.seed, full)
  const alone = seen.refusals
  await overSockets(run, seen)
  for (const what of seen.early.slice(0, 3)) run.say(`early: ${what}`)
  for (const what of seen.late.slice(0, 3)) run.say(`late: ${what}`)
  return [
    {
      promise: 'retry_after is the fewest seconds after which the same request is admitted',
      figure:
        `${seen.early.length} too short, ${seen.late.length} too long of ` +
        `${count(seen.refusals)} (${count(seen.overMidnight)} over midnight, ` +
        `${count(seen.steppedBack)} after the clock stepped back, ` +
        `${count(seen.refusals - alone)} over sockets)`,
      bound: `0 of at least ${count(full)}`,
      holds:
        seen.early.length + seen.late.length === 0 && seen.overMidnight > 0 && seen.steppedBack > 0,
    },
  ]
}
