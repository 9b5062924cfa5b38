/**
 * Many nodes over one PostgreSQL: clients with every kind of key ask all of them, while nodes, their connections and
 * the server are killed, stopped, exhausted and replaced. The clock of limits stands still during a round of requests
 * and goes on between two, so the judge of the limiter decides each round, and no node has the clock of limits.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { between, pick, randomOf, shuffled } from '../../../support/random.ts'
import { repeat } from '../../support/repeat.ts'
import type { Restartable } from '../../support/serve.ts'
import {
  addSharedCustomers,
  command,
  promote,
  ROLE,
  type SharedDatabase,
  startNodes,
  startShared,
  startStandby,
  untilSome,
} from '../../support/shared-database.ts'
import { count, shown } from '../../support/table.ts'
import { CUSTOMERS, createLimits, LIST } from '../limits.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { kill } from '../support/kill.ts'
import { tortureHosts } from './hosts.ts'

/** A run with the program as the beginning of a command. */
export type NodesRun = Omit<Run, 'binary'> & { program: readonly string[] }

/** The clock of limits of a database, which is set by hand. */
const CLOCK = `
  create schema torture;
  create table torture.clock (ms bigint not null);
  insert into torture.clock values (0);
  grant usage on schema torture to public;
  grant select on torture.clock to public;
  create or replace function proxylist.now_ms() returns bigint language sql volatile as
    $$ select ms from torture.clock $$;
`

/** What faults act on. */
type Scene = {
  database: SharedDatabase
  nodes: readonly Restartable[]
  random: () => number
}

/** Makes a fault, and ends it; gives how many times it happened. */
type Fault = (scene: Scene) => Promise<number>

const sleep = (random: () => number, least: number, most: number): Promise<void> =>
  Bun.sleep(between(random, least, most))

/** A node is killed, and started again. */
const killNode: Fault = async ({ nodes, random }) => {
  const node = pick(random, nodes)
  if (!(await kill(node.child()))) throw new Error('a node had ended by itself')
  await sleep(random, 0, 200)
  node.start()
  await node.ready()
  return 1
}

/** Some connections of nodes are terminated by the server. */
const terminateBackends: Fault = async ({ database, random }) => {
  const most = between(random, 1, 4)
  const rows = await database.run(
    `select pg_terminate_backend(pid) from
       (select pid from pg_stat_activity where usename = '${ROLE}' order by random() limit ${most}) chosen`,
  )
  return rows.length
}

/** The server is killed, by SIGQUIT as a crash or by SIGKILL, and started again. */
const killServer: Fault = async ({ database: { server }, random }) => {
  await server.stop(pick(random, ['SIGQUIT', 'SIGKILL'] as const))
  await sleep(random, 0, 600)
  await server.start()
  return 1
}

/** Somebody keeps some rows of usage locked. */
const lockRows: Fault = async ({ database, random }) => {
  const sql = new SQL({ url: database.url(), max: 1 })
  await sql.begin(async tx => {
    await tx.unsafe(
      `select from proxylist.usage where (kind, id) in
         (select kind, id from proxylist.usage order by random() limit ${between(random, 1, 5)})
       order by kind, id for update`,
    )
    await sleep(random, 300, 4_000)
  })
  await sql.close()
  return 1
}

/** Others take every connection that nodes could have. */
const exhaustConnections: Fault = async ({ database, random }) => {
  const url = database.url()
  const taken: SQL[] = []
  const take = async (): Promise<boolean> => {
    const sql = new SQL({ url, max: 1, connectionTimeout: 2, idleTimeout: 0 })
    const isOpen = await sql`select 1`.then(
      () => true,
      () => false,
    )
    if (isOpen) taken.push(sql)
    else await sql.close({ timeout: 0 }).catch(() => {})
    return isOpen
  }
  while (await take());
  await database.run(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where usename = '${ROLE}' and application_name like 'proxylist%'`,
  )
  const untilMs = performance.now() + between(random, 500, 2_000)
  while (performance.now() < untilMs) if (!(await take())) await Bun.sleep(20)
  await Promise.all(taken.map(sql => sql.close({ timeout: 0 }).catch(() => {})))
  return 1
}

/** The database refuses to write. */
const readOnly: Fault = async ({ database, random }) => {
  const set = async (state: 'on' | 'off'): Promise<void> => {
    await database.run(`alter system set default_transaction_read_only = ${state}`)
    await database.run('select pg_reload_conf()')
  }
  await set('on')
  await sleep(random, 300, 1_500)
  await set('off')
  return 1
}

/**
 * A synchronous standby is made, and clients ask while it follows; then the server is killed, and the
 * standby takes over its address.
 */
const failOver: Fault = async ({ database: { server }, random }) => {
  const standby = await startStandby(server)
  const primary = new SQL({ url: server.url('postgres'), max: 1 })
  await primary.unsafe("alter system set synchronous_standby_names = 'standby'")
  await primary.unsafe('select pg_reload_conf()')
  await primary.close()
  const isSynchronous = "select from pg_stat_replication where sync_state = 'sync'"
  await untilSome(server.url('postgres'), isSynchronous)
  await sleep(random, 1_000, 3_000)
  await server.stop('SIGKILL')
  await promote(standby)
  await standby.stop('SIGINT')
  await server.start(standby.dir())
  return 1
}

/** Every kind of fault, and how often it happens in a full run, or more; of backends, each counts. */
const FAULTS: { readonly [name: string]: { fault: Fault; times: number; what: string } } = {
  killNode: { fault: killNode, times: 50, what: 'nodes killed' },
  terminateBackends: { fault: terminateBackends, times: 100, what: 'backends terminated' },
  killServer: { fault: killServer, times: 20, what: 'server killed' },
  lockRows: { fault: lockRows, times: 12, what: 'rows locked' },
  exhaustConnections: { fault: exhaustConnections, times: 3, what: 'connections exhausted' },
  readOnly: { fault: readOnly, times: 3, what: 'read-only' },
  failOver: { fault: failOver, times: 2, what: 'failed over' },
}

/** Answers are right again within this after the return of the database (contract I4). */
const RIGHT_AGAIN_MS = 2_000
/** What a request may wait beside `--database-timeout`, on a machine that is busy with the faults. */
const TIMEOUT_MS = 2_000
const WAIT_SLACK_MS = 1_000
const NODES = 3
/** Rounds without a fault after each, and the time between two, for which the clock of limits goes on. */
const CALM_ROUNDS = 6
const CALM_MS = 150
const PAUSE_MS = 15

/** Faults in random order until each was made as often as it should be. */
function* faultsOf(random: () => number, times: Map<string, number>, made: Map<string, number>) {
  const isMissing = (name: string): boolean => (made.get(name) ?? 0) < (times.get(name) ?? 0)
  for (;;) {
    const missing = [...times.keys()].filter(isMissing)
    if (missing.length === 0) return
    yield* shuffled(random, missing)
  }
}

/** Runs nodes under load and faults, and judges. */
async function tortureNodes(run: NodesRun): Promise<Finding[]> {
  const database = await startShared()
  const shared = { program: run.program, database }
  const directory = run.directory('world')
  const ids = await addSharedCustomers(shared, directory, CUSTOMERS)
  await database.run(CLOCK)
  const directories = Array.from({ length: NODES }, (_, n) => run.directory(`node-${n}`))
  const nodes = await startNodes(shared, directories)
  const list = join(directory, 'list.txt')
  writeFileSync(list, LIST)
  await command(shared, ['import', list])

  const random = randomOf(run.seed, 'faults of nodes')
  const where = nodes.map(node => node.where)
  const limits = createLimits({ random, ids, servers: () => where, isShared: true })
  const scene: Scene = { database, nodes, random }
  let nowMs = Date.now()
  /** The clock of limits goes on as the stopwatches of the nodes do. */
  async function goOn(ms: number): Promise<void> {
    const startMs = performance.now()
    await Bun.sleep(ms)
    nowMs += Math.floor(performance.now() - startMs)
    await database.run(`update torture.clock set ms = ${nowMs}`)
  }
  async function calm(): Promise<void> {
    for (let n = 0; n < CALM_ROUNDS; n += 1) {
      await goOn(CALM_MS)
      const round = limits.open(nowMs)
      await round.send()
      await round.settle()
    }
  }

  await calm()
  const times = new Map(
    Object.entries(FAULTS).map(([name, fault]) => [name, scaled(fault.times, run)]),
  )
  const made = new Map<string, number>()
  let slowest = { ms: 0, name: '' }
  for (const name of faultsOf(random, times, made)) {
    const unknown = (answers: readonly ({ status: number } | null)[]): boolean =>
      answers.some(answer => answer === null || answer.status === 503)
    const round = limits.open(nowMs, { isAlike: true })
    let lastMs = 0
    const load = repeat(async () => {
      const sentMs = performance.now()
      if (unknown(await round.send(6))) lastMs = sentMs
      await Bun.sleep(PAUSE_MS)
    })
    const happened = (await FAULTS[name]?.fault(scene)) ?? 0
    const returnedMs = performance.now()
    await Bun.sleep(RIGHT_AGAIN_MS + 500)
    await load.stop()
    if (lastMs - returnedMs > slowest.ms) slowest = { ms: lastMs - returnedMs, name }
    await round.settle()
    made.set(name, (made.get(name) ?? 0) + happened)
    await calm()
  }
  const findings = await limits.end(nowMs, `${NODES} nodes, PostgreSQL ${database.version}`)
  for (const node of nodes) await node.child().stop()
  for (const text of limits.wrong.slice(0, 20)) run.say(text)
  const { slowestMs } = limits.seen
  const figures = [...made].map(([name, n]) => `${FAULTS[name]?.what} ${n} ×`)
  return [
    ...findings,
    {
      promise: 'Answers are right again within 2 s of the return of what failed',
      figure:
        `503 until ${shown(slowest.ms)} ms after it at most (${FAULTS[slowest.name]?.what ?? 'none'}); ` +
        figures.join(', '),
      bound: `≤ ${count(RIGHT_AGAIN_MS)} ms`,
      holds: slowest.ms <= RIGHT_AGAIN_MS,
    },
    {
      promise: 'No request waits longer for the database than --database-timeout',
      figure: `the slowest ${shown(slowestMs)} ms`,
      bound: `≤ ${count(TIMEOUT_MS)} ms and ${count(WAIT_SLACK_MS)} ms of a busy machine`,
      holds: slowestMs <= TIMEOUT_MS + WAIT_SLACK_MS,
    },
  ]
}

export const nodes: Part = async run => {
  const program = { ...run, program: [run.binary] }
  return [...(await tortureNodes(program)), ...(await tortureHosts(program))]
}
