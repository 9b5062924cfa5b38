/**
 * The comparisons under full load: the program and its baselines in turn, A B A B, warmed
 * up before; the figures are medians of the ratios of runs that lie next to each other, of answers
 * a second and of CPU time of the main thread.
 */
import { keyOf, SPENT_KEY, type Targets } from '../../support/customers.ts'
import { asJson, TYPICAL } from '../../support/queries.ts'
import { count, median, type Row, shown } from '../../support/table.ts'
import {
  ask,
  type BenchServer,
  startBare,
  startFastify,
  startNginx,
} from '../baselines/baselines.ts'
import { type Load, load, unexpectedOf } from '../load.ts'
import type { Workspace } from '../workspace.ts'

const WARM_UP_SECONDS = 2

/** The program without and with its access log, an earlier build of it, and the baselines. */
type ServerName = 'this' | 'logged' | 'before' | 'loggedBefore' | 'bare' | 'nginx' | 'fastify'

/** A row of the result: two servers, and the ratio by CPU to reach, if there is one. */
type Comparison = { ours: 'this' | 'logged'; other: ServerName; target: number | null }

/** What nearly all clients accept. */
const ACCEPTS = 'gzip, deflate, br, zstd'

type Case = {
  name: string
  targets: keyof Targets
  /** The status that every answer has. */
  status: 200 | 429
  /** What the clients accept besides `identity`. */
  accepts?: string
  /** Clients come through a reverse proxy on this machine. */
  isProxied?: boolean
  comparisons: readonly Comparison[]
}

const REPEATED: Case = {
  name: 'repeated filters',
  targets: 'repeated',
  status: 200,
  comparisons: [
    { ours: 'this', other: 'bare', target: 0.52 },
    { ours: 'this', other: 'nginx', target: null },
    { ours: 'this', other: 'fastify', target: 12 },
    { ours: 'this', other: 'before', target: null },
    { ours: 'logged', other: 'bare', target: 0.48 },
  ],
}
/** What operators run. */
const PROXIED: Case = {
  name: 'repeated filters, compressed, behind a proxy',
  targets: 'repeated',
  status: 200,
  accepts: ACCEPTS,
  isProxied: true,
  comparisons: [
    { ours: 'logged', other: 'bare', target: 0.42 },
    { ours: 'logged', other: 'loggedBefore', target: null },
  ],
}
const DISTINCT: Case = {
  name: 'every filter different, TXT',
  targets: 'distinct',
  status: 200,
  comparisons: [
    { ours: 'this', other: 'fastify', target: 4 },
    { ours: 'this', other: 'before', target: null },
  ],
}
const DISTINCT_JSON: Case = {
  ...DISTINCT,
  name: 'every filter different, JSON',
  targets: 'distinctJson',
}
const REFUSED: Case = {
  name: 'refused (429)',
  targets: 'refused',
  status: 429,
  comparisons: [
    { ours: 'this', other: 'bare', target: 0.64 },
    { ours: 'this', other: 'before', target: null },
    { ours: 'logged', other: 'bare', target: null },
  ],
}

const SHOWN: { readonly [name in ServerName]: string } = {
  this: 'log off',
  logged: 'access log on',
  before: 'before',
  loggedBefore: 'before',
  bare: 'bare Bun.serve',
  nginx: 'nginx static',
  fastify: 'Fastify + better-sqlite3',
}

/** The servers of a case; a text is the reason why one does not run. */
type Servers = Map<ServerName, BenchServer | string>

/** A target whose answer the constant baselines repeat. */
const sampleTarget = ({ status }: Case): string =>
  `/api?key=${status === 429 ? SPENT_KEY : keyOf(0)}&${TYPICAL[0]}`

/** Starts the servers that a case compares. Those of the program have data of their own. */
async function startServers(workspace: Workspace, what: Case): Promise<Servers> {
  const { program, before } = workspace
  const target = sampleTarget(what)
  const more = what.isProxied ? ['--trust-proxy', '127.0.0.1'] : []
  const quiet = await program.serve({ log: 'off' })
  await ask(quiet, target) // the one request that the plan of the spent key admits
  const answer = await ask(quiet, target, what.accepts)
  const start: { [name in ServerName]: () => Promise<BenchServer | string | null> } = {
    this: async () => quiet,
    logged: async () => program.serve({ data: await program.copy(`logged-${what.name}`), more }),
    before: async () => (await before?.serve({ log: 'off' })) ?? null,
    loggedBefore: async () => (await before?.serve({ more })) ?? null,
    bare: () => startBare(workspace, answer),
    nginx: async () => (await startNginx(workspace, answer)) ?? 'not installed',
    fastify: () => startFastify(workspace),
  }
  const servers: Servers = new Map()
  for (const name of new Set(what.comparisons.flatMap(({ ours, other }) => [ours, other]))) {
    const server = await start[name]()
    if (server !== null) servers.set(name, server)
    const isBuild = name === 'logged' || name === 'before' || name === 'loggedBefore'
    if (isBuild && server !== null && typeof server !== 'string') await ask(server, target)
  }
  return servers
}

const running = (servers: Servers): [ServerName, BenchServer][] =>
  [...servers].flatMap(([name, server]) => (typeof server === 'string' ? [] : [[name, server]]))

const fieldsOf = ({ accepts, isProxied }: Case): string =>
  (accepts === undefined ? '' : `Accept-Encoding: ${accepts}\r\n`) +
  (isProxied ? 'X-Forwarded-For: 203.0.113.9\r\n' : '')

/** All runs of each server, in order. */
async function runAll(workspace: Workspace, what: Case, servers: Servers) {
  const { rounds, durationSeconds } = workspace.options
  const targetsFile = (await workspace.targets())[what.targets]
  const isDistinct = what.targets.startsWith('distinct')
  const run = (server: BenchServer, seconds: number): Promise<Load> =>
    load(workspace, [server], { targetsFile, isDistinct, fields: fieldsOf(what), seconds })

  const runs = new Map<ServerName, Load[]>()
  for (const [, server] of running(servers)) await run(server, WARM_UP_SECONDS)
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, server] of running(servers)) {
      runs.set(name, [...(runs.get(name) ?? []), await run(server, durationSeconds)])
    }
  }
  return runs
}

function summary(runs: readonly Load[], what: Case): string {
  const bad = runs.reduce((sum, run) => sum + unexpectedOf(run, what.status), 0)
  const perSecond = shown(median(runs.map(run => run.perSecond)))
  return `${perSecond}/s${bad > 0 ? ` (${count(bad)} unexpected answers)` : ''}`
}

/** CPU time a request, of the main thread and of all threads: `18.1 (19.0)`. */
function cpuOf(runs: readonly Load[]): string {
  const of = (pick: 'mainUs' | 'allUs') => shown(median(runs.map(({ cpu }) => cpu[pick])))
  return `${of('mainUs')} (${of('allUs')}) µs`
}

function rowOf(
  what: Case,
  { ours, other, target }: Comparison,
  servers: Servers,
  runs: Map<ServerName, Load[]>,
): Row[] {
  const server = servers.get(other)
  if (server === undefined) return [] // no earlier build was named
  const own = runs.get(ours) ?? []
  const row = {
    case: `${what.name}, ${SHOWN[ours]}`,
    this: summary(own, what),
    target: target === null ? '' : `≥ ${target} ×`,
  }
  if (typeof server === 'string') {
    return [{ ...row, that: `${SHOWN[other]}: skipped, ${server}`, figure: '', holds: null }]
  }
  const others = runs.get(other) ?? []
  const ratio = median(own.map((run, i) => run.perSecond / (others[i]?.perSecond ?? Number.NaN)))
  const cpuRatio = median(
    own.map((run, i) => (others[i]?.cpu.mainUs ?? Number.NaN) / run.cpu.mainUs),
  )
  const isClean = own.every(run => unexpectedOf(run, what.status) === 0)
  const that = `${SHOWN[other]}: ${summary(others, what)}`
  const cpu = `${cpuOf(own)} : ${cpuOf(others)}`
  const holds = target === null ? null : cpuRatio >= target && isClean
  return [{ ...row, that, cpu, figure: `${shown(ratio)} ×, by CPU ${shown(cpuRatio)} ×`, holds }]
}

/** Reports when Fastify does less work than the program: its answers must be the same bytes. */
async function checkSameAnswers(servers: Servers): Promise<void> {
  const [program, other] = [servers.get('this'), servers.get('fastify')]
  if (typeof program !== 'object' || typeof other !== 'object') return
  for (const [n, query] of [...TYPICAL, ...TYPICAL.map(asJson)].entries()) {
    const target = `/api?key=${keyOf(n)}&${query}`
    const [ours, theirs] = [await ask(program, target), await ask(other, target)]
    if (ours.status === 200 && Buffer.compare(ours.body, theirs.body) === 0) continue
    process.stderr.write(`note: Fastify answers differently to ${query}\n`)
  }
}

async function compare(workspace: Workspace, what: Case): Promise<Row[]> {
  const servers = await startServers(workspace, what)
  try {
    await checkSameAnswers(servers)
    const runs = await runAll(workspace, what, servers)
    return what.comparisons.flatMap(comparison => rowOf(what, comparison, servers, runs))
  } finally {
    await Promise.all(running(servers).map(([, server]) => server.stop()))
  }
}

/** Repeated filters, thousands of keys. */
export const repeated = (workspace: Workspace) => compare(workspace, REPEATED)
export const proxied = (workspace: Workspace) => compare(workspace, PROXIED)
/** Every request another filter: nothing can be cached. */
export const distinct = (workspace: Workspace) => compare(workspace, DISTINCT)
export const distinctJson = (workspace: Workspace) => compare(workspace, DISTINCT_JSON)
/** One key over its burst. */
export const refused = (workspace: Workspace) => compare(workspace, REFUSED)
