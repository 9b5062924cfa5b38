/**
 * Owns the comparisons under full load: the program and its baselines in turn, A B A B, warmed
 * up before; the figure is the median of the ratios of runs that lie next to each other.
 */

import { keyOf, SPENT_KEY, type Targets } from '../support/customers.ts'
import { TYPICAL } from '../support/queries.ts'
import { count, median, type Row, shown } from '../support/table.ts'
import {
  ask,
  type BenchServer,
  startBare,
  startFastify,
  startNginx,
} from './baselines/baselines.ts'
import { type Load, load } from './load.ts'
import type { Workspace } from './workspace.ts'

const WARM_UP_SECONDS = 2

type Case = { name: string; targets: keyof Targets; status: number }
/** A baseline and the ratio to reach; a text is the reason why it does not run. */
type Baseline = { server: BenchServer | string; name: string; target: number }

/** All runs of one server in one case, in order. */
type Runs = Load[]

async function runAll(workspace: Workspace, servers: readonly BenchServer[], what: Case) {
  const { rounds, durationSeconds } = workspace.options
  const targetsFile = (await workspace.targets())[what.targets]
  const isDistinct = what.targets === 'distinct'
  const run = ({ port }: BenchServer, seconds: number): Promise<Load> =>
    load(workspace, { port, targetsFile, isDistinct, seconds })

  for (const server of servers) await run(server, WARM_UP_SECONDS)
  const runs = new Map<BenchServer, Runs>(servers.map(server => [server, []]))
  for (let round = 0; round < rounds; round += 1) {
    for (const [server, done] of runs) done.push(await run(server, durationSeconds))
  }
  return runs
}

/** Answers that the case does not expect: no request may be refused, or every one must be. */
function unexpected({ requests, not2xx, broken }: Load, { status }: Case): number {
  return broken + (status === 200 ? not2xx : requests - not2xx)
}

function summary(runs: Runs, what: Case): string {
  const bad = runs.reduce((sum, run) => sum + unexpected(run, what), 0)
  const perSecond = shown(median(runs.map(run => run.perSecond)))
  return `${perSecond}/s${bad > 0 ? ` (${count(bad)} unexpected answers)` : ''}`
}

async function compare(
  workspace: Workspace,
  what: Case,
  program: BenchServer,
  baselines: readonly Baseline[],
): Promise<Row[]> {
  const servers = baselines.map(({ server }) => server).filter(server => typeof server !== 'string')
  const runs = await runAll(workspace, [program, ...servers], what)
  const own = runs.get(program) ?? []
  const ownIsClean = own.every(run => unexpected(run, what) === 0)
  return baselines.map(({ server, name, target }) => {
    const row = { case: what.name, this: summary(own, what), target: `≥ ${target} ×` }
    if (typeof server === 'string') {
      return { ...row, that: `${name}: skipped, ${server}`, figure: '', holds: null }
    }
    const others = runs.get(server) ?? []
    const ratio = median(own.map((run, i) => run.perSecond / (others[i]?.perSecond ?? Number.NaN)))
    const that = `${name}: ${summary(others, what)}`
    return { ...row, that, figure: `${shown(ratio)} ×`, holds: ratio >= target && ownIsClean }
  })
}

const stopEach = (servers: readonly (BenchServer | string)[]): Promise<unknown> =>
  Promise.all(servers.map(server => typeof server !== 'string' && server.stop()))

/** Reports when Fastify does less work than the program: its answers must be the same bytes. */
async function checkSameAnswers(program: BenchServer, other: BenchServer): Promise<void> {
  for (const [n, query] of TYPICAL.entries()) {
    const target = `/api?key=${keyOf(n)}&${query}`
    const [ours, theirs] = [await ask(program, target), await ask(other, target)]
    if (ours.status === 200 && Buffer.compare(ours.body, theirs.body) === 0) continue
    process.stderr.write(`note: Fastify answers differently to ${query}\n`)
  }
}

/** Repeated filters, thousands of keys, everything on. */
export async function repeated(workspace: Workspace): Promise<Row[]> {
  const program = await workspace.serve()
  const answer = await ask(program, `/api?key=${keyOf(0)}&${TYPICAL[0]}`)
  const bare = await startBare(workspace, answer)
  const nginx = (await startNginx(workspace, answer)) ?? 'not installed'
  const fastify = await startFastify(workspace)
  if (typeof fastify !== 'string') await checkSameAnswers(program, fastify)
  try {
    const what: Case = { name: 'repeated filters', targets: 'repeated', status: 200 }
    return await compare(workspace, what, program, [
      { server: bare, name: 'bare Bun.serve', target: 0.6 },
      { server: nginx, name: 'nginx static', target: 0.75 },
      { server: fastify, name: 'Fastify + better-sqlite3', target: 12 },
    ])
  } finally {
    await stopEach([program, bare, nginx, fastify])
  }
}

/** Every request another filter: nothing can be cached. */
export async function distinct(workspace: Workspace): Promise<Row[]> {
  const program = await workspace.serve()
  const fastify = await startFastify(workspace)
  try {
    const what: Case = { name: 'every filter different', targets: 'distinct', status: 200 }
    return await compare(workspace, what, program, [
      { server: fastify, name: 'Fastify + better-sqlite3', target: 3 },
    ])
  } finally {
    await stopEach([program, fastify])
  }
}

/** One key over its burst. */
export async function refused(workspace: Workspace): Promise<Row[]> {
  const program = await workspace.serve()
  const target = `/api?key=${SPENT_KEY}&${TYPICAL[0]}`
  await ask(program, target) // the one request that its plan admits
  const bare = await startBare(workspace, await ask(program, target))
  try {
    const what: Case = { name: 'refused (429)', targets: 'refused', status: 429 }
    return await compare(workspace, what, program, [
      { server: bare, name: 'bare Bun.serve', target: 0.6 },
    ])
  } finally {
    await stopEach([program, bare])
  }
}
