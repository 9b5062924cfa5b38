/**
 * Many nodes over one PostgreSQL: clients with every kind of key ask each of them, while nodes, their
 * connections and the server are killed, stopped, exhausted and replaced, and clocks step. Triggers of
 * the database record what is counted, and a judge holds that against what every client saw.
 */
import { join } from 'node:path'
import { UNLIMITED } from '../../../support/fixtures.ts'
import { between, randomOf, shuffled } from '../../../support/random.ts'
import { startScript } from '../../support/script.ts'
import { type SharedDatabase, startShared } from '../../support/shared-database.ts'
import { count, shown } from '../../support/table.ts'
import type { Restartable } from '../kill-serve/restart.ts'
import type { ClientInput, ClientResult } from '../limiter/client.ts'
import { type Judged, judge, sayJudged } from '../limiter/judge.ts'
import {
  type Asked,
  historiesOf,
  type JournalRows,
  readAsked,
  type Step,
} from '../limiter/records.ts'
import { burst, type Kind, regular } from '../limiter/traffic.ts'
import type { Ids } from '../limiter/world.ts'
import { type Finding, type Part, scaled } from '../part.ts'
import { createLimitsClock, createNodeClock, type Done, FAULTS, type Scene } from './faults.ts'
import { addJournal, readJournal } from './journal.ts'
import { makeWorld, type NodesRun, startNodes } from './world.ts'

/** Every kind of limit of contract B2 to B6; more are admitted than in the run on one machine. */
export const KINDS: readonly Kind[] = [
  regular('one', 4, 20_000, burst(1, 1)),
  regular('five', 4, 20_000, burst(5, 5)),
  regular('many', 8, 20_000, burst(40, 2)),
  regular('wide', 12, 20_000, burst(300, 1)),
  regular('vast', 8, 6_000, burst(1_000, 60)),
  regular('long', 4, 4_000, burst(3, 20)),
  regular('daily', 16, 600, { daily: 300 }),
  regular('both', 8, 400, { ...burst(20, 1), daily: 200 }),
  regular('subnets', 8, 300, { subnets: 6 }),
  regular('clients', 8, 300, { clients: 3 }),
  regular('all', 8, 300, { ...burst(30, 1), daily: 200, subnets: 8, clients: 4 }),
  { name: 'demo', caller: 'demo', limits: UNLIMITED, share: 6, each: 10 },
  { name: 'temp', caller: 'temp', limits: UNLIMITED, share: 6, each: 8 },
]

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
/** A run that takes longer has failed. */
const DEADLINE_SECONDS = 1_800
/** What a request may wait beside `--database-timeout`, on a machine that is busy with the faults. */
const TIMEOUT_MS = 2_000
const WAIT_SLACK_MS = 1_000

/** Starts the clients of each node; gives their files, and how to end them. */
function startClients(run: NodesRun, directory: string, nodes: readonly Restartable[], size: Size) {
  const files = nodes.map((_, n) => join(directory, `notes-${n}`))
  const scripts = nodes.map(({ where }, n) => {
    const input: ClientInput = {
      ...{ ports: [where.kind === 'tcp' ? where.port : 0], clients: size.clients, kinds: KINDS },
      ...{ allRequests: lapRequests(size), seed: run.seed, name: `client of node ${n}` },
      length: { kind: 'steady', lapSeconds: LAP_SECONDS },
      file: files[n] ?? '',
    }
    return startScript<ClientResult>('torture/limiter/client.ts', input, DEADLINE_SECONDS)
  })
  return {
    files,
    async stop(): Promise<void> {
      await Promise.all(scripts.map(script => script.stop()))
      await Promise.all(scripts.map(({ result }) => result))
    },
  }
}

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

/** A run's records: what clients saw, what the database wrote, the faults. */
type Records = {
  asked: Asked[]
  journal: JournalRows
  steps: readonly Step[]
  made: Made[]
  version: string
  seconds: number
}

/** Runs the nodes under load and faults. */
export async function load(run: NodesRun, size: Size): Promise<Records> {
  const database = await startShared()
  const shared = { program: run.program, database }
  const directory = run.directory('world')
  const ids: Ids = await makeWorld(shared, directory, KINDS, lapRequests(size))
  await addJournal(database)
  const clock = join(directory, 'clock')
  const setNodeClock = createNodeClock(clock)
  const directories = Array.from({ length: size.nodes }, (_, n) => run.directory(`node-${n}`))
  const nodes = await startNodes(shared, directories, {
    env: { PROXYLIST_TEST_CLOCK: clock },
  })
  run.say(`${nodes.length} nodes over PostgreSQL ${database.version}`)
  const limits = createLimitsClock(database)
  const random = randomOf(run.seed, 'faults of nodes')
  const startMs = performance.now()
  const clients = startClients(run, directory, nodes, size)
  const made = await makeFaults(run, { database, nodes, limits, setNodeClock, random }, size)
  await untilAdmitted(database, size.admissions)
  await clients.stop()
  const seconds = (performance.now() - startMs) / 1000
  for (const node of nodes) await node.child().stop()
  const { all: asked } = await readAsked(clients.files, KINDS, ids)
  const journal = await readJournal(database)
  return { asked, journal, steps: limits.steps, made, version: database.version, seconds }
}

function limitFindings(judged: Judged, least: number, where: string): Finding[] {
  const { admissions, over, overSeen, notFull, wrongFields, networkRefusals, requests } = judged
  const refusals = requests.refused + networkRefusals
  return [
    {
      promise: 'No window, day or set of networks holds more than its limit over all nodes',
      figure:
        `${over} over-admissions in ${count(admissions)} admissions, ` +
        `${overSeen} by the clients’ clocks alone; ${where}`,
      bound: `0; ≥ ${count(least)} admissions`,
      holds: over === 0 && overSeen === 0 && admissions >= least,
    },
    {
      promise: 'Every refusal of a node is right, with its code, retry_after and RateLimit',
      figure:
        `${notFull.length} while no limit was full, ${wrongFields.length} with a wrong field, ` +
        `of ${count(refusals)} (${count(networkRefusals)} for networks)`,
      bound: '0; 0',
      holds: notFull.length === 0 && wrongFields.length === 0 && refusals > 0,
    },
  ]
}

function durabilityFindings(judged: Judged, made: readonly Made[], size: Size): Finding[] {
  const { lost, double, halves, requests, networksMissing, networksUnshown } = judged
  const timesOf = (name: string): number =>
    made.reduce((sum, one) => sum + (one.name === name ? one.times : 0), 0)
  const figures = Object.keys(size.faults).map(name => `${FAULTS[name]?.what} ${timesOf(name)} ×`)
  return [
    {
      promise: 'An answered admission is counted, exactly once, whatever failed',
      figure:
        `${lost.length} of ${count(requests.admitted)} lost, ${double} double, ` +
        `${halves} with one of two limits; ${count(requests.unknown)} not answered; ` +
        figures.join(', '),
      bound: `0; 0; 0; ${Object.values(size.faults).join(', ')} ×`,
      holds:
        lost.length + double + halves === 0 &&
        Object.entries(size.faults).every(([name, times]) => timesOf(name) >= times),
    },
    {
      promise: 'Networks of answers are counted before the answer, and no others',
      figure: `${networksMissing} answers before their networks, ${networksUnshown} never shown`,
      bound: '0; 0',
      holds: networksMissing + networksUnshown === 0,
    },
  ]
}

function recoveryFindings(
  judged: Judged,
  { late, after, slowestMs }: Recovery,
  slackMs: number,
): Finding[] {
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
    {
      promise: 'Every other answer is one that the contract names',
      figure: `${judged.requests.wrong} others`,
      bound: '0',
      holds: judged.requests.wrong === 0,
    },
  ]
}

/** Runs nodes under load and faults, and judges. */
export async function tortureNodes(run: NodesRun, size: Size): Promise<Finding[]> {
  const { asked, journal, steps, made, version, seconds } = await load(run, size)
  run.say(`${count(asked.length)} answers in ${Math.round(seconds)} s`)
  const histories = historiesOf(journal, steps)
  const judged = judge(asked, histories)
  const recovery = recoveryOf(asked, made, RIGHT_AGAIN_MS + size.slackMs)
  const unknown = Map.groupBy(asked, ({ status, code }) => code || String(status))
  run.say([...unknown].map(([what, all]) => `${what} ${count(all.length)}`).join(', '))
  const slow = asked.filter(
    ({ sentMs, receivedMs }) => receivedMs - sentMs > TIMEOUT_MS + WAIT_SLACK_MS + size.slackMs,
  )
  sayJudged(run, judged, histories, { late: recovery.late, slow })
  const { nodes, clients } = size
  const where = `${nodes} nodes, ${clients} clients each, PostgreSQL ${version}`
  return [
    ...limitFindings(judged, size.admissions, where),
    ...durabilityFindings(judged, made, size),
    ...recoveryFindings(judged, recovery, size.slackMs),
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
