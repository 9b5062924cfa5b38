/** What is done to the nodes and their database while clients ask, one after the other. */

import { renameSync, writeFileSync } from 'node:fs'
import { SQL } from 'bun'
import { copyOfPostgres, launchPostgres } from '../../../support/postgres.ts'
import { between, pick } from '../../../support/random.ts'
import { onCleanUp } from '../../../support/temporary.ts'
import type { Restartable } from '../../support/serve.ts'
import { postgresBin, ROLE, type SharedDatabase } from '../../support/shared-database.ts'
import { type Step, UNSTEPPED } from '../limiter/records.ts'
import { kill } from '../support/kill.ts'

/** The clock of limits of a database, set by hand. */
export function createLimitsClock({ run }: SharedDatabase) {
  const steps: Step[] = [...UNSTEPPED]
  return {
    steps,
    /** Sets how far it is ahead of the real clock. */
    async set(offsetMs: number): Promise<void> {
      const fromMs = Date.now()
      await run(`update torture.clock set ms = ${offsetMs}`)
      steps.push({ offsetMs, fromMs, byMs: Date.now() })
    },
  }
}

/** How often the file of the nodes' clock is written. */
const TICK_MS = 10

/** Keeps a clock of nodes in a file; the returned function sets how far it is ahead of the real one. */
export function createNodeClock(file: string): (aheadMs: number) => void {
  let ahead = 0
  const write = (): void => {
    writeFileSync(`${file}.next`, String(Date.now() + ahead))
    renameSync(`${file}.next`, file) // a node never reads half of it
  }
  write()
  const timer = setInterval(write, TICK_MS)
  onCleanUp(() => clearInterval(timer))
  return aheadMs => {
    ahead = aheadMs
    write()
  }
}

/** What faults act on. */
export type Scene = {
  database: SharedDatabase
  nodes: readonly Restartable[]
  /** The clock of limits, and the file that is the clock of the nodes. */
  limits: ReturnType<typeof createLimitsClock>
  setNodeClock: (aheadMs: number) => void
  random: () => number
}

/** What a fault did; times are of the real clock. */
export type Done = {
  /** How many times its kind of fault happened. */
  times: number
  /** When the database was usable again for the node that it hit, or for all when it hit no node. */
  returnedMs: number
  node?: number
}
type Fault = (scene: Scene) => Promise<Done>

const back = (times = 1): Done => ({ times, returnedMs: Date.now() })
const sleep = (random: () => number, least: number, most: number): Promise<void> =>
  Bun.sleep(between(random, least, most))

/** A node is killed, and started again. */
const killNode: Fault = async ({ nodes, random }) => {
  const index = between(random, 0, nodes.length - 1)
  const node = nodes[index]
  if (!node) throw new Error('there is no node')
  if (!(await kill(node.child()))) throw new Error('a node had ended by itself')
  await sleep(random, 0, 200)
  node.start()
  await node.ready()
  return { ...back(), node: index }
}

/** Process ids of the server for nodes, in no order. */
async function backends({ run }: SharedDatabase): Promise<number[]> {
  const rows = await run(`select pid from pg_stat_activity where usename = '${ROLE}' order by pid`)
  return rows.map(({ pid }) => Number(pid))
}

/** Some connections of nodes are terminated by the server. */
const terminateBackends: Fault = async ({ database, random }) => {
  const most = between(random, 1, 4)
  const rows = await database.run(
    `select pg_terminate_backend(pid) from
       (select pid from pg_stat_activity where usename = '${ROLE}' order by random() limit ${most}) chosen`,
  )
  return back(rows.length)
}

/** The server is killed, by SIGQUIT as a crash or by SIGKILL, and started again. */
const killServer: Fault = async ({ database: { server }, random }) => {
  await server.stop(pick(random, ['SIGQUIT', 'SIGKILL'] as const))
  await sleep(random, 0, 600)
  await server.start()
  return back()
}

/** A process of the server stands still, with the locks that it holds. */
const stopBackend: Fault = async ({ database, random }) => {
  const pid = pick(random, await backends(database))
  process.kill(pid, 'SIGSTOP')
  const resume = onCleanUp(() => void process.kill(pid, 'SIGCONT'))
  await sleep(random, 500, 4_000)
  process.kill(pid, 'SIGCONT')
  resume()
  return back()
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
  return back()
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
  return back()
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
  return back()
}

/** The clock of the nodes jumps, which changes nothing for limits. */
const stepNodes: Fault = async ({ setNodeClock, random }) => {
  setNodeClock(between(random, -7_200_000, 7_200_000))
  return back()
}

/** The clock of limits jumps: ahead, also over midnight, or back. */
const stepLimits: Fault = async ({ limits, random }) => {
  const DAY_MS = 86_400_000
  const toMidnightMs = DAY_MS - (Date.now() % DAY_MS)
  await limits.set(
    pick(random, [0, between(random, 1, 30_000), -between(random, 1, 8_000), toMidnightMs - 2_000]),
  )
  return back()
}

const STANDBY_MS_MAX = 60_000

/** Waits until a statement has a row. */
async function untilSome(url: string, text: string): Promise<void> {
  const untilMs = performance.now() + STANDBY_MS_MAX
  const sql = new SQL({ url, max: 1 })
  try {
    while ((await sql.unsafe(text)).length === 0) {
      if (performance.now() > untilMs) throw new Error('the standby does not follow')
      await Bun.sleep(20)
    }
  } finally {
    await sql.close({ timeout: 0 })
  }
}

/**
 * A synchronous standby is made, and clients ask while it follows; then the server is killed, and the
 * standby takes over its address.
 */
const failOver: Fault = async ({ database: { server }, random }) => {
  await server.stop('SIGINT')
  const dir = copyOfPostgres(server.dir())
  await server.start()
  const source = `host=127.0.0.1 port=${server.port} user=postgres application_name=standby`
  await Bun.write(`${dir}/standby.signal`, '')
  const standby = await launchPostgres(
    dir,
    { ...server.settings, primary_conninfo: source },
    postgresBin(),
  )
  const primary = new SQL({ url: server.url('postgres'), max: 1 })
  await primary.unsafe("alter system set synchronous_standby_names = 'standby'")
  await primary.unsafe('select pg_reload_conf()')
  await primary.close()
  const isSynchronous = "select from pg_stat_replication where sync_state = 'sync'"
  await untilSome(server.url('postgres'), isSynchronous)
  await sleep(random, 1_000, 3_000)
  await server.stop('SIGKILL')
  const promoting = new SQL({ url: standby.url('postgres'), max: 1 })
  await promoting.unsafe('select pg_promote()')
  await promoting.close({ timeout: 0 })
  await standby.stop('SIGINT')
  await server.start(standby.dir())
  return back()
}

/** Every kind of fault, and how often it happens in a full run, or more; of backends, each counts. */
export const FAULTS: { readonly [name: string]: { fault: Fault; times: number; what: string } } = {
  killNode: { fault: killNode, times: 50, what: 'nodes killed' },
  terminateBackends: { fault: terminateBackends, times: 100, what: 'backends terminated' },
  killServer: { fault: killServer, times: 20, what: 'server killed' },
  stopBackend: { fault: stopBackend, times: 4, what: 'backend stopped' },
  lockRows: { fault: lockRows, times: 12, what: 'rows locked' },
  exhaustConnections: { fault: exhaustConnections, times: 3, what: 'connections exhausted' },
  readOnly: { fault: readOnly, times: 3, what: 'read-only' },
  failOver: { fault: failOver, times: 2, what: 'failed over' },
  stepNodes: { fault: stepNodes, times: 4, what: 'clock of nodes stepped' },
  stepLimits: { fault: stepLimits, times: 8, what: 'clock of the database stepped' },
}
