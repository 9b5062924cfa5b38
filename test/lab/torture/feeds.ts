/**
 * Feeds that fail in every way, beside one that works: the list keeps its rows, each failure is
 * said without a secret, requests do not wait, and the server stops at once. A server without
 * feeds, on the same list, shows how fast the machine is meanwhile.
 */
import { Database } from 'bun:sqlite'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, type Transform } from 'node:stream'
import { createGzip, createZstdCompress, gzipSync } from 'node:zlib'
import { type Answerer, reply, startFeedServer } from '../../support/feed-server.ts'
import { type Server, succeed } from '../../support/launch.ts'
import { addCustomers, writeTargets } from '../support/customers.ts'
import { startOpenLoop } from '../support/open-loop.ts'
import { writeRows } from '../support/rows.ts'
import { files, startServe } from '../support/serve.ts'
import { count, shown } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

const ROWS = 100_000
const FEED_ROWS = 20_000
const KEYS = 2_000
const STEADY = { ratePerSecond: 500, connections: 16 }
/** Longer than the time after which a slow feed is given up. */
const SECONDS = 90
const CHECK_EVERY_MS = 250
/** A billion empty lines take a while to be refused. */
const LONGEST_MS = 300_000
/** A request that is quick alone stays so (contract B9). */
const P99_MS_MAX = 50
/** On a busy machine a server without feeds is slow, too. */
const P99_FACTOR_MAX = 3
/** What its stop may take longer than that of a server without feeds at the same time. */
const STOP_LATER_MS_MAX = 1_000
const SECRET = 'SECRET0123456789'

type Shown = {
  source: string
  last_success: string | null
  rows: number | null
  error: string | null
}

const linesOf = (rows: number, from = 0): string =>
  Array.from({ length: rows }, (_, i) => {
    const n = from + i
    return `socks5://198.${18 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}:1080\n`
  }).join('')

function rowsIn(data: string): number {
  const db = new Database(files(data).list, { readonly: true })
  try {
    return db.query<{ n: number }, []>('select count(*) as n from proxies').get()?.n ?? 0
  } finally {
    db.close()
  }
}

const feedsOf = async ({ binary }: Run, data: string): Promise<Shown[]> =>
  JSON.parse(await succeed([binary, 'feeds', '--json', '--data', data]))

/** A billion bytes and some more than a feed may have. */
const BOMB_BYTES = 2 ** 30 + 2 ** 20

/** A bomb: many bytes of one kind, compressed to few. */
async function bomb(compress: Transform, byte: string): Promise<Buffer> {
  const piece = Buffer.alloc(2 ** 20, byte)
  const pieces = Array.from({ length: BOMB_BYTES / piece.length }, () => piece)
  const compressed: Buffer[] = []
  for await (const chunk of Readable.from(pieces).pipe(compress)) compressed.push(chunk)
  return Buffer.concat(compressed)
}

const head = (socket: Parameters<Answerer>[1], fields = ''): void =>
  void socket.write(`HTTP/1.1 200 OK\r\n${fields}\r\n`)

const endless: Answerer = (_, socket) => {
  head(socket)
  const more = Buffer.from('# more\n'.repeat(20_000))
  const write = (): void => {
    while (!socket.destroyed && socket.write(more)) {}
  }
  socket.on('drain', write)
  write()
}

/** Each fault by its path; `lines` are rows of TXT. Those that hang end after a minute. */
const faultsOf = async (lines: string): Promise<{ [path: string]: Answerer }> => ({
  '/answers-500': reply(500),
  '/asks-to-wait': reply(429, { 'Retry-After': '3' }),
  '/empty': reply(200),
  '/empty-list': reply(200, {}, '[]'),
  '/web-page': reply(200, {}, '<!doctype html>'),
  '/circle': reply(302, { Location: '/circle' }),
  '/lies-about-length': (_, socket) => {
    head(socket, 'Content-Length: 1000000\r\n')
    socket.end(lines)
  },
  '/breaks-off': (_, socket) => {
    head(socket, 'Transfer-Encoding: chunked\r\n')
    socket.end(`ffff\r\n${lines}`)
  },
  '/gzip-breaks-off': reply(200, { 'Content-Encoding': 'gzip' }, gzipSync(lines).subarray(0, 500)),
  '/zeros': reply(200, { 'Content-Encoding': 'gzip' }, await bomb(createGzip(), '\0')),
  '/empty-lines': reply(
    200,
    { 'Content-Encoding': 'zstd' },
    await bomb(createZstdCompress(), '\n'),
  ),
  '/endless': endless,
  '/slow': (_, socket) => head(socket),
  '/silent': () => {},
})

/** A list, requests for it, and a file of feeds that fail, with one that works. */
async function prepare(run: Run) {
  const dir = run.directory('files')
  const data = run.directory('data')
  const control = run.directory('control')
  const file = join(dir, 'rows.ndjson')
  await writeRows(file, { rows: ROWS, nowMs: Date.now() })
  for (const place of [data, control]) {
    await succeed([run.binary, 'import', file, '--format', 'ndjson', '--data', place])
    addCustomers(place, KEYS)
  }
  const faults = await faultsOf(linesOf(1_000))
  let from = 0
  const source = await startFeedServer({
    ...faults,
    '/good': (asked, socket) => reply(200, {}, linesOf(FEED_ROWS, ++from))(asked, socket),
  })
  const feedsFile = join(dir, 'feeds.conf')
  const lines = ['/good', ...Object.keys(faults)].map(
    path => `http://user:${SECRET}@127.0.0.1:${source.port}${path}?key=${SECRET} every=2s\n`,
  )
  writeFileSync(feedsFile, lines.join(''))
  const bad = Object.keys(faults).length
  return { data, control, feedsFile, targetsFile: writeTargets(dir, KEYS).repeated, bad }
}

const isNamed = ({ error }: Shown): boolean => error !== null

/** The states of the feeds once `bad` of them have failed. */
async function statesAfter(run: Run, data: string, bad: number): Promise<Shown[]> {
  let states = await feedsOf(run, data)
  for (let n = 0; n < LONGEST_MS / CHECK_EVERY_MS && states.filter(isNamed).length < bad; n += 1) {
    await Bun.sleep(CHECK_EVERY_MS)
    states = await feedsOf(run, data)
  }
  return states
}

/** Stops a server; gives how long that took and its exit status. */
async function timedStop(server: Server): Promise<{ ms: number; exitCode: number }> {
  const startMs = performance.now()
  const exitCode = await server.stop()
  return { ms: performance.now() - startMs, exitCode }
}

export const feeds: Part = async run => {
  const { data, control, feedsFile, targetsFile, bad } = await prepare(run)
  const seconds = scaled(SECONDS, run)
  const measure = ({ port }: Server) =>
    startOpenLoop({ port, targetsFile, seconds, ...STEADY }, seconds + 60).result
  const without = await startServe(run.binary, { data: control })
  const server = await startServe(run.binary, { data, more: ['--feeds', feedsFile] })
  const [beside, alone] = await Promise.all([measure(server), measure(without)])
  const states = await statesAfter(run, data, bad)
  const [stopped, controlStopped] = await Promise.all([timedStop(server), timedStop(without)])
  const laterMs = stopped.ms - controlStopped.ms
  const left = readdirSync(data).filter(name => name.endsWith('.tmp'))
  const text = server.written.stderr + JSON.stringify(states)
  for (const { source, error } of states.filter(isNamed)) run.say(`${source}: ${error}`)
  const others = server.written.stderr.split('\n').filter(line => !/^(?:feed |$)/.test(line))
  for (const line of others) run.say(`the server: ${line}`)
  return [
    ...taken(states, bad, rowsIn(data)),
    {
      promise: 'Requests do not notice feeds',
      figure: `p99 ${shown(beside.p99Ms)} ms with ${bad + 1} feeds, ${shown(alone.p99Ms)} ms of a server without at the same time; ${beside.errors} errors${beside.what && ` (${beside.what})`}`,
      bound: `≤ ${P99_MS_MAX} ms, or ${P99_FACTOR_MAX} times that without; 0`,
      holds:
        beside.p99Ms <= Math.max(P99_MS_MAX, P99_FACTOR_MAX * alone.p99Ms) && beside.errors === 0,
    },
    {
      promise: 'A server with feeds under way stops at once',
      figure: `after ${shown(stopped.ms)} ms (${shown(controlStopped.ms)} ms a server without at the same time), status ${stopped.exitCode}, ${left.length} temporary files`,
      bound: `≤ ${STOP_LATER_MS_MAX} ms later, 0, 0`,
      holds: laterMs <= STOP_LATER_MS_MAX && stopped.exitCode === 0 && left.length === 0,
    },
    {
      promise: 'No secret of a feed is shown',
      figure: `${text.split(SECRET).length - 1} found`,
      bound: '0',
      holds: !text.includes(SECRET),
    },
  ]
}

/** What became of the feeds, and of the list. */
function taken(states: readonly Shown[], bad: number, rows: number): Finding[] {
  const named = states.filter(isNamed)
  const [good, ...others] = states.filter(state => !isNamed(state))
  return [
    {
      promise: 'Each failing feed says why, and the one beside them works',
      figure: `${named.length} of ${bad} named, ${count(good?.rows ?? 0)} rows of the one that works`,
      bound: `${bad}, ${count(FEED_ROWS)}`,
      holds: named.length === bad && others.length === 0 && good?.rows === FEED_ROWS,
    },
    {
      promise: 'No failing feed changes the list',
      figure: `${count(rows)} rows: ${count(ROWS)} and those of the feed that works`,
      bound: `≥ ${count(ROWS + FEED_ROWS)}`,
      holds: rows >= ROWS + FEED_ROWS,
    },
  ]
}
