/**
 * Client addresses (contract B7) and the auth throttle: combinations of peer, X-Forwarded-For and
 * trusted ranges are counted in the bucket that the oracle names, in process and, a sample of them,
 * over real sockets, where the demo key's two requests a minute show the bucket.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { between, pick, randomOf } from '../../../support/random.ts'
import { startServe } from '../../support/serve.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { exchange } from '../support/connect.ts'
import { throttleFindings } from './auth-throttle.ts'
import { checkCombinations } from './check.ts'
import { anyCombination, bucketOf, type Combination, clientOf, type Entry, v4 } from './oracle.ts'

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
      const { status } = await exchange(server.where, request.text, request.from)
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
