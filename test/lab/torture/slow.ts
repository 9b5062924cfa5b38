/**
 * Slow and many: thousands of connections that idle, drip or stall. Each is closed in time and
 * hardly affects others. Clients are processes of their own; the kernel says what is open.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type Server, succeed, type Where } from '../../support/launch.ts'
import { connectTo, exchange, readAnswer } from '../support/client.ts'
import { addCustomers, keyOf, writeTargets } from '../support/customers.ts'
import { type OpenLoopResult, startOpenLoop } from '../support/open-loop.ts'
import { readMemory, resetPeak } from '../support/process.ts'
import { writeRows } from '../support/rows.ts'
import { script } from '../support/script.ts'
import { startServe } from '../support/serve.ts'
import { type Manner, startSlow } from '../support/slow-client.ts'
import { count, median, megabytes, shown } from '../support/table.ts'
import { type Finding, type Part, type Run, scaled } from './part.ts'

/** `statuses` of the first answer; 0 is none before the end. `rightBody`: its body is the list. */
type Odd = {
  name: string
  bytes: string
  statuses: readonly number[]
  rightBody?: true
}

const TOO_LARGE = [0, 400, 413, 414, 431]
const KIB = 1024
const get = (target: string, fields = 'Host: a\r\n', version = 'HTTP/1.1'): string =>
  `GET ${target} ${version}\r\n${fields}Connection: close\r\n\r\n`

/** The requests; valid ones ask for `target`. */
function oddRequests(target: string): Odd[] {
  const sizes = [9, 16, 64, 1024]
  const right = (name: string, bytes: string): Odd => ({
    ...{ name, bytes, statuses: [200], rightBody: true },
  })
  const tooLarge = (name: string, bytes: string): Odd => ({ name, bytes, statuses: TOO_LARGE })
  return [
    ...sizes.flatMap(size => [
      tooLarge(`a target of ${size} KiB`, get(`${target}&city=${'x'.repeat(size * KIB)}`)),
      tooLarge(
        `a header field of ${size} KiB`,
        get(target, `Host: a\r\nX: ${'x'.repeat(size * KIB)}\r\n`),
      ),
      tooLarge(
        `a header field of ${size} KiB without an end`,
        `GET ${target} HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(size * KIB)}`,
      ),
    ]),
    tooLarge('1,000 header fields', get(target, `Host: a\r\n${'X: x\r\n'.repeat(1000)}`)),
    tooLarge('a method of 64 KiB', `${'G'.repeat(64 * KIB)} ${target} HTTP/1.1\r\nHost: a\r\n\r\n`),
    {
      name: 'a body of 64 KiB',
      bytes: `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n${'b'.repeat(65536)}`,
      statuses: [...TOO_LARGE, 405],
    },
    right('the same pipelined twice', get(target, 'Host: a\r\n').repeat(2)),
    {
      name: 'five pipelined on a keep-alive connection',
      bytes: `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(5),
      statuses: [0, 200],
    },
    right('HTTP/1.0 without Host', get(target, '', 'HTTP/1.0')),
    right('HTTP/1.0 with Host', get(target, 'Host: a\r\n', 'HTTP/1.0')),
    right('a wrong Host', get(target, 'Host: bank.example:443\r\n')),
    right('a Host with a query of its own', get(target, 'Host: a?key=other&type=http\r\n')),
    right('an absolute target for another host', get(`http://bank.example${target}`)),
    { name: 'HTTP/1.1 without Host', bytes: get(target, ''), statuses: [400] },
  ]
}

/** What is wrong with the answer to a request, or `null`. */
async function tryOdd({ where }: Server, odd: Odd, body: string): Promise<string | null> {
  const { text, isClosed } = await exchange(where, odd.bytes, { isEnded: true })
  if (!isClosed) return `${odd.name}: no answer, not closed`
  const first = text === '' ? null : readAnswer(text, false)
  const status = first?.answer.status ?? 0
  if (!odd.statuses.includes(status)) return `${odd.name}: ${status}`
  return odd.rightBody && first?.answer.body !== body ? `${odd.name}: another body` : null
}

const ESTABLISHED = '01'

/**
 * The connections that a server on 127.0.0.1:`port` has open: the port at their other end, and
 * how many bytes of answers wait to be read.
 */
function connectionsOf(port: number): Map<number, string> {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const waiting = new Map<number, string>()
  for (const line of readFileSync('/proc/net/tcp', 'latin1').split('\n')) {
    const [, from, to, state, queues = ''] = line.trim().split(/ +/)
    if (from !== local || state !== ESTABLISHED || !to) continue
    waiting.set(Number.parseInt(to.slice(-4), 16), queues)
  }
  return waiting
}

/** How many sockets a process has open, of any kind. */
const socketsOf = (pid: number): number =>
  readdirSync(`/proc/${pid}/fd`).filter(name => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${name}`).startsWith('socket:')
    } catch {
      return false // closed in between
    }
  }).length

/** A connection: the port at its other end; when it was opened or a byte last moved, and closed. */
export type Seen = { port: number; movedMs: number; closedMs: number }

/** Watches the connections of a server on `port` until `stop`. Times are Unix milliseconds. */
function watchConnections(port: number) {
  const known = new Map<number, { queues: string; movedMs: number }>()
  const ended: Seen[] = []
  let most = 0
  const check = (): void => {
    const open = connectionsOf(port)
    const nowMs = Date.now()
    most = Math.max(most, open.size)
    for (const [other, { movedMs }] of known) {
      if (open.has(other)) continue
      known.delete(other)
      ended.push({ port: other, movedMs, closedMs: nowMs })
    }
    for (const [other, queues] of open) {
      const before = known.get(other)
      if (before?.queues !== queues) known.set(other, { queues, movedMs: nowMs })
    }
  }
  const timer = setInterval(check, CHECK_EVERY_MS)
  return {
    /** Most that were open at once. */
    most: () => most,
    open: () => known.size,
    ended,
    stop: () => clearInterval(timer),
  }
}

/**
 * The longest time that a connection was kept without traffic, in milliseconds. An answer may be
 * read between two checks: clients report when theirs began.
 * @param begun ports and times at which clients got the first bytes of an answer
 */
export function longestOf(ended: readonly Seen[], begun: readonly (readonly [number, number])[]) {
  const timesOf = Map.groupBy(begun, ([port]) => port)
  return Math.max(
    0,
    ...ended.map(({ port, movedMs, closedMs }) => {
      const times = (timesOf.get(port) ?? []).map(([, ms]) => ms).filter(ms => ms < closedMs)
      return closedMs - Math.max(movedMs, ...times)
    }),
  )
}

const ROWS = 50_000
const KEYS = 2_000
const IDLE = 10_000
const SLOW = 2_000
/** Requests before anything is measured. */
const WARM_UP_REQUESTS = 200
/** Clients in one process, which may open some thousands of files. */
const CLIENTS_EACH = 2_500
/** Downloads of the full list that stall; more would be refused. */
const FULL = 40
/** Sockets of a server itself: stdout, stderr, its listener, and the one that a successor asks. */
const OWN_SOCKETS = 4
/** Clients of each manner on the unix socket. */
const UNIX = 20
const ROUNDS = 3
/** Measurements without and with slow clients, in each round. */
const MEASURES = 2

const GROWTH_MAX_BYTES = 80e6
const CLOSED_MS_MAX = 30_000
/** How much longer than those of a bare server, on a machine that does other work. */
const CLOSED_MORE_MS_MAX = 2_000
/** For how long connections of the control begin: as long as those of the clients do. */
const CONTROL_SECONDS = 10
const CONTROL_DEADLINE_SECONDS = 120
/** Time for clients to start and end, beside the run. */
const GRACE_SECONDS = 30
/** Slow clients last a little longer than the server may let them. */
const SLOW_SECONDS = 34
const READER_SECONDS = 60
/** By then, stalled answers have filled all buffers. */
const SETTLE_MS = 6_000
const CHECK_EVERY_MS = 250
const STEADY = { ratePerSecond: 1_000, seconds: 5, connections: 16 }

type Place = { run: Run; data: string; targetsFile: string; server: Server }

async function prepare(run: Run): Promise<Omit<Place, 'server'>> {
  const dir = run.directory('files')
  const data = run.directory('data')
  const file = join(dir, 'rows.ndjson')
  await writeRows(file, { rows: ROWS, nowMs: Date.now() })
  await succeed([run.binary, 'import', file, '--format', 'ndjson', '--data', data])
  addCustomers(data, KEYS)
  return { run, data, targetsFile: writeTargets(dir, KEYS).repeated }
}

/** The `n`-th request for the full list; no two are the same. */
const longTarget = (n: number): string => `/api?key=${keyOf(n % KEYS)}&get=json&time=${86_400 + n}`
/** A request for an answer that is cached and fits into the buffers of a socket. */
const cachedTarget = (n: number): string =>
  `/api?key=${keyOf(n % KEYS)}&get=json&time=86400&count=1000`

/** Starts `clients` of a kind, in as many processes as they need. */
function startClients(where: Where, manner: Manner, clients: number, targets: readonly string[]) {
  const again = manner === 'drip'
  const seconds = manner === 'steady' ? READER_SECONDS : SLOW_SECONDS
  const processes = Math.ceil(clients / CLIENTS_EACH)
  return Array.from({ length: processes }, (_, n) => {
    const own = Math.ceil((clients - n) / processes)
    const input = { where, manner, clients: own, targets, seconds, again }
    return startSlow(input, seconds + GRACE_SECONDS).result
  })
}

/** That of the server under test, see src/http/listen.ts. */
const IDLE_TIMEOUT_SECONDS = 28

/**
 * A control for the times after which a server closes connections: a bare `Bun.serve` with the same
 * idle timeout, and a connection to it every second that asks once and idles. What they last longer
 * than the timeout is the delay of the machine, not of the server under test.
 */
async function control(seconds: number): Promise<number> {
  const server = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0, development: false, idleTimeout: IDLE_TIMEOUT_SECONDS },
    fetch: () => new Response('ok'),
  })
  const where = { kind: 'tcp', hostname: '127.0.0.1', port: server.port ?? 0 } as const

  /** One connection; resolves to how long it lasts after its answer. */
  async function idle(): Promise<number> {
    const closed = Promise.withResolvers<number>()
    let answeredMs = performance.now()
    await connectTo(where, {
      open: socket => void socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
      data() {
        answeredMs = performance.now()
      },
      close: () => closed.resolve(performance.now() - answeredMs),
    })
    return closed.promise
  }

  const lasted: Promise<number>[] = []
  for (let n = 0; n < seconds; n += 1) {
    lasted.push(idle())
    await Bun.sleep(1_000)
  }
  const longestMs = Math.max(...(await Promise.all(lasted)))
  await server.stop(true)
  return longestMs
}

/** Waits until `isOver`, for `seconds` at most. */
async function waitFor(isOver: () => boolean, seconds: number): Promise<void> {
  for (let n = 0; n < (seconds * 1000) / CHECK_EVERY_MS && !isOver(); n += 1) {
    await Bun.sleep(CHECK_EVERY_MS)
  }
}

/** Idle connections: how many at once, their memory, and when they are closed. */
async function manyIdle({ run, server }: Place): Promise<Finding[]> {
  const clients = scaled(IDLE, run)
  const before = readMemory(server.pid)
  resetPeak(server.pid)
  const watch = watchConnections(server.port)
  const control = startControl(CONTROL_SECONDS, CONTROL_DEADLINE_SECONDS)
  const results = await Promise.all(startClients(server.where, 'idle', clients, ['/healthz']))
  await waitFor(() => watch.open() === 0, SLOW_SECONDS)
  watch.stop()
  const after = readMemory(server.pid)
  const growth = before && after ? after.peakBytes - before.residentBytes : Number.NaN
  const failed = results.reduce((all, result) => all + result.failed, 0)
  const most = watch.most()
  const longestMs = longestOf(
    watch.ended,
    results.flatMap(({ begun }) => begun),
  )
  const controlMs = await control.result
  return [
    {
      promise: 'Idle connections cost little',
      figure: `${count(most)} open at once (${failed} could not be opened): the server grows by ${megabytes(growth)}`,
      bound: `${count(clients)}, ≤ ${megabytes(GROWTH_MAX_BYTES)}`,
      holds: most >= clients && growth <= GROWTH_MAX_BYTES,
    },
    closed('Idle connections are closed', watch.open(), { longestMs, controlMs }, most),
  ]
}

/** The longest times that connections lasted, of the server and of the control. */
type Lasted = { longestMs: number; controlMs: number }

/**
 * Connections are closed in time. Timers and sockets are late where other work runs: a server may be
 * as late as the control, and a little more.
 */
function closed(promise: string, left: number, lasted: Lasted, all: number): Finding {
  const { longestMs, controlMs } = lasted
  const maxMs = Math.max(CLOSED_MS_MAX, controlMs + CLOSED_MORE_MS_MAX)
  return {
    promise,
    figure: `${count(all)}: the last after ${shown(longestMs / 1000)} s, ${left} left open; a bare server ${shown(controlMs / 1000)} s`,
    bound: `≤ ${CLOSED_MS_MAX / 1000} s, or ${CLOSED_MORE_MS_MAX / 1000} s more than a bare server at the same time`,
    holds: all > 0 && left === 0 && longestMs <= maxMs,
  }
}

/** The latency of a steady client, measured a few times. */
async function steadily({ targetsFile, server }: Place): Promise<OpenLoopResult[]> {
  const results: OpenLoopResult[] = []
  for (let n = 0; n < MEASURES; n += 1) {
    const input = { port: server.port, targetsFile, ...STEADY }
    results.push(await startOpenLoop(input, STEADY.seconds + GRACE_SECONDS).result)
  }
  return results
}

/** One round: the steady client alone, then with clients that drip and stall. */
async function slowRound(place: Place, round: number) {
  const { run, server } = place
  const half = Math.ceil(scaled(SLOW, run) / 2)
  const full = Math.min(FULL, half)
  const alone = await steadily(place)
  const watch = watchConnections(server.port)
  const number = (n: number): number => round * half + n
  const targets = Array.from({ length: half }, (_, n) =>
    n < full ? longTarget(number(n)) : cachedTarget(number(n)),
  )
  const control = startControl(CONTROL_SECONDS, CONTROL_DEADLINE_SECONDS)
  const clients = [
    ...startClients(server.where, 'drip', half, ['/healthz']),
    ...startClients(server.where, 'stall', half, targets),
  ]
  await Bun.sleep(SETTLE_MS)
  const beside = await steadily(place)
  const results = await Promise.all(clients)
  await waitFor(() => watch.open() === 0, SLOW_SECONDS)
  watch.stop()
  const opened = results.reduce((all, result) => all + result.opened, 0)
  const shownAll = (results: readonly OpenLoopResult[]) =>
    results.map(({ p99Ms }) => `${shown(p99Ms)} ms`).join(', ')
  run.say(`p99 ${shownAll(alone)} alone; ${shownAll(beside)} with ${opened} slow ones`)
  const longestMs = longestOf(
    watch.ended,
    results.flatMap(({ begun }) => begun),
  )
  const controlMs = await control.result
  const { open, most } = watch
  return { alone, beside, opened, left: open(), longestMs, controlMs, most: most() }
}

async function slowOnes(place: Place): Promise<Finding[]> {
  const rounds: Awaited<ReturnType<typeof slowRound>>[] = []
  for (let round = 0; round < ROUNDS; round += 1) rounds.push(await slowRound(place, round))
  const p99 = (results: readonly OpenLoopResult[]): number =>
    median(results.map(({ p99Ms }) => p99Ms))
  const alone = p99(rounds.flatMap(round => round.alone))
  const meanwhile = p99(rounds.flatMap(round => round.beside))
  const errors = rounds
    .flatMap(round => [...round.alone, ...round.beside])
    .reduce((all, result) => all + result.errors, 0)
  const longestMs = Math.max(...rounds.map(round => round.longestMs))
  const controlMs = Math.max(...rounds.map(round => round.controlMs))
  const lasted = { longestMs, controlMs }
  const left = rounds.reduce((all, round) => all + round.left, 0)
  const opened = rounds.reduce((all, round) => all + round.opened, 0)
  const most = Math.max(...rounds.map(round => round.most))
  return [
    closed('Connections that drip headers or stop reading are closed', left, lasted, opened),
    {
      promise: 'Slow connections hardly affect others',
      figure: `p99 ${shown(alone)} ms alone, ${shown(meanwhile)} ms with ${count(most)} of them (medians of ${ROUNDS * MEASURES} in turns); ${errors} errors`,
      bound: '≤ 2 ×, no errors',
      holds: meanwhile <= 2 * alone && errors === 0,
    },
  ]
}

/** A client that reads a long answer slowly, for longer than an idle connection is kept. */
async function slowReader(place: Place): Promise<Finding> {
  const { server } = place
  const [reading] = startClients(server.where, 'steady', 1, [longTarget(KEYS - 1)])
  const startMs = performance.now()
  const result = await reading
  const seconds = (performance.now() - startMs) / 1000
  return {
    promise: 'A slow reader gets its complete answer',
    figure: `${megabytes(result?.bytes ?? 0)} in ${shown(seconds)} s, ${result?.isComplete ? 'to its end' : 'truncated'}`,
    bound: 'to its end',
    holds: result?.isComplete === true,
  }
}

/** The same manners on a unix socket. */
async function onUnixSocket({ run, data }: Place): Promise<Finding> {
  const path = join(run.directory('socket'), 's')
  const server = await startServe(run.binary, {
    ...{ data, listen: `unix:${path}`, more: ['--log', 'off'] },
  })
  const control = startControl(CONTROL_SECONDS, CONTROL_DEADLINE_SECONDS)
  const targets = Array.from({ length: UNIX }, (_, n) => longTarget(KEYS - 1 - n))
  const start = (manner: Manner, targets: readonly string[]) =>
    startSlow(
      {
        ...{ where: server.where, manner, clients: UNIX, targets },
        ...{ seconds: SLOW_SECONDS, again: false },
      },
      SLOW_SECONDS + GRACE_SECONDS,
    )
  const all = [start('drip', ['/healthz']), start('stall', targets), start('idle', ['/healthz'])]
  let most = 0
  /** When the last was opened: the start of the clients is not counted. */
  let openedMs = performance.now()
  await waitFor(() => {
    const now = socketsOf(server.pid) - OWN_SOCKETS
    if (now > most) openedMs = performance.now()
    most = Math.max(most, now)
    return most === all.length * UNIX && now <= 0
  }, READER_SECONDS)
  const longestMs = performance.now() - openedMs
  const left = socketsOf(server.pid) - OWN_SOCKETS
  await Promise.all(all.map(script => script.stop()))
  await server.stop()
  const lasted = { longestMs, controlMs: await control.result }
  return closed('The same connections are closed on a unix socket', left, lasted, most)
}

async function odd({ server }: Place): Promise<Finding> {
  const target = `/api?key=${keyOf(0)}&count=3&time=86400`
  const body = await (await fetch(`http://127.0.0.1:${server.port}${target}`)).text()
  const requests = oddRequests(target)
  const wrong: string[] = []
  for (const request of requests) {
    const found = await tryOdd(server, request, body)
    if (found !== null) wrong.push(found)
    await Bun.sleep(CHECK_EVERY_MS) // the plan admits 5 requests a second
  }
  return {
    promise: 'Oversized, pipelined, old and misdirected requests are answered or closed',
    figure: `${requests.length - wrong.length} of ${requests.length} as they should be${wrong.map(text => `; ${text}`).join('')}`,
    bound: 'all',
    holds: wrong.length === 0,
  }
}

export const slow: Part = async run => {
  const prepared = await prepare(run)
  const more = ['--log', 'off', '--grace', '1s']
  const server = await startServe(run.binary, { data: prepared.data, more })
  const place = { ...prepared, server }
  for (let n = 0; n < WARM_UP_REQUESTS; n += 1) {
    await (await fetch(`http://127.0.0.1:${server.port}${longTarget(n)}&count=10`)).bytes()
  }
  const findings = [await odd(place), ...(await manyIdle(place)), ...(await slowOnes(place))]
  const [reader, unix] = await Promise.all([slowReader(place), onUnixSocket(place)])
  await server.stop()
  return [...findings, reader, unix]
}

const startControl = script(import.meta, control)
