/**
 * Fuzz: hostile and nearly valid requests over real sockets, made and shrunk by fast-check. Every answer is judged;
 * requests whose answers are known byte by byte come in between.
 */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import { launchServer, succeed } from '../../../support/launch.ts'
import { type Client, openClient, readAnswer, requestOf } from '../../support/client.ts'
import { TYPES } from '../../support/rows.ts'
import { count, megabytes, shown } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { isOurs, judge } from './judge.ts'
import {
  addFuzzKeys,
  anyBytes,
  type Case,
  isReflected,
  type Keys,
  keysOf,
  validCase,
} from './requests.ts'

const SLOW_MS = 1_000
/** A request with a known answer is sent before every so many others. */
const PROBE_EVERY = 20
/** Above this, Bun may answer 431 to a valid request. */
const HEAD_MAX_BYTES = 8_000
const LANES = 6

type FuzzInput = { port: number; seed: number; valid: number; raw: number }

/** Sends all requests to a server. */
export async function sendAll({ port, seed, valid, raw }: FuzzInput) {
  const where = { kind: 'tcp', hostname: '127.0.0.1', port } as const
  const keys = keysOf(seed)
  const probes = probesOf(keys)
  type Counts = { [status: string]: number }
  const result = {
    ...{ valid: 0, raw: 0, probes: 0, answerBytes: 0, slowestMs: 0 },
    /** Answers by status: the service's own, and those that Bun gave by itself. */
    ...{ ours: {} as Counts, buns: {} as Counts },
    /** What was wrong first in each lane, with the shortest request that shows it. */
    wrong: [] as string[],
  }

  function judged(found: NonNullable<ReturnType<typeof readAnswer>>['answer'], one: Case): void {
    const counts = isOurs(found) ? result.ours : result.buns
    counts[found.status] = (counts[found.status] ?? 0) + 1
    result.answerBytes += found.body.length
    const isSure = one.statuses !== null && one.text.length <= HEAD_MAX_BYTES
    const why = judge(found, isSure ? one.statuses : null, one.isHead)
    if (why !== null) throw new Error(why)
    if (isSure && !isOurs(found)) throw new Error(`Bun answered ${found.status}`)
  }
  const took = (ms: number): void => {
    result.slowestMs = Math.max(result.slowestMs, ms)
  }

  /** A lane of valid requests on a connection that is kept. */
  function createLane() {
    let client: Client | null = null
    async function ask(one: Case): Promise<string> {
      if (!client?.isOpen()) client = await openClient(where)
      const startMs = performance.now()
      const { answer, error, text } = await client.exchange(one.text, one.isHead)
      const isKept =
        answer !== null && isOurs(answer) && answer.headers.get('connection') !== 'close'
      if (!isKept) client.close()
      took(performance.now() - startMs)
      if (error !== null) throw new Error(`${error} in ${text.slice(0, 200)}`)
      if (answer === null) throw new Error(`no answer but ${text.length} bytes`)
      judged(answer, one)
      return answer.body
    }
    return async (one: Case): Promise<void> => {
      result.valid += 1
      const probe = result.valid % PROBE_EVERY === 0 ? probes[result.probes % probes.length] : null
      await ask(one)
      if (!probe) return
      result.probes += 1
      const body = await ask({ text: requestOf(probe.target), isHead: false, statuses: [200] })
      if (body !== probe.body) throw new Error(`a known answer is ${body}`)
    }
  }

  /** Sends bytes on a new connection, ends it, and judges all answers; a truncated last one is skipped. */
  async function sendRaw(bytes: string): Promise<void> {
    result.raw += 1
    const startMs = performance.now()
    const socket = connect(port, '127.0.0.1', () => socket.end(Buffer.from(bytes, 'latin1')))
    let rest = ''
    socket.on('data', chunk => {
      rest += chunk.toString('latin1')
    })
    socket.on('error', () => {}) // it may be reset while we still send
    await new Promise(resolve => socket.on('close', resolve))
    took(performance.now() - startMs)
    const isHead = bytes.includes('HEAD')
    for (let found = readAnswer(rest, isHead); found; found = readAnswer(rest, isHead)) {
      judged(found.answer, { text: bytes, isHead, statuses: null })
      rest = rest.slice(found.end)
      if (isHead) return
    }
  }

  async function run<T>(property: fc.IAsyncProperty<[T]>, lane: number, all: number) {
    const options = { seed: seed * 100 + lane, numRuns: Math.ceil(all / LANES) }
    const { failed, counterexample, errorInstance } = await fc.check(property, options)
    if (failed) {
      result.wrong.push(`${errorInstance} <- ${JSON.stringify(counterexample).slice(0, 800)}`)
    }
  }
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      await run(fc.asyncProperty(validCase(keys), createLane()), lane, valid)
      await run(fc.asyncProperty(anyBytes(keys), sendRaw), LANES + lane, raw)
    }),
  )
  return result
}

const FRESH = 24
/** So many that the stream worker renders them; only a `time` over a day shows them. */
const OLD = 1_100
const OLD_SECONDS = 80_000

const freshRow = (n: number) => ({
  ip: `203.0.${100 + (n % 12)}.${n}:1080`,
  type: TYPES[n % TYPES.length] ?? 'http',
  ping: n / 100,
  country: n % 2 === 0 ? 'DE' : 'FR',
  city: n % 3 === 0 ? '' : 'Берлин',
  city_en: n % 3 === 0 ? '' : 'Berlin',
  works: String(60 + n),
  anon: 'elite',
  telegram: n % 2 === 0,
})

/** The list, as rows of a file; fresh ones were checked at `checkedAt` (Unix seconds). */
export function listRows(checkedAt: number) {
  const fresh = Array.from({ length: FRESH }, (_, n) => ({ ...freshRow(n), checked_at: checkedAt }))
  const old = Array.from({ length: OLD }, (_, n) => ({
    ...{ ip: `10.9.${n >> 8}.${n & 255}:3128`, type: 'http', checked_at: checkedAt - OLD_SECONDS },
  }))
  return [...fresh, ...old]
}

/** Requests with an unlimited key, and the bytes that answer them. */
function probesOf({ free: [key = ''] }: Keys): { target: string; body: string }[] {
  const rows = Array.from({ length: FRESH }, (_, n) => freshRow(n))
  const ask = `/api?key=${encodeURIComponent(key)}`
  const french = rows.filter(({ country }) => country === 'FR')
  const socks = rows.filter(({ type }) => type === TYPES[3])
  return [
    {
      target: `${ask}&type=${TYPES[3]}&type_prefix=1`,
      body: socks.map(({ ip }) => `${TYPES[3]}://${ip}\n`).join(''),
    },
    {
      target: `${ask}&country=fr&get=json&pretty=0&fields=works,ip`,
      body: JSON.stringify(french.map(({ ip, works }) => ({ ip, works }))),
    },
    { target: `${ask}&country=fr&time=80000`, body: french.map(({ ip }) => `${ip}\n`).join('') },
    { target: '/healthz', body: 'ok\n' },
  ]
}

/** A key may span two chunks of output. */
const OVERLAP = 2_000
const EXPECTED = /^(?:listening on \S+|stopping|)$/

/** Starts a server; its access log is read as it is written, because it grows large. */
async function startChecked(binary: string, data: string) {
  const options = ['--data', data, '--listen', '127.0.0.1:0', '--trust-proxy', '127.0.0.1']
  const server = await launchServer([binary, 'serve', ...options, '--grace', '1s'], {
    stdout: 'pipe',
  })
  const log = { bytes: 0, reflected: 0 }
  async function readLog(): Promise<void> {
    let last = ''
    for await (const chunk of server.stdout ?? []) {
      const text = Buffer.from(chunk).toString('latin1')
      log.bytes += text.length
      if (isReflected(last + text)) log.reflected += 1
      last = text.slice(-OVERLAP)
    }
  }
  const logRead = readLog()
  return {
    ...server,
    /** Stops it; gives its exit status, the lines of stderr that are none of a normal run, and keys in its output. */
    async end() {
      const exitCode = await server.stop()
      await logRead
      const { stderr } = server.written
      const complaints = stderr.split('\n').filter(line => !EXPECTED.test(line))
      return {
        exitCode,
        complaints,
        ...log,
        reflected: log.reflected + Number(isReflected(stderr)),
      }
    },
  }
}

const VALID = 240_000
const RAW = 60_000
/** Rows stay fresh for a whole run: their check times lie this far in the future. */
const AHEAD_SECONDS = 250

async function fillData({ binary, seed, directory }: Run): Promise<string> {
  const data = directory('data')
  const file = join(directory('rows'), 'rows.ndjson')
  const rows = listRows(Math.floor(Date.now() / 1000) + AHEAD_SECONDS)
  writeFileSync(file, rows.map(row => `${JSON.stringify(row)}\n`).join(''))
  await succeed([binary, 'import', file, '--data', data])
  addFuzzKeys(data, keysOf(seed), Date.now())
  return data
}

const list = (counts: { [status: string]: number }): string =>
  Object.entries(counts)
    .map(([status, times]) => `${status}: ${count(times)}`)
    .join(', ')

export const fuzz: Part = async (run): Promise<Finding[]> => {
  const server = await startChecked(run.binary, await fillData(run))
  const { port } = server
  const amounts = { valid: scaled(VALID, run), raw: scaled(RAW, run) }
  const { wrong, ...seen } = await sendAll({ port, seed: run.seed, ...amounts })
  const isAlive = server.isRunning()
  const { exitCode, complaints, bytes, reflected } = await server.end()
  for (const text of [...wrong, ...complaints.slice(0, 5)]) run.say(text)
  return [
    {
      promise:
        'Every answer to a hostile request is one of the contract, holds no key, and takes no second',
      figure:
        `${wrong.length} wrong of ${count(seen.valid)} valid requests, ${count(seen.raw)} connections of other bytes ` +
        `and ${count(seen.probes)} with a known answer, the slowest ${shown(seen.slowestMs)} ms ` +
        `(${list(seen.ours)}; the HTTP layer by itself ${list(seen.buns)})`,
      bound: `0, ≤ ${SLOW_MS} ms`,
      holds:
        wrong.length === 0 &&
        seen.slowestMs <= SLOW_MS &&
        seen.probes > 0 &&
        (seen.ours['304'] ?? 0) > 0,
    },
    {
      promise: 'No crash, no complaint on stderr, and no key in the log',
      figure:
        `exit status ${exitCode}, ${complaints.length} unexpected lines, ${reflected} keys in ` +
        `${megabytes(bytes)} of output and ${megabytes(seen.answerBytes)} of answers`,
      bound: '0',
      holds: isAlive && exitCode === 0 && complaints.length === 0 && reflected === 0,
    },
  ]
}
