/**
 * A steady load for minutes or hours during imports: memory, descriptors, WALs, disk and latency must stay flat.
 *
 *     bun test/lab/torture/soak/soak.ts        for 300 seconds
 *     SECONDS=7200 RATE=2000 SEED=7 …          longer, faster, repeatable
 *
 * Needs dist/proxylist (or PROXYLIST_BINARY) and /proc. Exits with 1 when something grows.
 *
 * Flat means: the least-squares line through the second half, extended to an hour, rises by no more than a share of
 * the level. It goes through the lowest value of every half minute: the engine collects garbage every ten to thirty
 * seconds, and what remains then is what counts (observed: a sawtooth from 195 to 270 MB, whose low points lie within
 * 5 MB). Five such points are a slope of about 100 MB an hour at most; an object of 100 bytes kept for each request is
 * 360 MB an hour at 1,000 requests a second. The bound, the level of about 200 MB, lies between.
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Server, succeed } from '../../../support/launch.ts'
import { between, pick, randomOf } from '../../../support/random.ts'
import { temporaryDirectory } from '../../../support/temporary.ts'
import { type Client, openClient } from '../../support/client.ts'
import { addCustomers, keyOf, SPENT_KEY } from '../../support/customers.ts'
import {
  binaryPath,
  headline,
  messageOf,
  numberFrom,
  print,
  runToEnd,
  say,
  seedFrom,
} from '../../support/main.ts'
import { readMemory } from '../../support/process.ts'
import { distinctBounds, TYPICAL, UNBOUNDED } from '../../support/queries.ts'
import { repeat } from '../../support/repeat.ts'
import { writeRows } from '../../support/rows.ts'
import { files, startServe } from '../../support/serve.ts'
import { count, markdown, median, percentile, shown } from '../../support/table.ts'

type Random = () => number

// The load: requests of every kind leave at fixed times, whether or not earlier ones are answered.

type Kind = readonly [
  name: string,
  /** How many of a hundred requests, and the statuses that they may get. */
  percent: number,
  statuses: readonly number[],
  /** The target and the header lines of the n-th request. */
  ask: (n: number, random: Random) => readonly [target: string, fields?: string],
]

/** So many that each stays far below the limits of its plan. */
const KEYS = 10_000
const FOUND = [200, 404]
const ENCODINGS = ['gzip', 'zstd', 'gzip, deflate, br, zstd']
const keyFrom = (random: Random): string => keyOf(between(random, 0, KEYS - 1))
const typical = (random: Random): string => `/api?key=${keyFrom(random)}&${pick(random, TYPICAL)}`
const distinct = (n: number, random: Random): string =>
  `/api?key=${keyFrom(random)}&${pick(random, UNBOUNDED)}${distinctBounds(n)}&get=json`
const encoding = (random: Random): string => `Accept-Encoding: ${pick(random, ENCODINGS)}\r\n`
const bearer = (random: Random): string => `Authorization: Bearer ${keyFrom(random)}\r\n`

const wrapped = (n: number, random: Random): string => `${typical(random)}&get=json&wrap=${n % 2}`

const KINDS: readonly Kind[] = [
  ['repeated', 42, FOUND, (_, random) => [typical(random)]],
  ['distinct', 20, FOUND, (n, random) => [distinct(n, random)]],
  ['compressed', 10, FOUND, (n, random) => [wrapped(n, random), encoding(random)]],
  ['in a header', 5, FOUND, (_, random) => [`/api?${pick(random, TYPICAL)}`, bearer(random)]],
  ['new connection', 5, FOUND, (_, random) => [typical(random), 'Connection: close\r\n']],
  ['spent', 8, [200, 429], () => [`/api?key=${SPENT_KEY}&count=50`]],
  ['demo', 2, [...FOUND, 429], () => ['/api?key=demo']],
  ['unknown key', 3, [403], n => [`/api?key=pl_unknown_${n}`]],
  ['bad value', 3, [400], (n, random) => [`/api?key=${keyFrom(random)}&works=${101 + n}`]],
  ['unknown path', 1, [404], n => [`/nothing/${n}`]],
  ['health', 1, [200], () => ['/healthz']],
]

/** Connections, and so most requests under way. */
const CONNECTIONS = 64
const DOWNLOAD_EVERY_MS = 2_000

type Span = Omit<ReturnType<typeof emptySpan>, 'latenciesMs'> & { p50Ms: number; p99Ms: number }
/** The answers of a span of time; latencies count from the time a request was due. */
const emptySpan = () => ({
  ...{ answered: 0, downloads: 0 },
  ...{ unexpected: [] as string[], latenciesMs: [] as number[] },
})

/** Sends requests until it is stopped, and downloads full lists meanwhile; `take` gives the span since the last call. */
function startLoad({ where, port }: Server, ratePerSecond: number, random: Random) {
  let span = emptySpan()
  let sent = 0
  const startMs = performance.now()
  const kinds = KINDS.flatMap(kind => new Array<Kind>(kind[1]).fill(kind))
  const clients: (Client | null)[] = new Array(CONNECTIONS).fill(null)

  async function ask(worker: number, n: number, dueMs: number): Promise<void> {
    const [name, , statuses, make] = pick(random, kinds)
    const sentMs = performance.now() // a timer may be early
    try {
      if (!clients[worker]?.isOpen()) clients[worker] = await openClient(where)
      const [target, fields] = make(n, random)
      const reply = await clients[worker]?.ask(target, fields)
      if (fields?.startsWith('Connection')) clients[worker]?.close()
      if (!reply || !statuses.includes(reply.status)) {
        span.unexpected.push(`${name}: status ${reply?.status}`)
      }
      if (!reply?.isComplete) span.unexpected.push(`${name}: an answer was truncated`)
      span.answered += 1
      span.latenciesMs.push(performance.now() - Math.min(dueMs, sentMs))
    } catch (error) {
      span.unexpected.push(`${name}: ${messageOf(error)}`)
    }
  }
  // While all workers wait for answers, requests wait, and their latency grows.
  const requests = repeat(async (_, worker) => {
    const n = sent++
    const dueMs = startMs + (n * 1000) / ratePerSecond
    await Bun.sleep(Math.max(0, dueMs - performance.now()))
    await ask(worker, n, dueMs)
  }, CONNECTIONS)
  const downloads = repeat(async n => {
    const url = `http://127.0.0.1:${port}/api?key=${keyOf(n % KEYS)}&time=86400&get=json`
    const headers = { 'accept-encoding': n % 2 === 0 ? 'identity' : 'gzip' }
    const text = await fetch(url, { headers }).then(
      response => response.text(),
      error => messageOf(error),
    )
    if (text.startsWith('[') && text.endsWith(']')) span.downloads += 1
    else span.unexpected.push(`full list: ${text.slice(0, 80)}`)
    await Bun.sleep(DOWNLOAD_EVERY_MS)
  })
  return {
    take(): Span {
      const { latenciesMs, ...taken } = span
      span = emptySpan()
      const [p50Ms, p99Ms] = [percentile(latenciesMs, 0.5), percentile(latenciesMs, 0.99)]
      return { ...taken, p50Ms, p99Ms }
    },
    stop: () => Promise.all([requests.stop(), downloads.stop()]),
  }
}

// What is measured, and what grows.

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0
/** One measurement of the server. */
function measure({ pid }: Server, data: string) {
  const memory = readMemory(pid)
  if (memory === null) throw new Error('the memory of the server cannot be read from /proc')
  const { list, access } = files(data)
  return {
    residentBytes: memory.residentBytes,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    listWalBytes: sizeOf(`${list}-wal`),
    accessWalBytes: sizeOf(`${access}-wal`),
    diskBytes: readdirSync(data).reduce((sum, name) => sum + sizeOf(join(data, name)), 0),
  }
}

type Sample = ReturnType<typeof measure> & {
  atSeconds: number
  span: Span
}

type Measure = {
  name: string
  unit: string
  of: (sample: Sample) => number
  /** Allowed growth in an hour, as a share of the level, and growth that is always allowed. */
  shareMax: number
  alwaysMax?: number
}
const mb = (of: (sample: Sample) => number) => (sample: Sample) => of(sample) / 1e6

const MEASURES: readonly Measure[] = [
  { name: 'resident memory', unit: 'MB', of: mb(sample => sample.residentBytes), shareMax: 1 },
  { name: 'open descriptors', unit: '', of: sample => sample.descriptors, shareMax: 3 },
  { name: 'WAL of the list', unit: 'MB', of: mb(sample => sample.listWalBytes), shareMax: 10 },
  { name: 'WAL of the usage', unit: 'MB', of: mb(sample => sample.accessWalBytes), shareMax: 3 },
  { name: 'data directory', unit: 'MB', of: mb(sample => sample.diskBytes), shareMax: 1 },
  { name: 'answer, p50', unit: 'ms', of: ({ span }) => span.p50Ms, shareMax: 5, alwaysMax: 5 },
]

type Point = { atSeconds: number; value: number }

/** The lowest of each `size` points: what is held. Above it is what waits to be collected or written back. */
const troughsOf = (points: readonly Point[], size: number): Point[] =>
  points.flatMap((_, at) => {
    const run = points.slice(at, at + size)
    if (at % size !== 0 || run.length < size) return []
    return [run.reduce((least, point) => (point.value < least.value ? point : least))]
  })

/** Slope of the least-squares line through points, in units a second; 0 for fewer than two. */
function slopeOf(points: readonly Point[]): number {
  const mean = (of: (point: Point) => number): number =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [atMean, valueMean] = [mean(point => point.atSeconds), mean(point => point.value)]
  const variance = mean(({ atSeconds }) => (atSeconds - atMean) ** 2)
  const covariance = mean(({ atSeconds, value }) => (atSeconds - atMean) * (value - valueMean))
  return variance > 0 ? covariance / variance : 0
}

/** Samples for one trough; fewer when there would not be enough troughs for a line. */
const SAMPLES_PER_TROUGH = 15
const TROUGHS_MIN = 5

/** The level of a measure in the second half, and how much it grows in an hour. */
export function growthOf<S extends { atSeconds: number }>(
  samples: readonly S[],
  of: (sample: S) => number,
) {
  const half = samples.slice(samples.length >> 1)
  const points = half.map(sample => ({ atSeconds: sample.atSeconds, value: of(sample) }))
  const size = Math.min(SAMPLES_PER_TROUGH, Math.floor(points.length / TROUGHS_MIN))
  const troughs = troughsOf(points, Math.max(1, size))
  return { level: median(troughs.map(({ value }) => value)), perHour: slopeOf(troughs) * 3_600 }
}

/** Share of the requests that may be left unsent at the end, by timers that are late. */
const UNSENT_SHARE_MAX = 0.01

/** The table of figures and bounds, and whether all of them hold. */
function growthTable(samples: readonly Sample[], wanted: number) {
  const lines = MEASURES.map(({ name, unit, of, shareMax, alwaysMax = 0 }) => {
    const { level, perHour } = growthOf(samples, of)
    const most = Math.max(alwaysMax, shareMax * level)
    const sign = perHour < 0 ? '−' : '+'
    return {
      cells: [
        ...[name, `${shown(level)} ${unit}`, `${sign}${shown(Math.abs(perHour))} ${unit} an hour`],
        `≤ +${shown(most)} ${unit} an hour`,
      ],
      holds: perHour <= most,
    }
  })
  const sum = (of: (span: Span) => number): number =>
    samples.reduce((all, { span }) => all + of(span), 0)
  const unexpected = samples.flatMap(({ span }) => span.unexpected)
  const answered = sum(span => span.answered)
  const [first] = unexpected
  lines.push({
    cells: ['unexpected answers', `${unexpected.length}${first ? ` (${first})` : ''}`, '', '0'],
    holds: unexpected.length === 0,
  })
  lines.push({
    cells: [
      ...['requests answered', count(answered), `and ${sum(span => span.downloads)} full lists`],
      `≥ ${count(Math.ceil(wanted * (1 - UNSENT_SHARE_MAX)))}`,
    ],
    holds: answered >= wanted * (1 - UNSENT_SHARE_MAX),
  })
  const rows = lines.map(({ cells, holds }) => [...cells, holds ? 'ok' : 'BROKEN'])
  return {
    table: markdown(['what', 'second half', 'slope', 'bound', 'ok'], rows),
    holds: lines.every(line => line.holds),
  }
}

const ROWS = 20_000
/** Of a merge: a quarter of the list, with newer checks. Every third import replaces the list. */
const MERGED_ROWS = 5_000
const IMPORT_EVERY_MS = 5_000
const SPAN_MS = 2_000
/** Rows are up to 590 s old when they are imported: every minute, thousands are removed. */
const RETAIN = '5m'

async function soak(binary: string, seconds: number, ratePerSecond: number, seed: number) {
  const dir = temporaryDirectory('soak')
  const data = join(dir, 'data')
  const file = join(dir, 'rows.ndjson')
  let imports = 0
  async function importOnce(): Promise<void> {
    const isReplace = imports % 3 === 0
    await writeRows(file, { rows: isReplace ? ROWS : MERGED_ROWS, nowMs: Date.now() })
    await succeed([binary, 'import', file, '--data', data, ...(isReplace ? ['--replace'] : [])])
    imports += 1
  }
  await importOnce()
  addCustomers(data, KEYS)
  const more = ['--retain', RETAIN, '--cache-bytes', '16MiB']
  const server = await startServe(binary, { data, more })
  const importing = repeat(async () => {
    await Promise.all([importOnce(), Bun.sleep(IMPORT_EVERY_MS)])
  })
  const load = startLoad(server, ratePerSecond, randomOf(seed, 'soak'))
  const startMs = performance.now()
  const samples: Sample[] = []
  while (samples.length < Math.ceil((seconds * 1000) / SPAN_MS)) {
    await Bun.sleep(startMs + (samples.length + 1) * SPAN_MS - performance.now())
    const atSeconds = (performance.now() - startMs) / 1000
    const span = load.take()
    if (span.unexpected.length > 0) say(`${Math.round(atSeconds)} s: ${span.unexpected.join('; ')}`)
    samples.push({ ...measure(server, data), atSeconds, span })
    if (samples.length % 15 !== 0) continue
    const figures = MEASURES.map(({ name, of }) => `${name} ${shown(of(samples.at(-1) as Sample))}`)
    say(`${Math.round(atSeconds)} of ${seconds} s, ${imports} imports: ${figures.join(', ')}`)
  }
  await load.stop()
  await importing.stop()
  await server.stop()
  return samples
}

async function main(): Promise<number> {
  const seconds = numberFrom('SECONDS', 300)
  const ratePerSecond = numberFrom('RATE', 1_000)
  const seed = seedFrom()
  say(`seed ${seed}`)
  const samples = await soak(binaryPath(), seconds, ratePerSecond, seed)
  const growth = growthTable(samples, ratePerSecond * seconds)
  print(`${headline(seed)}; ${ratePerSecond} requests/s for ${seconds} s\n`)
  print(growth.table)
  return growth.holds ? 0 : 1
}

if (import.meta.main) await runToEnd(main)
