/**
 * The clients of a soak: requests of every kind leave at fixed times, whether or not earlier ones
 * are answered, and whole lists are downloaded beside them. Writes a line of JSON for each span of
 * time. A script, started by `soak.ts`.
 */
import { keyOf, SPENT_KEY } from '../../bench/customers.ts'
import { distinctBounds, TYPICAL, UNBOUNDED } from '../../bench/queries.ts'
import { percentile } from '../../bench/table.ts'
import { type Asker, openAsker, type Reply } from '../kill/asker.ts'
import { between, pick, randomOf } from '../part.ts'

export type SoakLoad = {
  port: number
  seed: number
  ratePerSecond: number
  keys: number
  /** Length of one span, and how many there are. */
  spanMs: number
  spans: number
}
/** What came in one span; latencies count from the time a request was meant to leave. */
export type Span = {
  sent: number
  answered: number
  /** Whole lists that came to their end. */
  downloads: number
  /** Answers with another status than the kind should get, and connections lost. */
  odd: string[]
  p50Ms: number
  p99Ms: number
  maxMs: number
}

/** Most connections that are kept; as many requests can be under way. */
const CONNECTIONS_MAX = 64
const DOWNLOAD_EVERY_MS = 2000
/** Odd answers that are named in a span. */
const NAMED = 5

type Kind = {
  name: string
  /** How many of a hundred requests. */
  percent: number
  /** The statuses it may get. */
  statuses: readonly number[]
  /** The target and the header lines of the n-th request. */
  ask: (n: number, random: () => number) => { target: string; fields?: string }
  /** Whether it comes over a connection of its own, which ends with it. */
  isAlone?: boolean
}

const FOUND = [200, 404]
const encodings = ['gzip', 'zstd', 'gzip, deflate, br, zstd'] as const

const kindsFor = (keys: number): readonly Kind[] => {
  const key = (random: () => number): string => keyOf(between(random, 0, keys - 1))
  const typical = (random: () => number): string =>
    `/api?key=${key(random)}&${pick(random, TYPICAL)}`
  const target = (text: string) => () => ({ target: text })
  return [
    { name: 'repeated', percent: 42, statuses: FOUND, ask: (_, r) => ({ target: typical(r) }) },
    {
      name: 'distinct',
      percent: 20,
      statuses: FOUND,
      ask: (n, random) => ({
        target: `/api?key=${key(random)}&${pick(random, UNBOUNDED)}${distinctBounds(n)}&get=json`,
      }),
    },
    {
      name: 'compressed',
      percent: 10,
      statuses: FOUND,
      ask: (_, random) => ({
        target: `${typical(random)}&get=json&wrap=${between(random, 0, 1)}`,
        fields: `Accept-Encoding: ${pick(random, encodings)}\r\n`,
      }),
    },
    {
      name: 'key in a header',
      percent: 5,
      statuses: FOUND,
      ask: (_, random) => ({
        target: `/api?${pick(random, TYPICAL)}`,
        fields: `Authorization: Bearer ${key(random)}\r\n`,
      }),
    },
    {
      name: 'new connection',
      percent: 5,
      statuses: FOUND,
      isAlone: true,
      ask: (_, random) => ({ target: typical(random) }),
    },
    {
      name: 'spent',
      percent: 8,
      statuses: [200, 429],
      ask: target(`/api?key=${SPENT_KEY}&count=50`),
    },
    { name: 'demo', percent: 2, statuses: [200, 404, 429], ask: target('/api?key=demo') },
    {
      name: 'unknown key',
      percent: 3,
      statuses: [403],
      ask: n => ({ target: `/api?key=pl_unknown_${n}` }),
    },
    {
      name: 'bad value',
      percent: 3,
      statuses: [400],
      ask: (n, random) => ({ target: `/api?key=${key(random)}&works=${101 + n}` }),
    },
    { name: 'no such path', percent: 1, statuses: [404], ask: n => ({ target: `/nothing/${n}` }) },
    { name: 'health', percent: 1, statuses: [200], ask: target('/healthz') },
  ]
}

/** What is counted in the span that is under way. */
function createTally() {
  let latencies: number[] = []
  let span = { sent: 0, answered: 0, downloads: 0, odd: [] as string[] }
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
    odd: (text: string): void => {
      if (span.odd.length < NAMED) span.odd.push(text)
      else span.odd[NAMED] = 'and more'
    },
    /** Ends the span; a new one begins. */
    take(): Span {
      const [p50Ms, p99Ms, maxMs] = [0.5, 0.99, 1].map(share => percentile(latencies, share))
      const taken = { ...span, p50Ms: p50Ms ?? 0, p99Ms: p99Ms ?? 0, maxMs: maxMs ?? 0 }
      span = { sent: 0, answered: 0, downloads: 0, odd: [] }
      latencies = []
      return taken
    },
  }
}
type Tally = ReturnType<typeof createTally>

/** Connections that are used again, each for one request at a time. */
function createPool(port: number) {
  const idle: Asker[] = []
  const waiting: ((asker: Promise<Asker>) => void)[] = []
  let open = 0
  /** Opens a connection in place of one that is gone. */
  const renew = (): Promise<Asker> => openAsker({ port })
  return {
    take(): Promise<Asker> {
      const known = idle.shift() // the longest idle one, so that none stays idle for long
      if (known) return known.isOpen() ? Promise.resolve(known) : renew()
      if (open >= CONNECTIONS_MAX) return new Promise(resolve => waiting.push(resolve))
      open += 1
      return renew()
    },
    /** Takes back a connection; one that has ended is replaced when it is wanted. */
    give(asker: Asker): void {
      const next = waiting.shift()
      if (next) next(asker.isOpen() ? Promise.resolve(asker) : renew())
      else idle.push(asker)
    },
    /** Tells that a connection could not be opened. */
    drop(): void {
      open -= 1
    },
  }
}

/** Sends one request of a kind and notes what comes of it. */
function createSender({ port, keys, seed }: SoakLoad, tally: Tally) {
  const random = randomOf(seed, 'soak requests')
  const pool = createPool(port)
  const kinds = kindsFor(keys).flatMap(kind => new Array<Kind>(kind.percent).fill(kind))

  const alone = async (target: string, fields?: string): Promise<Reply> => {
    const asker = await openAsker({ port })
    return asker.ask(target, fields).finally(asker.close)
  }
  async function pooled(target: string, fields?: string): Promise<Reply> {
    const asker = await pool.take().catch(error => {
      pool.drop()
      throw error
    })
    return asker.ask(target, fields).finally(() => pool.give(asker))
  }

  return async (n: number, dueMs: number): Promise<void> => {
    const kind = pick(random, kinds)
    const { target, fields } = kind.ask(n, random)
    tally.sent()
    try {
      const { status, isWhole } = await (kind.isAlone ? alone : pooled)(target, fields)
      if (!kind.statuses.includes(status)) tally.odd(`${kind.name}: status ${status}`)
      if (!isWhole) tally.odd(`${kind.name}: an answer broke off`)
      tally.answered(performance.now() - dueMs)
    } catch (error) {
      tally.odd(`${kind.name}: ${error instanceof Error ? error.message : error}`)
    }
  }
}

/** Downloads the whole list now and then until told to stop. */
function startDownloads({ port, keys }: SoakLoad, tally: Tally) {
  const isWhole = (text: string): boolean => text.startsWith('[') && text.endsWith(']')
  let n = 0
  const download = async (): Promise<void> => {
    n += 1
    const url = `http://127.0.0.1:${port}/api?key=${keyOf(n % keys)}&time=86400&get=json`
    const encoding = n % 2 === 0 ? 'identity' : 'gzip'
    try {
      const response = await fetch(url, { headers: { 'accept-encoding': encoding } })
      const text = await response.text()
      if (response.status === 200 && isWhole(text)) tally.downloaded()
      else tally.odd(`whole list: status ${response.status}, ${text.length} characters`)
    } catch (error) {
      tally.odd(`whole list: ${error instanceof Error ? error.message : error}`)
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
