/**
 * Crowding out (contract B9): a key that asks for many long answers and reads them slowly, on a list of a million
 * proxies in sixteen /16s. Meanwhile a paying customer sends requests to the server, and for comparison to another
 * one on the same data.
 */
import { join } from 'node:path'
import { addKeys } from '../../support/fixtures.ts'
import { type Server, succeed } from '../../support/launch.ts'
import { script } from '../support/script.ts'
import { startServe } from '../support/serve.ts'
import { startSlow } from '../support/slow-client.ts'
import { count, percentile, shown } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

const ROWS = 1_000_000
const NETWORKS = 16
const SECONDS = 20
/** One key asks for as many long answers as there are slots. */
const GREEDY = 64
const GREEDY_DOWNLOADS = 4
/** By then an attack has begun. */
const SETTLE_MS = 8_000

/** What most answers may wait longer than on the other server; the longest is a matter of luck. */
const MOST = 0.95
const SMALL_MS_MAX = 50
const BEGIN_MS_MAX = 1_000
const LONGEST_MS_MAX = 1_000

const PAYING = 'pl_paying'
const SLOW = 'pl_slow'

async function writeList(file: string, rows: number, nowSeconds: number): Promise<void> {
  const writer = Bun.file(file).writer({ highWaterMark: 1 << 21 })
  for (let n = 0; n < rows; n += 1) {
    const host = Math.floor(n / NETWORKS)
    const ip = `${20 + (n % NETWORKS)}.7.${(host >> 8) & 255}.${host & 255}:8080`
    const row = { ip, type: 'socks5', works: '95', checked_at: nowSeconds - (n % 590) }
    writer.write(`${JSON.stringify(row)}\n`)
    if (n % 10_000 === 0) await writer.flush()
  }
  await writer.end()
}

async function prepare(run: Run): Promise<string> {
  const file = join(run.directory('files'), 'rows.ndjson')
  const data = run.directory('data')
  await writeList(file, scaled(ROWS, run), Math.floor(Date.now() / 1000))
  await succeed([run.binary, 'import', file, '--format', 'ndjson', '--data', data])
  addKeys(data, { paying: {}, slow: { downloads: GREEDY_DOWNLOADS } }, [
    { key: PAYING, plan: 'paying' },
    { key: SLOW, plan: 'slow' },
  ])
  return data
}

type ProbeInput = { attacked: number; control: number; seconds: number }
/** How long an answer took on both servers, in milliseconds. */
type Pair = [attackedMs: number, controlMs: number]
type ProbeResult = { small: Pair[]; long: Pair[]; refused: number }

const PAUSE_MS = 20

/**
 * A paying customer, who asks the server under attack and another one on the same data at the same time:
 * what is slow on both is the machine. It ends after `seconds`.
 */
async function probe({ attacked, control, seconds }: ProbeInput): Promise<ProbeResult> {
  const result: ProbeResult = { small: [], long: [], refused: 0 }
  const endMs = performance.now() + seconds * 1000
  let sent = 0

  /** Asks for an answer that is not cached; gives the time to its first bytes. */
  async function timeOf(port: number, query: string): Promise<number> {
    const startMs = performance.now()
    const reading = new AbortController()
    const { signal } = reading
    const response = await fetch(`http://127.0.0.1:${port}/api?key=${PAYING}&${query}`, { signal })
    await response.body?.getReader().read()
    const ms = performance.now() - startMs
    if (response.status !== 200) result.refused += 1
    reading.abort()
    return ms
  }
  async function both(query: string): Promise<Pair> {
    const timed = `${query}&time=${86_400 + sent++}`
    return await Promise.all([timeOf(attacked, timed), timeOf(control, timed)])
  }
  while (performance.now() < endMs) {
    result.small.push(await both('count=1'))
    result.long.push(await both('get=json'))
    await Bun.sleep(PAUSE_MS)
  }
  return result
}

/** What the customer saw while `attack` went on. */
async function probeDuring(servers: { attacked: Server; control: Server }, seconds: number) {
  const { attacked, control } = servers
  await Bun.sleep(SETTLE_MS)
  const ports = { attacked: attacked.port, control: control.port }
  return startProbe({ ...ports, seconds }, seconds + 60).result
}

const longestOf = (pairs: readonly Pair[], server: 0 | 1): number =>
  Math.max(...pairs.map(pair => pair[server]))

/** Whether nearly all answers took hardly longer than on the other server. */
function finding(
  promise: string,
  pairs: readonly Pair[],
  refused: number,
  [msMax, longestMsMax]: readonly [most: number, longest: number],
): Finding {
  const over = percentile(
    pairs.map(([attackedMs, controlMs]) => attackedMs - controlMs),
    MOST,
  )
  const longest = longestOf(pairs, 0)
  const longestAlone = longestOf(pairs, 1)
  return {
    promise,
    figure:
      `the longest of ${count(pairs.length)} after ${shown(longest)} ms (${shown(longestAlone)} ms ` +
      `on the other server), p95 ${shown(over)} ms later than there; ${refused} refused`,
    bound: `p95 ≤ ${msMax} ms later, the longest ≤ ${longestMsMax} ms later; 0 refused`,
    holds:
      pairs.length > 0 && refused === 0 && over <= msMax && longest <= longestAlone + longestMsMax,
  }
}

const smallFinding = (attack: string, { small, refused }: ProbeResult): Finding => {
  const promise = `A small answer of a paying key does not wait for ${attack}`
  return finding(promise, small, refused, [SMALL_MS_MAX, LONGEST_MS_MAX])
}

const longFinding = (attack: string, { long, refused }: ProbeResult): Finding => {
  const promise = `A long answer of a paying key begins beside ${attack}`
  return finding(promise, long, refused, [BEGIN_MS_MAX, LONGEST_MS_MAX])
}

/** Slow readers with one key; no two ask for the same. */
function startReaders({ where }: Server, seconds: number) {
  const targets = Array.from(
    { length: GREEDY },
    (_, n) => `/api?key=${SLOW}&get=json&time=${90_000 + n}`,
  )
  const how = { where, manner: 'steady', clients: GREEDY, targets, seconds } as const
  return startSlow({ ...how, again: true }, seconds + 30)
}

export const crowd: Part = async run => {
  const data = await prepare(run)
  const more = ['--log', 'off', '--grace', '1s']
  const attacked = await startServe(run.binary, { data, more })
  const control = await startServe(run.binary, { data, more })
  const servers = { attacked, control }
  const seconds = Math.max(3, scaled(SECONDS, run))
  const attackSeconds = SETTLE_MS / 1000 + seconds + 1

  const greedy = startReaders(attacked, attackSeconds)
  const besideGreedy = await probeDuring(servers, seconds)
  await greedy.stop()

  await Promise.all([attacked.stop(), control.stop()])
  const many = `one key that asks for ${GREEDY} long answers`
  return [smallFinding(many, besideGreedy), longFinding(many, besideGreedy)]
}

const startProbe = script(import.meta, probe)
