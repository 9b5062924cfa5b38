/**
 * Client addresses (contract B7) and the auth throttle: combinations of peer, X-Forwarded-For and
 * trusted ranges are counted in the bucket that the oracle names, in process and, a sample of them,
 * over real sockets, where the demo key's two requests a minute show the bucket.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addKeys } from '../../../support/fixtures.ts'
import type { Where } from '../../../support/launch.ts'
import { between, pick, randomOf } from '../../../support/random.ts'
import { exchange, type RawAnswer } from '../../support/client.ts'
import { startServe } from '../../support/serve.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import {
  anyCombination,
  bucketOf,
  type Combination,
  checkCombinations,
  clientOf,
  type Entry,
  v4,
} from './oracle.ts'

const COMBINATIONS = 10_000
/** Servers, each with trusted ranges of its own, and combinations sent to each. */
const SERVERS = 10
const COMBINATIONS_EACH = 60
/** How often each is sent: the demo key admits two of them. */
const TIMES = 3
const DEMO_LIMIT = 2
/** Request heads up to the first size are read, from the second size they are refused. */
const HEAD_BYTES = { read: 7_900, refused: 8_400 }

const list = (items: object): string =>
  Object.entries(items)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ')

function inProcess({ seed, say }: Run, count: number): Finding[] {
  const { kinds, buckets, changed, wrong } = checkCombinations(seed, count)
  for (const line of [...changed, ...wrong].slice(0, 5)) say(line)
  return [
    {
      promise: 'an untrusted peer never changes its bucket',
      figure: `${changed.length} of ${kinds['untrusted peers']} untrusted peers`,
      bound: '0',
      holds: changed.length === 0 && kinds['untrusted peers'] > 0,
    },
    {
      promise: 'a client is counted in the bucket that the oracle names',
      figure: `${wrong.length} wrong of ${count} combinations (${list({ buckets, ...kinds })})`,
      bound: '0 wrong',
      holds: wrong.length === 0,
    },
  ]
}

/** A combination whose peer exists on this machine: 127.0.0.1 to 127.0.0.12, or a unix socket. */
function socketCombination(
  random: () => number,
  ranges: Combination['ranges'],
  isUnix: boolean,
): Combination {
  const last = between(random, 1, 12)
  const peer = isUnix ? null : { text: `127.0.0.${last}`, means: v4(127, 0, 0, last) }
  const { entries } = anyCombination(random)
  return { ranges, peer, entries }
}

/** The header lines of the entries: one, or two with the same meaning. */
function linesOf(random: () => number, entries: readonly Entry[]): string {
  const at = random() < 0.2 ? between(random, 1, entries.length) : entries.length
  const lines = [entries.slice(0, at), entries.slice(at)].filter(part => part.length > 0)
  return lines
    .map(part => `X-Forwarded-For: ${part.map(({ text }) => text).join(', ')}\r\n`)
    .join('')
}

/** The request of a combination, and the bucket it is counted in; `null`: its head is refused. */
function requestOf(random: () => number, combination: Combination) {
  const lines = combination.entries ? linesOf(random, combination.entries) : ''
  const text = `GET /api?key=demo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}\r\n`
  const bytes = Buffer.byteLength(text)
  if (bytes > HEAD_BYTES.read && bytes < HEAD_BYTES.refused) return null
  const bucket = bytes < HEAD_BYTES.read ? bucketOf(clientOf(combination)) : null
  return { text, bucket, from: combination.peer?.text }
}

/** Counts the requests of every bucket; gives the expected status of the next one. */
function createCounter() {
  const used = new Map<string, number>()
  return (bucket: string | null): number => {
    if (bucket === null) return 431
    const count = used.get(bucket) ?? 0
    used.set(bucket, count + 1)
    return count < DEMO_LIMIT ? 404 : 429
  }
}

/** Trusted ranges around the peers of a sample. */
const LOOPBACK = [32, 31, 30, 29, 8].map(bits => ({
  text: `127.0.0.4/${bits}`,
  base: v4(127, 0, 0, 4),
  bits: 96 + bits,
}))

type Sampled = { statuses: number[]; wrong: string[] }

/** Sends combinations to a new server. */
async function sample(run: Run, random: () => number, isUnix: boolean): Promise<Sampled> {
  const data = run.directory('addresses')
  const clock = join(data, 'clock')
  writeFileSync(clock, String(Date.now())) // it stands still: no window ends
  const ranges = [pick(random, LOOPBACK), ...anyCombination(random).ranges]
  const more = ['--trust-proxy', ranges.map(({ text }) => text).join()]
  const listen = isUnix ? `unix:${join(data, 's')}` : '127.0.0.1:0'
  const server = await startServe(run.binary, { data, clock, listen, more })
  const statusOf = createCounter()
  const sampled: Sampled = { statuses: [], wrong: [] }
  for (let n = 0; n < COMBINATIONS_EACH; n += 1) {
    const request = requestOf(random, socketCombination(random, ranges, isUnix))
    for (let time = 0; request && time < TIMES; time += 1) {
      const expected = statusOf(request.bucket)
      const { status } = await exchange(server.where, request.text, request)
      sampled.statuses.push(status)
      if (status === expected) continue
      sampled.wrong.push(`${status} is not ${expected}: ${request.text.slice(0, 300)}`)
    }
  }
  await server.stop()
  return sampled
}

async function overSockets(run: Run): Promise<Finding> {
  const random = randomOf(run.seed, 'sockets')
  const servers = scaled(SERVERS, run)
  const samples: Sampled[] = []
  for (let n = 0; n < servers; n += 1) samples.push(await sample(run, random, n % 3 === 2))
  const statuses = samples.flatMap(sampled => sampled.statuses)
  const wrong = samples.flatMap(sampled => sampled.wrong)
  for (const line of wrong.slice(0, 5)) run.say(line)
  const count = (status: number): number => statuses.filter(other => other === status).length
  return {
    promise: 'over real sockets, TCP and unix, the demo key is counted in that bucket',
    figure:
      `${wrong.length} of ${statuses.length} answers wrong (${servers} servers, ` +
      `${count(404)} admitted, ${count(431)} with too large a head)`,
    bound: '0',
    holds: wrong.length === 0,
  }
}

export const addresses: Part = async run => [
  ...inProcess(run, scaled(COMBINATIONS, run)),
  await overSockets(run),
  ...(await throttleFindings(run)),
]

/** The wrong keys a minute that are refused at once, and the delay of further refusals. */
const FAILURES_FREE = 10
const FAILURE_DELAY_MS = 300

const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789']
const PEER = '127.0.0.2'
/** Wrong keys sent at once, and how often; valid ones are sent meanwhile. */
const AT_ONCE = 20
const ROUNDS = 5
/** Timers of the server and of this process may differ by so much. */
const TIMER_MS = 5
/** A delayed refusal takes less than this. */
const ANSWER_MS_MAX = 1_000

const ask = (where: Where, key: string): Promise<RawAnswer> =>
  exchange(where, `GET /api?key=${key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, {
    from: PEER,
  })

/** Adds an unlimited key to a data directory; gives it, and wrong keys of every kind. */
function addThrottleKeys(data: string, random: () => number) {
  const keyOf = (prefix: string): string =>
    prefix + Array.from({ length: 32 }, () => pick(random, LETTERS)).join('')
  const [valid, expired, revoked] = [keyOf('pl_'), keyOf('pl_'), keyOf('pl_')]
  const nowMs = Date.now()
  addKeys(data, { free: {} }, [
    { key: valid, plan: 'free' },
    { key: expired, plan: 'free', expiresAt: nowMs },
    { key: revoked, plan: 'free', revokedAt: nowMs },
  ])
  return { valid, wrong: [keyOf('pl_'), expired, revoked, keyOf('temp_')] }
}

const range = (answers: readonly RawAnswer[]): string => {
  const ms = answers.map(answer => answer.ms)
  return `${Math.round(Math.min(...ms))} to ${Math.round(Math.max(...ms))} ms`
}

/** Rounds of wrong keys at once, and meanwhile valid ones one after the other. */
async function slow(where: Where, valid: string, wrong: readonly string[]) {
  const delayed: RawAnswer[] = []
  const served: RawAnswer[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const waiting = Array.from({ length: AT_ONCE }, (_, n) =>
      ask(where, wrong[n % wrong.length] ?? ''),
    )
    let isOver = false
    const all = Promise.all(waiting).then(answers => {
      isOver = true
      delayed.push(...answers)
    })
    while (!isOver) served.push(await ask(where, valid))
    await all
  }
  return { delayed, served }
}

async function throttleFindings(run: Run): Promise<Finding[]> {
  const data = run.directory('throttle')
  const { valid, wrong } = addThrottleKeys(data, randomOf(run.seed, 'throttle'))
  const server = await startServe(run.binary, { data })
  const free: RawAnswer[] = []
  for (let n = 0; n < FAILURES_FREE; n += 1) {
    free.push(await ask(server.where, wrong[n % wrong.length] ?? ''))
  }
  const { delayed, served } = await slow(server.where, valid, wrong)
  const last = Array.from({ length: AT_ONCE }, () => ask(server.where, wrong[0] ?? ''))
  await ask(server.where, valid) // once it is answered, the wrong keys have arrived
  await server.stop()
  const released = await Promise.all(last)

  const isAll = (answers: readonly RawAnswer[], status: number): boolean =>
    answers.every(answer => answer.status === status)
  const isDelayed = ({ ms }: RawAnswer): boolean => ms >= FAILURE_DELAY_MS - TIMER_MS
  const slowServed = served.filter(isDelayed).length
  return [
    {
      promise: `after ${FAILURES_FREE} wrong keys a minute, further ones are refused with a delay`,
      figure: `the first: ${range(free)}; ${delayed.length} further ones: ${range(delayed)}`,
      bound: `${FAILURE_DELAY_MS} ms delay, in less than ${ANSWER_MS_MAX} ms`,
      holds:
        isAll([...free, ...delayed], 403) &&
        delayed.every(answer => isDelayed(answer) && answer.ms < ANSWER_MS_MAX) &&
        !free.some(isDelayed),
    },
    {
      promise: 'a valid key from the same address is not slowed meanwhile',
      figure: `${slowServed} of ${served.length} slowed: ${range(served)}`,
      bound: '0',
      holds: slowServed === 0 && isAll(served, 404) && served.length >= ROUNDS,
    },
    {
      promise: 'at SIGTERM delayed refusals are sent at once',
      figure: `${released.length} answers: ${range(released)}`,
      bound: `each before its ${FAILURE_DELAY_MS} ms`,
      holds: isAll(released, 403) && !released.some(isDelayed),
    },
  ]
}
