/**
 * Fuzz: hostile and nearly valid requests over real sockets. Every answer is checked; requests
 * with a known answer come in between. Clients are processes of their own.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { launchServer, succeed } from '../../../support/launch.ts'
import { TYPES } from '../../support/rows.ts'
import { type Script, startScript } from '../../support/script.ts'
import { count, megabytes, shown } from '../../support/table.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import type { Amounts, FuzzInput, FuzzResult, Probe } from './client.ts'
import { FAULTS } from './judge.ts'
import { addFuzzKeys, isReflected, keysOf } from './keys.ts'

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
export function probesOf(key: string): Probe[] {
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

function startClients(run: Run, port: number): Script<FuzzResult>[] {
  const amounts = {
    grammar: scaled(AMOUNTS.grammar, run),
    mutated: scaled(AMOUNTS.mutated, run),
    raw: scaled(AMOUNTS.raw, run),
  }
  const probes = probesOf(keysOf(run.seed).free[0] ?? '')
  return Array.from({ length: CLIENTS }, (_, client) => {
    const input: FuzzInput = {
      port,
      seed: run.seed,
      client,
      amounts,
      connections: CONNECTIONS,
      probes,
    }
    return startScript<FuzzResult>('torture/fuzz/client.ts', input, DEADLINE_SECONDS)
  })
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
    wrong: Object.fromEntries(
      FAULTS.map(fault => [fault, sum(({ wrong }) => wrong[fault])]),
    ) as FuzzResult['wrong'], // one for each fault
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
      all.wrong.fault,
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
      all.wrong.slow,
      `all; slowest ${shown(all.slowestMs)} ms`,
    ),
    none('Every error has the one shape', all.wrong.shape, `${count(all.errors)} errors`),
    none(
      'No answer and no log line holds a key, or ten characters of one',
      all.wrong.key + end.reflected,
      `${megabytes(all.bytes)} of answers, ${megabytes(end.output)} of output`,
    ),
    none(
      'Valid requests are served, others are refused',
      all.wrong.status,
      `${count(all.grammar)}`,
    ),
    none(
      'Every well-formed request is answered',
      all.wrong.lost,
      `${count(all.grammar + all.mutated)}`,
    ),
    none('Known answers stay the same', all.wrong.probe, `${count(all.probes)}`),
  ]
}

export const fuzz: Part = async run => {
  const data = await fillData(run)
  const server = await startChecked(run.binary, data)
  const results = await Promise.all(startClients(run, server.port).map(({ result }) => result))
  const ready = await fetch(`http://127.0.0.1:${server.port}/readyz`).then(
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
