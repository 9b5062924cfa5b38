/**
 * The comparison of nodes that share a PostgreSQL with one server on SQLite: in turn, under the
 * same load, everything on one machine. CPU time is that of all nodes, and of all processes of
 * PostgreSQL, per request.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryDirectory } from '../../../support/temporary.ts'
import { customers, SPENT_KEY, type Targets } from '../../support/customers.ts'
import { readCpu } from '../../support/process.ts'
import { TYPICAL } from '../../support/queries.ts'
import {
  addSharedCustomers,
  command,
  sharedAt,
  startNodes,
  startShared,
  type UsedDatabase,
} from '../../support/shared-database.ts'
import { count, median, type Row, shown } from '../../support/table.ts'
import { ask, type BenchServer } from '../baselines/baselines.ts'
import { type Load, load, unexpectedOf } from '../load.ts'
import type { Workspace } from '../workspace.ts'

const NODES_MAX = 3
const WARM_UP_SECONDS = 6
/** Least share of the answers of SQLite, of one node with the database on the same machine. */
const ADMITTED_MIN = 0.45
const REFUSED_MIN = 0.9
/** Most CPU time of the database for an admission. */
const DATABASE_US_MAX = 15

/** What is measured: requests that are admitted, or refused. */
type Case = { name: string; targets: keyof Targets; status: 200 | 429; least: number }
const ADMITTED: Case = { name: 'admitted', targets: 'repeated', status: 200, least: ADMITTED_MIN }
/** Refusals come first: of admissions of many keys, a server writes the use for half a minute after. */
const CASES: readonly Case[] = [
  { name: 'refused (429)', targets: 'refused', status: 429, least: REFUSED_MIN },
  ADMITTED,
]

/** The processes of a server: the postmaster and its children. */
function processesOf(postmaster: number): number[] {
  const isChild = (pid: number): boolean => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === postmaster
    } catch {
      return false // it has ended
    }
  }
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  return [postmaster, ...pids.filter(isChild)]
}

/** CPU time of processes until now, in nanoseconds. */
const cpuNs = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => sum + (readCpu(pid)?.allNs ?? 0), 0)

/** One measured run of some servers at once; the CPU time of the database is that a request. */
type Measured = Load & { databaseUs: number | null }

type Servers = { database: UsedDatabase; nodes: readonly BenchServer[]; sqlite: BenchServer }

/** Puts the same load on each of some servers at once. */
async function measure(
  workspace: Workspace,
  of: Case,
  servers: readonly BenchServer[],
  postmaster: number | null,
  { seconds, connections }: { seconds: number; connections: number },
): Promise<Measured> {
  const targetsFile = (await workspace.targets())[of.targets]
  const database = postmaster === null ? [] : processesOf(postmaster)
  const beforeNs = cpuNs(database)
  const input = { targetsFile, isDistinct: false, seconds, connections }
  const loaded = await load(workspace, servers, input)
  const databaseUs = (cpuNs(database) - beforeNs) / 1_000 / loaded.requests
  return { ...loaded, databaseUs: postmaster === null ? null : databaseUs }
}

/** The servers of one comparison: SQLite is 0 nodes. */
type Runs = Map<number, Measured[]>

/** All runs of a case, in turn. */
async function runAll(workspace: Workspace, of: Case, servers: Servers, connections: number) {
  const { rounds, durationSeconds } = workspace.options
  const postmaster = servers.database.pid()
  const run = (nodes: number, seconds: number): Promise<Measured> => {
    const some = nodes === 0 ? [servers.sqlite] : servers.nodes.slice(0, nodes)
    return measure(workspace, of, some, nodes === 0 ? null : postmaster, { seconds, connections })
  }
  const counts = connections === 1 ? [0, 1] : [0, 1, 2, NODES_MAX]
  for (const nodes of [0, NODES_MAX]) await run(nodes, WARM_UP_SECONDS)
  const runs: Runs = new Map()
  for (let round = 0; round < rounds; round += 1) {
    for (const nodes of counts) {
      runs.set(nodes, [...(runs.get(nodes) ?? []), await run(nodes, durationSeconds)])
    }
  }
  return runs
}

const medianOf = (runs: readonly Measured[], pick: (run: Measured) => number): number =>
  median(runs.map(pick))

/** `9,800/s, p50 1.2, p99 4.0 ms`, and how many answers were not of the expected status. */
function summary(runs: readonly Measured[], { status }: Case): string {
  const unexpected = runs.reduce((sum, run) => sum + unexpectedOf(run, status), 0)
  const p50 = shown(medianOf(runs, run => run.latency?.p50 ?? Number.NaN))
  const p99 = shown(medianOf(runs, run => run.latency?.p99 ?? Number.NaN))
  const bad = unexpected > 0 ? ` (${count(unexpected)} unexpected answers)` : ''
  return `${shown(medianOf(runs, run => run.perSecond))}/s, p50 ${p50}, p99 ${p99} ms${bad}`
}

/** A row for some nodes beside SQLite. */
function rowOf(of: Case, nodes: number, connections: number, runs: Runs): Row {
  const own = runs.get(nodes) ?? []
  const sqlite = runs.get(0) ?? []
  const ratio = median(own.map((run, i) => run.perSecond / (sqlite[i]?.perSecond ?? Number.NaN)))
  const databaseUs = medianOf(own, run => run.databaseUs ?? Number.NaN)
  const isFirst = nodes === 1 && connections > 1
  const isAdmission = of.status === 200
  const limit = isAdmission && isFirst ? `, ≤ ${DATABASE_US_MAX} µs of the database` : ''
  const isCheap = !isAdmission || !(databaseUs > DATABASE_US_MAX)
  const isClean = own.every(run => unexpectedOf(run, of.status) === 0)
  const us = (pick: (run: Measured) => number, all: readonly Measured[]): string =>
    `${shown(medianOf(all, pick))} µs`
  return {
    case: `${of.name}, ${nodes} ${nodes === 1 ? 'node' : 'nodes'} of ${connections} connections`,
    this: summary(own, of),
    that: `SQLite: ${summary(sqlite, of)}`,
    cpu: `${us(run => run.cpu.allUs, own)} and database ${shown(databaseUs)} µs : ${us(run => run.cpu.allUs, sqlite)}`,
    figure: `${shown(ratio)} ×`,
    target: isFirst ? `≥ ${of.least} ×${limit}` : '',
    holds: isFirst ? ratio >= of.least && isCheap && isClean : null,
  }
}

/** Fills the database as the data directory of the program is filled, and starts the servers. */
async function startServers(workspace: Workspace): Promise<Servers> {
  const { program, options, dir, rowFiles } = workspace
  const { database: url, keys } = options
  const database = url === null || url === 'own' ? await startShared() : sharedAt(url)
  const shared = { program: [program.binary], database }
  await addSharedCustomers(shared, join(dir, 'customers'), customers(keys))
  await command(shared, ['import', await rowFiles.random()])
  const directories = Array.from({ length: NODES_MAX }, () => temporaryDirectory('node'))
  const restartable = await startNodes(shared, directories, { more: ['--log', 'off'] })
  const nodes = restartable.map(({ where, child }) => ({
    ...{ port: where.kind === 'tcp' ? where.port : 0, pid: child().pid },
    stop: () => child().stop(),
  }))
  const sqlite = await program.serve({ log: 'off' })
  for (const server of [sqlite, ...nodes]) {
    await ask(server, `/api?key=${SPENT_KEY}&${TYPICAL[0]}`) // the one that its plan admits
  }
  return { database, nodes, sqlite }
}

/** One, two and three nodes over one PostgreSQL, beside a server on SQLite. */
export async function nodes(workspace: Workspace): Promise<Row[]> {
  const servers = await startServers(workspace)
  const rows: Row[] = []
  try {
    for (const of of CASES) {
      const { connections } = workspace.options
      const runs = await runAll(workspace, of, servers, connections)
      for (let n = 1; n <= NODES_MAX; n += 1) rows.push(rowOf(of, n, connections, runs))
    }
    rows.push(rowOf(ADMITTED, 1, 1, await runAll(workspace, ADMITTED, servers, 1)))
    return rows
  } finally {
    await Promise.all([servers.sqlite, ...servers.nodes].map(server => server.stop()))
  }
}
