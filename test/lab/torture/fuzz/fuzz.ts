/**
 * Fuzz: hostile and nearly valid requests over real sockets. Every answer is checked; requests with a
 * known answer come in between. Clients are processes of their own: well-formed requests share
 * keep-alive connections, malformed ones have a connection each.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { launchServer, succeed } from '../../../support/launch.ts'
import { pick, randomOf } from '../../../support/random.ts'
import { exchange, type HttpAnswer, openClient, readAnswer } from '../../support/client.ts'
import { TYPES } from '../../support/rows.ts'
import { script } from '../../support/script.ts'
import { count, megabytes, shown } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { bytesOf, type Case, makeCase, mutatedCase } from './grammar.ts'
import { FAULTS, type Fault, isOurs, judge } from './judge.ts'
import { addFuzzKeys, isReflected, type Keys, keysOf } from './keys.ts'
import { makeRaw } from './raw.ts'

/** How many requests of each kind are sent. */
type Amounts = { grammar: number; mutated: number; raw: number }
/** A request whose answer is known byte by byte. */
type Probe = { target: string; body: string }
type FuzzInput = {
  port: number
  seed: number
  /** Distinguishes clients with the same seed. */
  client: number
  amounts: Amounts
}
type FuzzResult = {
  sent: Amounts
  probes: number
  /** Answers by status: the service's own, and those that Bun gave by itself. */
  ours: { [status: string]: number }
  buns: { [status: string]: number }
  /** Errors of the service. */
  errors: number
  answerBytes: number
  slowestMs: number
  wrong: { [fault in Fault]: number }
  /** The first wrong answers, with the bytes of their requests. */
  examples: string[]
}

const SLOW_MS = 1_000
/** A probe is sent before every so many requests. */
const PROBE_EVERY = 20
const EXAMPLES_MAX = 5
/** Above this, Bun may answer 431 to a valid request. */
const HEAD_MAX_BYTES = 8_000

const increment = (counts: { [status: string]: number }, status: number): void => {
  counts[status] = (counts[status] ?? 0) + 1
}

function createTally() {
  const result: FuzzResult = {
    sent: { grammar: 0, mutated: 0, raw: 0 },
    probes: 0,
    ours: {},
    buns: {},
    errors: 0,
    answerBytes: 0,
    slowestMs: 0,
    wrong: Object.fromEntries(FAULTS.map(fault => [fault, 0])) as FuzzResult['wrong'], // all of them
    examples: [],
  }
  return {
    result,
    note(fault: Fault, why: string, request: string): void {
      result.wrong[fault] += 1
      if (result.examples.length >= EXAMPLES_MAX) return
      result.examples.push(`${fault}: ${why} <- ${JSON.stringify(request.slice(0, 600))}`)
    },
    answered(answer: HttpAnswer): void {
      increment(isOurs(answer) ? result.ours : result.buns, answer.status)
      if (isOurs(answer) && answer.status >= 400) result.errors += 1
      result.answerBytes += answer.body.length
    },
    took(ms: number, request: string): void {
      result.slowestMs = Math.max(result.slowestMs, ms)
      if (ms > SLOW_MS) this.note('slow', `${Math.round(ms)} ms`, request)
    },
  }
}
type Tally = ReturnType<typeof createTally>

/** Sends well-formed requests, one after the other, until none remains. */
async function runKept(input: FuzzInput, tally: Tally, next: () => Case | null): Promise<void> {
  const random = randomOf(input.seed, `probes ${input.client}`)
  const probes = probesOf(keysOf(input.seed))
  const where = { kind: 'tcp', hostname: '127.0.0.1', port: input.port } as const
  let connection = await openClient(where)
  let sent = 0

  async function ask(
    request: string,
    isHead: boolean,
    take: (answer: HttpAnswer) => void,
  ): Promise<void> {
    const startMs = performance.now()
    const { answer, error, text } = await connection.exchange(request, isHead)
    tally.took(performance.now() - startMs, request)
    if (error !== null) tally.note('shape', `${error} in ${text.slice(0, 200)}`, request)
    else if (answer === null) tally.note('lost', `${text.length} bytes of an answer`, request)
    else {
      tally.answered(answer)
      take(answer)
    }
    const isOver = !connection.isOpen() || answer === null || !isOurs(answer)
    if (!isOver && answer.headers.get('connection') !== 'close') return
    connection.close()
    connection = await openClient(where)
  }

  for (let made = next(); made !== null; made = next()) {
    const { statuses, method } = made
    const request = bytesOf(made)
    const isHead = method === 'HEAD'
    await ask(request, isHead, answer => {
      const allowed = request.length > HEAD_MAX_BYTES ? null : statuses
      const wrong = judge(answer, allowed, isHead)
      if (wrong) tally.note(wrong.fault, wrong.why, request)
      if (!isOurs(answer) && allowed !== null) {
        tally.note('status', `Bun answered ${answer.status}`, request)
      }
    })
    sent += 1
    if (sent % PROBE_EVERY !== 0) continue
    const probe = pick(random, probes)
    const asked = `GET ${probe.target} HTTP/1.1\r\nHost: a\r\n\r\n`
    tally.result.probes += 1
    await ask(asked, false, ({ status, body }) => {
      if (status !== 200 || body !== probe.body) tally.note('probe', `${status} ${body}`, asked)
    })
  }
  connection.close()
}

/** Judges all answers of a connection; a truncated last one is skipped. */
function judgeAll(tally: Tally, request: string, text: string): void {
  const mayBeHead = request.includes('HEAD')
  let rest = text
  try {
    for (;;) {
      const found = readAnswer(rest, mayBeHead)
      if (found === null) return
      tally.answered(found.answer)
      const wrong = judge(found.answer, null, mayBeHead)
      if (wrong) tally.note(wrong.fault, wrong.why, request)
      rest = rest.slice(found.end)
      if (mayBeHead) return
    }
  } catch (error) {
    tally.note('shape', `${error} in ${rest.slice(0, 200)}`, request)
  }
}

/** Sends bytes on a new connection, ends it, and judges what arrived. */
async function runRaw(port: number, tally: Tally, next: () => string | null): Promise<void> {
  const where = { kind: 'tcp', hostname: '127.0.0.1', port } as const
  for (let request = next(); request !== null; request = next()) {
    const bytes = Buffer.from(request, 'latin1')
    const { text, ms } = await exchange(where, bytes, { isEnded: true })
    tally.took(ms, request)
    judgeAll(tally, request, text)
  }
}

/** Sends all requests and gives the tally. */
export async function sendAll({ port, seed, client, amounts }: FuzzInput): Promise<FuzzResult> {
  const tally = createTally()
  const { sent } = tally.result
  const keys = keysOf(seed)
  /** A function that makes the requests of a kind, then gives `null`. */
  function supply<T>(kind: keyof Amounts, make: (random: () => number, keys: Keys) => T) {
    const random = randomOf(seed, `${kind} ${client}`)
    return (): T | null => {
      if (sent[kind] === amounts[kind]) return null
      sent[kind] += 1
      return make(random, keys)
    }
  }
  const grammar = supply('grammar', makeCase)
  const mutated = supply('mutated', mutatedCase)
  const raw = supply('raw', makeRaw)
  const many = (work: () => Promise<void>) => Array.from({ length: CONNECTIONS }, work)
  await Promise.all([
    ...many(() => runKept({ port, seed, client, amounts }, tally, () => grammar() ?? mutated())),
    ...many(() => runRaw(port, tally, raw)),
  ])
  return tally.result
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
  const { written, isRunning, port } = server
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
    port,
    isRunning,
    /** Lines of stderr other than those of a normal run. */
    complaints: () => written.stderr.split('\n').filter(line => !EXPECTED.test(line)),
    /** Stops the server; gives its exit status, the size of its output and keys found in it. */
    async stop() {
      const exitCode = await server.stop()
      await logRead
      const bytes = log.bytes + written.stderr.length
      return { exitCode, bytes, reflected: log.reflected + Number(isReflected(written.stderr)) }
    },
  }
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
    ip: `10.9.${n >> 8}.${n & 255}:3128`,
    type: 'http',
    checked_at: checkedAt - OLD_SECONDS,
  }))
  return [...fresh, ...old]
}

/** Requests with an unlimited key, and the bytes that answer them. */
function probesOf({ free: [key = ''] }: Keys): Probe[] {
  const rows = Array.from({ length: FRESH }, (_, n) => freshRow(n))
  const ask = `/api?key=${encodeURIComponent(key)}`
  const french = rows.filter(({ country }) => country === 'FR')
  return [
    {
      target: `${ask}&type=${TYPES[3]}&type_prefix=1`,
      body: rows
        .filter(({ type }) => type === TYPES[3])
        .map(({ ip }) => `${TYPES[3]}://${ip}\n`)
        .join(''),
    },
    {
      target: `${ask}&country=fr&get=json&pretty=0&fields=works,ip`,
      body: JSON.stringify(french.map(({ ip, works }) => ({ ip, works }))),
    },
    {
      target: `${ask}&country=fr&time=80000`,
      body: french.map(({ ip }) => `${ip}\n`).join(''),
    },
    { target: '/healthz', body: 'ok\n' },
  ]
}

/** What each client sends in a full run. */
const AMOUNTS: Amounts = { grammar: 240_000, mutated: 210_000, raw: 60_000 }
const CLIENTS = 2
const CONNECTIONS = 12
const DEADLINE_SECONDS = 900
/** Rows stay fresh for a whole run: their check times lie this far in the future. */
const AHEAD_SECONDS = 280

/** A data directory with the list and the keys. */
async function fillData(run: Run): Promise<string> {
  const data = run.directory('data')
  const file = join(run.directory('rows'), 'rows.ndjson')
  const nowMs = Date.now()
  const rows = listRows(Math.floor(nowMs / 1000) + AHEAD_SECONDS)
  writeFileSync(file, rows.map(row => JSON.stringify(row)).join('\n'))
  await succeed([run.binary, 'import', file, '--format', 'ndjson', '--data', data])
  addFuzzKeys(data, keysOf(run.seed), nowMs)
  return data
}

/** The sums over all clients. */
function total(results: readonly FuzzResult[]) {
  const sum = (of: (result: FuzzResult) => number): number =>
    results.reduce((all, result) => all + of(result), 0)
  const withStatus = (of: (result: FuzzResult) => { [status: string]: number }) =>
    [...new Set(results.flatMap(result => Object.keys(of(result))))]
      .sort()
      .map(status => `${status}: ${count(sum(result => of(result)[status] ?? 0))}`)
      .join(', ')
  return {
    grammar: sum(({ sent }) => sent.grammar),
    mutated: sum(({ sent }) => sent.mutated),
    raw: sum(({ sent }) => sent.raw),
    probes: sum(({ probes }) => probes),
    answers: sum(({ ours }) => Object.values(ours).reduce((all, n) => all + n, 0)),
    errors: sum(({ errors }) => errors),
    bytes: sum(({ answerBytes }) => answerBytes),
    slowestMs: Math.max(...results.map(({ slowestMs }) => slowestMs)),
    ours: withStatus(({ ours }) => ours),
    buns: withStatus(({ buns }) => buns),
    wrong: (fault: Fault) => sum(({ wrong }) => wrong[fault]),
  }
}

type Ended = { survived: boolean; complaints: number; output: number; reflected: number }

function findingsOf(run: Run, all: ReturnType<typeof total>, end: Ended): Finding[] {
  const sent = all.grammar + all.mutated + all.raw
  const least = Math.floor(1_000_000 * Math.min(1, run.scale))
  const none = (promise: string, wrong: number, figure: string): Finding => ({
    promise,
    figure: `${count(wrong)} of ${figure}`,
    bound: '0',
    holds: wrong === 0,
  })
  return [
    {
      promise: 'Hostile requests over sockets',
      figure: `${count(sent)}: ${count(all.grammar)} of a grammar, ${count(all.mutated)} mutated, ${count(all.raw)} connections of malformed bytes`,
      bound: `≥ ${count(least)}`,
      holds: sent >= least,
    },
    none(
      'No answer of 5xx',
      all.wrong('fault'),
      `${count(all.answers)} answers (${all.ours}); the HTTP layer by itself: ${all.buns}`,
    ),
    {
      promise: 'No crash, and no complaint on stderr',
      figure: `${end.survived ? 'ready at the end, exit status 0' : 'it crashed'}; ${end.complaints} unexpected lines`,
      bound: 'none',
      holds: end.survived && end.complaints === 0,
    },
    none(
      'No answer slower than a second',
      all.wrong('slow'),
      `all; slowest ${shown(all.slowestMs)} ms`,
    ),
    none('Every error has the one shape', all.wrong('shape'), `${count(all.errors)} errors`),
    none(
      'No answer and no log line holds a key, or ten characters of one',
      all.wrong('key') + end.reflected,
      `${megabytes(all.bytes)} of answers, ${megabytes(end.output)} of output`,
    ),
    none('Valid requests are served, others are refused', all.wrong('status'), count(all.grammar)),
    none(
      'Every well-formed request is answered',
      all.wrong('lost'),
      count(all.grammar + all.mutated),
    ),
    none('Known answers stay the same', all.wrong('probe'), count(all.probes)),
  ]
}

export const fuzz: Part = async run => {
  const { seed } = run
  const server = await startChecked(run.binary, await fillData(run))
  const amounts = {
    grammar: scaled(AMOUNTS.grammar, run),
    mutated: scaled(AMOUNTS.mutated, run),
    raw: scaled(AMOUNTS.raw, run),
  }
  const { port } = server
  const clients = Array.from({ length: CLIENTS }, (_, client) =>
    start({ port, seed, client, amounts }, DEADLINE_SECONDS),
  )
  const results = await Promise.all(clients.map(({ result }) => result))
  const ready = await fetch(`http://127.0.0.1:${port}/readyz`).then(
    ({ status }) => status,
    () => 0,
  )
  const isAlive = server.isRunning() && ready === 200
  const { exitCode, bytes, reflected } = await server.stop()
  for (const example of results.flatMap(({ examples }) => examples)) run.say(example)
  for (const line of server.complaints().slice(0, 5)) run.say(line)
  return findingsOf(run, total(results), {
    survived: isAlive && exitCode === 0,
    complaints: server.complaints().length,
    output: bytes,
    reflected,
  })
}

const start = script(import.meta, sendAll)
