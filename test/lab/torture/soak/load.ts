/**
 * The clients of a soak: requests of every kind leave at fixed times, whether or not earlier ones
 * are answered, and full lists are downloaded meanwhile. Writes a line of JSON for each span of
 * time. A script, started by `soak.ts`.
 */

import { between, pick, randomOf } from '../../../support/random.ts'
import { type Client, openClient } from '../../support/client.ts'
import { keyOf, SPENT_KEY } from '../../support/customers.ts'
import { messageOf } from '../../support/main.ts'
import { distinctBounds, TYPICAL, UNBOUNDED } from '../../support/queries.ts'
import { percentile } from '../../support/table.ts'

export type SoakLoad = {
  port: number
  seed: number
  ratePerSecond: number
  keys: number
  /** Length of one span, and how many there are. */
  spanMs: number
  spans: number
}
/** The answers of one span; latencies count from the time a request was due. */
export type Span = {
  sent: number
  answered: number
  /** Full lists that were downloaded completely. */
  downloads: number
  /** Answers with a status that the kind must not get, and lost connections. */
  unexpected: string[]
  p50Ms: number
  p99Ms: number
  maxMs: number
}

/** Connections, and so most requests under way. */
const CONNECTIONS = 64
const DOWNLOAD_EVERY_MS = 2000
/** Unexpected answers that are named in a span. */
const NAMED = 5

type Kind = readonly [
  name: string,
  /** How many of a hundred requests. */
  percent: number,
  /** The statuses it may get. */
  statuses: readonly number[],
  /** The target and the header lines of the n-th request. */
  ask: (n: number, random: () => number) => readonly [target: string, fields?: string],
]

const FOUND = [200, 404]
/** The kind whose requests begin a connection. */
const NEW_CONNECTION = 'new connection'
const encodings = ['gzip', 'zstd', 'gzip, deflate, br, zstd'] as const

const kindsFor = (keys: number): readonly Kind[] => {
  const key = (random: () => number): string => keyOf(between(random, 0, keys - 1))
  const typical = (random: () => number): string =>
    `/api?key=${key(random)}&${pick(random, TYPICAL)}`
  return [
    ['repeated', 42, FOUND, (_, random) => [typical(random)]],
    [
      'distinct',
      20,
      FOUND,
      (n, random) => [
        `/api?key=${key(random)}&${pick(random, UNBOUNDED)}${distinctBounds(n)}&get=json`,
      ],
    ],
    [
      'compressed',
      10,
      FOUND,
      (_, random) => [
        `${typical(random)}&get=json&wrap=${between(random, 0, 1)}`,
        `Accept-Encoding: ${pick(random, encodings)}\r\n`,
      ],
    ],
    [
      'key in a header',
      5,
      FOUND,
      (_, random) => [`/api?${pick(random, TYPICAL)}`, `Authorization: Bearer ${key(random)}\r\n`],
    ],
    [NEW_CONNECTION, 5, FOUND, (_, random) => [typical(random)]],
    ['spent', 8, [200, 429], () => [`/api?key=${SPENT_KEY}&count=50`]],
    ['demo', 2, [200, 404, 429], () => ['/api?key=demo']],
    ['unknown key', 3, [403], n => [`/api?key=pl_unknown_${n}`]],
    ['bad value', 3, [400], (n, random) => [`/api?key=${key(random)}&works=${101 + n}`]],
    ['unknown path', 1, [404], n => [`/nothing/${n}`]],
    ['health', 1, [200], () => ['/healthz']],
  ]
}

/** The counts of the current span. */
function createTally() {
  let latencies: number[] = []
  let span = { sent: 0, answered: 0, downloads: 0, unexpected: [] as string[] }
  return {
    sent(): void {
      span.sent += 1
    },
    downloaded(): void {
      span.downloads += 1
    },
    answered(latencyMs: number): void {
      span.answered += 1
      latencies.push(latencyMs)
    },
    unexpected: (text: string): void => {
      if (span.unexpected.length < NAMED) span.unexpected.push(text)
      else span.unexpected[NAMED] = 'and more'
    },
    /** Ends the span; a new one begins. */
    take(): Span {
      const [p50Ms, p99Ms, maxMs] = [0.5, 0.99, 1].map(share => percentile(latencies, share))
      const taken = { ...span, p50Ms: p50Ms ?? 0, p99Ms: p99Ms ?? 0, maxMs: maxMs ?? 0 }
      span = { sent: 0, answered: 0, downloads: 0, unexpected: [] }
      latencies = []
      return taken
    },
  }
}
type Tally = ReturnType<typeof createTally>

/** Downloads the full list every DOWNLOAD_EVERY_MS. */
function startDownloads({ port, keys }: SoakLoad, tally: Tally) {
  const isList = (text: string): boolean => text.startsWith('[') && text.endsWith(']')
  let n = 0
  const download = async (): Promise<void> => {
    n += 1
    const url = `http://127.0.0.1:${port}/api?key=${keyOf(n % keys)}&time=86400&get=json`
    const encoding = n % 2 === 0 ? 'identity' : 'gzip'
    try {
      const response = await fetch(url, { headers: { 'accept-encoding': encoding } })
      const text = await response.text()
      if (response.status === 200 && isList(text)) tally.downloaded()
      else tally.unexpected(`full list: status ${response.status}, ${text.length} characters`)
    } catch (error) {
      tally.unexpected(`full list: ${messageOf(error)}`)
    }
  }
  return setInterval(() => void download(), DOWNLOAD_EVERY_MS)
}

/**
 * A worker of the load: takes the next request, waits until it is due, and sends it. While all
 * workers wait for answers, requests wait, and their latency grows.
 */
async function work(input: SoakLoad, tally: Tally, next: () => number, random: () => number) {
  const where = { kind: 'tcp', hostname: '127.0.0.1', port: input.port } as const
  const kinds = kindsFor(input.keys).flatMap(kind => new Array<Kind>(kind[1]).fill(kind))
  const startMs = performance.now()
  const total = (input.ratePerSecond * input.spanMs * input.spans) / 1000
  let client: Client | null = null
  for (let n = next(); n < total; n = next()) {
    const dueMs = startMs + (n * 1000) / input.ratePerSecond
    await Bun.sleep(Math.max(0, dueMs - performance.now()))
    const [name, , statuses, ask] = pick(random, kinds)
    tally.sent()
    try {
      if (name === NEW_CONNECTION) client?.close()
      if (!client?.isOpen()) client = await openClient(where)
      const { status, isComplete } = await client.ask(...ask(n, random))
      if (!statuses.includes(status)) tally.unexpected(`${name}: status ${status}`)
      if (!isComplete) tally.unexpected(`${name}: an answer was truncated`)
      tally.answered(performance.now() - dueMs)
    } catch (error) {
      tally.unexpected(`${name}: ${messageOf(error)}`)
    }
  }
}

async function main(input: SoakLoad): Promise<void> {
  const { seed, spanMs, spans } = input
  const tally = createTally()
  const downloads = startDownloads(input, tally)
  const random = randomOf(seed, 'soak requests')
  let sent = 0
  const workers = Array.from({ length: CONNECTIONS }, () =>
    work(input, tally, () => sent++, random),
  )
  const startMs = performance.now()
  for (let written = 1; written <= spans; written += 1) {
    await Bun.sleep(startMs + written * spanMs - performance.now())
    process.stdout.write(`${JSON.stringify(tally.take())}\n`)
  }
  clearInterval(downloads)
  await Promise.all(workers)
  process.exit(0)
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? 'null') as SoakLoad) // from soak.ts
