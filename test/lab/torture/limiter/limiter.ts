/**
 * The limiter against its oracle: two servers on one data directory, 64 clients with every kind of
 * key in two processes, a journal of all admissions, and the judge of all runs with limits.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addKeys, type Limits } from '../../../support/fixtures.ts'
import type { Server } from '../../../support/launch.ts'
import { dayOf } from '../../../support/limiter-oracle.ts'
import { between, pick, randomOf } from '../../../support/random.ts'
import { exchange } from '../../support/client.ts'
import { startServe } from '../../support/serve.ts'
import { count } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { startClients } from './client.ts'
import { findingsOf, judgeNotes } from './judge.ts'
import { makeWorld, readJournal } from './world.ts'

const REQUESTS = 1_000_000
const SERVERS = 2
const CLIENTS = 64
const CLIENT_PROCESSES = 2
/**
 * Largest share of requests that find the database locked by the other server for longer than the
 * program waits: they get 503 and count nothing (contract B8).
 */
const BUSY_MAX = 0.0001
/** Least share of requests that must have been served. */
const SERVED_MIN = 0.1

async function loadAndJudge(run: Run): Promise<Finding[]> {
  const requests = scaled(REQUESTS, run)
  const data = run.directory('limiter')
  const ids = await makeWorld(run.binary, data, requests)
  const logs = Array.from({ length: SERVERS }, (_, n) => join(data, `log-${n}`))
  const servers = []
  for (const log of logs) {
    servers.push(await startServe(run.binary, { data, log, more: ['--trust-proxy', '127.0.0.1'] }))
  }
  const startMs = performance.now()
  const each = servers.map(({ where }) => where)
  const clients = startClients(run, new Array(CLIENT_PROCESSES).fill(each), {
    ...{ clients: CLIENTS / CLIENT_PROCESSES, allRequests: requests },
    length: { kind: 'amount', requests: Math.ceil(requests / CLIENT_PROCESSES) },
  })
  const { answered, broken, connections } = await clients.ended()
  await Promise.all(servers.map(server => server.stop()))
  const seconds = (performance.now() - startMs) / 1000
  run.say(`${count(answered)} answers in ${Math.round(seconds)} s`)
  const journal = readJournal(data)
  const { all, unpaired, judged } = await judgeNotes(run, clients.files, ids, journal, { logs })
  run.say(`judged in ${Math.round((performance.now() - startMs) / 1000 - seconds)} s`)
  const is = (...statuses: number[]): number =>
    all.filter(({ status }) => statuses.includes(status)).length
  const served = is(200, 404)
  const busy = is(503)
  const lost = broken + unpaired + (all.length - served - busy - is(429))
  return [
    {
      promise: 'every request is answered, and logged as it was answered',
      figure:
        `${lost} not, ${busy} by 503, of ${count(answered)} over ${count(connections)} ` +
        `connections; ${Math.round((100 * served) / answered)} % served`,
      bound: `0 of at least ${count(requests)}, 503 at most ${BUSY_MAX * 100} %; ${100 * SERVED_MIN} %`,
      holds:
        lost === 0 &&
        answered >= requests &&
        busy <= Math.max(1, answered * BUSY_MAX) &&
        served >= answered * SERVED_MIN,
    },
    ...findingsOf(judged, 1, `${SERVERS} servers on one SQLite`),
  ]
}

type Random = () => number

const REFUSALS = 2_000
const SECOND_MS = 1_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const MIDNIGHT = Date.UTC(2026, 10, 21)

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
const move = (random: Random): number =>
  pick(random, random() < 0.7 ? MOVES.slice(0, 4) : MOVES)(random)

/** An instant of the day before midnight, often of its last seconds. */
const startMs = (random: Random): number =>
  MIDNIGHT - (random() < 0.5 ? between(random, 0, 30_000) : between(random, 0, DAY_MS))

const ADDRESSES = [
  ...['198.51.100.7', '198.51.100.8', '198.52.100.7', '203.0.113.9'],
  ...['2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1'],
]

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

/** Asks until there are so many refusals; gives those whose wait is too long or too short. */
async function playRefusals(ask: ReturnType<typeof createAsk>, random: Random, least: number) {
  const seen = { refusals: 0, overMidnight: 0, steppedBack: 0 }
  const late: string[] = []
  const early: string[] = []
  let nowMs = startMs(random)
  let highestMs = nowMs
  while (seen.refusals < least) {
    nowMs += move(random)
    const key = random() < 0.2 ? 'demo' : pick(random, KEYS).key
    const ip = pick(random, ADDRESSES)
    const seconds = await ask(key, ip, nowMs)
    if (seconds !== null) {
      const thenMs = nowMs + seconds * SECOND_MS
      seen.refusals += 1
      seen.overMidnight += Number(dayOf(thenMs) > dayOf(nowMs))
      seen.steppedBack += Number(nowMs < highestMs)
      const what = JSON.stringify({ key, ip, nowMs, seconds })
      if (seconds > 1 && (await ask(key, ip, thenMs - SECOND_MS)) === null) late.push(what)
      if ((await ask(key, ip, thenMs)) !== null) early.push(what)
      highestMs = Math.max(highestMs, thenMs)
      if (random() < 0.5) nowMs = thenMs // otherwise the clock steps back to where it was
    }
    highestMs = Math.max(highestMs, nowMs)
  }
  return { ...seen, late, early }
}

/**
 * Checks that retry_after is minimal (contract B3), as tests of the limiter do in process: two servers on
 * one clock, which moves over midnight, forwards and back. A second earlier the same request is still
 * refused, and then it is served.
 */
async function tightFinding(run: Run): Promise<Finding> {
  const random = randomOf(run.seed, 'tight')
  const data = run.directory('tight')
  addKeys(data, PLANS, KEYS, MIDNIGHT - 2 * DAY_MS)
  const clock = join(data, 'clock')
  writeFileSync(clock, String(MIDNIGHT - DAY_MS))
  const start = () => startServe(run.binary, { data, clock, more: ['--trust-proxy', '127.0.0.1'] })
  const servers = [await start(), await start()]
  const least = scaled(REFUSALS, run)
  const seen = await playRefusals(createAsk(servers, clock, random), random, least)
  await Promise.all(servers.map(server => server.stop()))
  const { refusals, overMidnight, steppedBack, late, early } = seen
  for (const what of early.slice(0, 3)) run.say(`early: ${what}`)
  for (const what of late.slice(0, 3)) run.say(`late: ${what}`)
  return {
    promise: 'retry_after is the fewest seconds after which the same request is admitted',
    figure:
      `${early.length} too short, ${late.length} too long of ${count(refusals)} ` +
      `(${count(overMidnight)} over midnight, ${count(steppedBack)} after the clock stepped back)`,
    bound: `0 of at least ${count(least)}`,
    holds: early.length + late.length === 0 && overMidnight > 0 && steppedBack > 0,
  }
}

export const limiter: Part = async run => [...(await loadAndJudge(run)), await tightFinding(run)]
