/**
 * The clients of a soak: requests of every kind leave at fixed times, whether or not earlier ones
 * are answered, and full lists are downloaded meanwhile. Writes a line of JSON for each span of
 * time. A script, started by `soak.ts`.
 */

import type { Where } from '../../../support/launch.ts'
import { between, pick, randomOf } from '../../../support/random.ts'
import { type Client, openClient, type Reply } from '../../support/client.ts'
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

/** Most open connections, and so most requests under way. */
const CONNECTIONS_MAX = 64
const DOWNLOAD_EVERY_MS = 2000
/** Unexpected answers that are named in a span. */
const NAMED = 5

const localhost = (port: number): Where => ({ kind: 'tcp', hostname: '127.0.0.1', port })

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
/** The kind whose requests have a connection each. */
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

/** Keep-alive connections, each for one request at a time. */
function createPool(port: number) {
  const idle: Client[] = []
  const waiting: ((client: Promise<Client>) => void)[] = []
  let open = 0
  /** Opens a connection, in place of one that was closed. */
  const renew = (): Promise<Client> => openClient(localhost(port))
  return {
    take(): Promise<Client> {
      const known = idle.shift() // the longest idle one: none stays idle for long
      if (known) return known.isOpen() ? Promise.resolve(known) : renew()
      if (open >= CONNECTIONS_MAX) return new Promise(resolve => waiting.push(resolve))
      open += 1
      return renew()
    },
    /** Takes back a connection; a closed one is replaced when it is needed. */
    give(client: Client): void {
      const next = waiting.shift()
      if (next) next(client.isOpen() ? Promise.resolve(client) : renew())
      else idle.push(client)
    },
    /** Notes that a connection could not be opened. */
    drop(): void {
      open -= 1
    },
  }
}

/** Sends one request of a random kind and notes its answer. */
function createSender({ port, keys, seed }: SoakLoad, tally: Tally) {
  const random = randomOf(seed, 'soak requests')
  const pool = createPool(port)
  const kinds = kindsFor(keys).flatMap(kind => new Array<Kind>(kind[1]).fill(kind))

  const alone = async (target: string, fields?: string): Promise<Reply> => {
    const client = await openClient(localhost(port))
    return client.ask(target, fields).finally(client.close)
  }
  async function pooled(target: string, fields?: string): Promise<Reply> {
    const client = await pool.take().catch(error => {
      pool.drop()
      throw error
    })
    return client.ask(target, fields).finally(() => pool.give(client))
  }

  return async (n: number, dueMs: number): Promise<void> => {
    const [name, , statuses, ask] = pick(random, kinds)
    const [target, fields] = ask(n, random)
    tally.sent()
    try {
      const { status, isComplete } = await (name === NEW_CONNECTION ? alone : pooled)(
        target,
        fields,
      )
      if (!statuses.includes(status)) tally.unexpected(`${name}: status ${status}`)
      if (!isComplete) tally.unexpected(`${name}: an answer was truncated`)
      tally.answered(performance.now() - dueMs)
    } catch (error) {
      tally.unexpected(`${name}: ${messageOf(error)}`)
    }
  }
}

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

async function main(input: SoakLoad): Promise<void> {
  const { ratePerSecond, spanMs, spans } = input
  const tally = createTally()
  const send = createSender(input, tally)
  const downloads = startDownloads(input, tally)
  const startMs = performance.now()
  const total = (ratePerSecond * spanMs * spans) / 1000
  let sent = 0
  let written = 0
  while (written < spans) {
    const nowMs = performance.now()
    for (; sent < total; sent += 1) {
      const dueMs = startMs + (sent * 1000) / ratePerSecond
      if (dueMs > nowMs) break
      void send(sent, dueMs)
    }
    if (nowMs >= startMs + (written + 1) * spanMs) {
      written += 1
      process.stdout.write(`${JSON.stringify(tally.take())}\n`)
    }
    await Bun.sleep(1)
  }
  clearInterval(downloads)
  process.exit(0)
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? 'null') as SoakLoad) // from soak.ts
