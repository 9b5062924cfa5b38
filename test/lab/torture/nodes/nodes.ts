/**
 * Many nodes over one PostgreSQL: clients with every kind of key ask each of them, while nodes, their
 * connections and the server are killed, stopped, exhausted and replaced, and clocks step. Triggers of
 * the database record what is counted, and a judge holds that against what every client saw.
 */
import { join } from 'node:path'
import { between, randomOf, shuffled } from '../../../support/random.ts'
import { type SharedDatabase, startNodes, startShared } from '../../support/shared-database.ts'
import { count, shown } from '../../support/table.ts'
import { startClients } from '../limiter/client.ts'
import { findingsOf, judgeNotes, sayExamples } from '../limiter/judge.ts'
import type { Asked } from '../limiter/records.ts'
import { type Finding, type Part, scaled } from '../part.ts'
import { createLimitsClock, createNodeClock, type Done, FAULTS, type Scene } from './faults.ts'
import { makeWorld, type NodesRun, readJournal } from './world.ts'

/** A fault that was made: from when on, and what it did. */
type Made = Done & { name: string; fromMs: number }

/** Answers are right again within this after the return of the database (contract I4). */
const RIGHT_AGAIN_MS = 2_000

const isUnavailable = ({ status }: Asked): boolean => status === 503

type Recovery = {
  /** 503 to requests that were sent later than allowed after the return, before the next fault. */
  late: Asked[]
  /** From the return until the last request was sent that was answered 503, for each fault. */
  after: { name: string; ms: number }[]
  /** From sending to the answer, of the slowest request. */
  slowestMs: number
}

/** Compares the instants of faults, which are in order, with what the clients saw. */
function recoveryOf(all: readonly Asked[], made: readonly Made[], rightAgainMs: number): Recovery {
  const unavailable = all.filter(isUnavailable).sort((a, b) => a.sentMs - b.sentMs)
  const late: Asked[] = []
  const after: Recovery['after'] = []
  for (const [i, { name, returnedMs, fromMs }] of made.entries()) {
    const untilMs = made[i + 1]?.fromMs ?? Number.POSITIVE_INFINITY
    const its = unavailable.filter(
      ({ sentMs, receivedMs }) => sentMs >= fromMs && receivedMs < untilMs,
    )
    const last = its.at(-1)?.sentMs ?? returnedMs
    after.push({ name, ms: Math.max(0, last - returnedMs) })
    late.push(...its.filter(({ sentMs }) => sentMs > returnedMs + rightAgainMs))
  }
  const slowestMs = all.reduce((most, one) => Math.max(most, one.receivedMs - one.sentMs), 0)
  return { late, after, slowestMs }
}

/** What a run does; the short one of `make test` is smaller. */
export type Size = {
  nodes: number
  /** Clients of each node. */
  clients: number
  /** Admissions at least. */
  admissions: number
  /** How often each fault is made, by its name in `FAULTS`; the others are not made. */
  faults: { readonly [name: string]: number }
  /** Between two faults, at least. */
  calmMs: number
  /** What a busy machine may add to the times of the contract; a full run measures them. */
  slackMs: number
}

/** Longer than `RIGHT_AGAIN_MS`: what is late shows before the next fault. */
const CALM_MS = 2_300
const ADMISSIONS = 300_000
/** A run over all subjects takes so long; how many requests that is decides how many there are. */
const LAP_SECONDS = 120
const LAP_REQUESTS = 400_000
/** What a request may wait beside `--database-timeout`, on a machine that is busy with the faults. */
const TIMEOUT_MS = 2_000
const WAIT_SLACK_MS = 1_000

const lapRequests = ({ admissions }: Size): number =>
  Math.ceil((LAP_REQUESTS * admissions) / ADMISSIONS)

/** Makes every fault as often as it should be made, in random order, with calm between. */
async function makeFaults(run: NodesRun, scene: Scene, size: Size): Promise<Made[]> {
  const made: Made[] = []
  const names = Object.entries(size.faults).flatMap(([name, times]) => {
    // Each fault of this kind makes several.
    const each = name === 'terminateBackends' ? 2.5 : 1
    return Array.from({ length: Math.ceil(times / each) }, () => name)
  })
  const countOf = (name: string): number =>
    made.reduce((sum, one) => sum + (one.name === name ? one.times : 0), 0)
  const queue = shuffled(scene.random, names)
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    const fault = FAULTS[name]
    if (!fault) throw new Error(`there is no fault ${name}`)
    await Bun.sleep(size.calmMs + between(scene.random, 0, 300))
    const fromMs = Date.now()
    made.push({ name, fromMs, ...(await fault.fault(scene)) })
    if (queue.length === 0) {
      const missing = Object.entries(size.faults).find(([of, times]) => countOf(of) < times)
      if (missing) queue.push(missing[0])
    }
    if (made.length % 20 === 0) run.say(`${made.length} faults made, ${queue.length} to come`)
  }
  await Bun.sleep(size.calmMs)
  return made
}

async function untilAdmitted({ run }: SharedDatabase, least: number): Promise<void> {
  for (;;) {
    const [row] = await run('select coalesce(sum(added), 0)::float8 as sum from torture.admissions')
    if (Number(row?.sum) >= least) return
    await Bun.sleep(1_000)
  }
}

function faultsFinding(made: readonly Made[], { faults }: Size): Finding {
  const timesOf = (name: string): number =>
    made.reduce((sum, one) => sum + (one.name === name ? one.times : 0), 0)
  const figures = Object.keys(faults).map(name => `${FAULTS[name]?.what} ${timesOf(name)} ×`)
  return {
    promise: 'Nodes, connections, the server and clocks failed meanwhile',
    figure: figures.join(', '),
    bound: `${Object.values(faults).join(', ')} ×`,
    holds: Object.entries(faults).every(([name, times]) => timesOf(name) >= times),
  }
}

function recoveryFindings({ late, after, slowestMs }: Recovery, slackMs: number): Finding[] {
  const slowest = after.toSorted((a, b) => b.ms - a.ms)[0]
  return [
    {
      promise: 'Answers are right again within 2 s of the return of what failed',
      figure:
        `503 until ${shown(slowest?.ms ?? 0)} ms after the return at most ` +
        `(${FAULTS[slowest?.name ?? '']?.what}), of ${after.length} faults; ${late.length} later`,
      bound: `≤ ${count(RIGHT_AGAIN_MS + slackMs)} ms; 0`,
      holds: late.length === 0,
    },
    {
      promise: 'No request waits longer for the database than --database-timeout',
      figure: `the slowest ${shown(slowestMs)} ms`,
      bound: `≤ ${count(TIMEOUT_MS)} ms and ${count(WAIT_SLACK_MS + slackMs)} ms of a busy machine`,
      holds: slowestMs <= TIMEOUT_MS + WAIT_SLACK_MS + slackMs,
    },
  ]
}

/** Runs nodes under load and faults, and judges. */
export async function tortureNodes(run: NodesRun, size: Size): Promise<Finding[]> {
  const database = await startShared()
  const shared = { program: run.program, database }
  const directory = run.directory('world')
  const ids = await makeWorld(shared, directory, lapRequests(size))
  const clock = join(directory, 'clock')
  const setNodeClock = createNodeClock(clock)
  const directories = Array.from({ length: size.nodes }, (_, n) => run.directory(`node-${n}`))
  const env = { PROXYLIST_TEST_CLOCK: clock }
  const nodes = await startNodes(shared, directories, { env })
  const limits = createLimitsClock(database)
  const random = randomOf(run.seed, 'faults of nodes')
  const groups = nodes.map(({ where }) => [where])
  const clients = startClients(run, groups, {
    ...{ clients: size.clients, allRequests: lapRequests(size) },
    length: { kind: 'steady', lapSeconds: LAP_SECONDS },
  })
  const made = await makeFaults(run, { database, nodes, limits, setNodeClock, random }, size)
  await untilAdmitted(database, size.admissions)
  await clients.stop()
  for (const node of nodes) await node.child().stop()

  const { steps } = limits
  const journal = await readJournal(database)
  const { all, judged } = await judgeNotes(run, clients.files, ids, journal, { steps })
  const recovery = recoveryOf(all, made, RIGHT_AGAIN_MS + size.slackMs)
  const waitMsMax = TIMEOUT_MS + WAIT_SLACK_MS + size.slackMs
  sayExamples(run, 'late', recovery.late)
  sayExamples(
    run,
    'slow',
    all.filter(({ sentMs, receivedMs }) => receivedMs - sentMs > waitMsMax),
  )
  const where = `${size.nodes} nodes, ${size.clients} clients each, PostgreSQL ${database.version}`
  return [
    ...findingsOf(judged, size.admissions, where),
    faultsFinding(made, size),
    ...recoveryFindings(recovery, size.slackMs),
  ]
}

export const nodes: Part = run =>
  tortureNodes(
    { ...run, program: [run.binary] },
    {
      nodes: 3,
      clients: 64,
      admissions: scaled(ADMISSIONS, run),
      faults: Object.fromEntries(
        Object.entries(FAULTS).map(([name, { times }]) => [name, scaled(times, run)]),
      ),
      calmMs: CALM_MS,
      slackMs: 0,
    },
  )
