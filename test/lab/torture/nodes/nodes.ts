/**
 * Many nodes over one PostgreSQL: clients with every kind of key ask each of them, while nodes, their
 * connections and the server are killed, stopped, exhausted and replaced, and clocks step. Triggers of
 * the database record what is counted, and a judge holds that against what every client saw.
 */
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { between, pick, randomOf, shuffled } from '../../../support/random.ts'
import { onCleanUp } from '../../../support/temporary.ts'
import type { Restartable } from '../../support/serve.ts'
import {
  addSharedCustomers,
  command,
  ROLE,
  type Shared,
  type SharedDatabase,
  startNodes,
  startShared,
  startStandby,
  untilSome,
} from '../../support/shared-database.ts'
import { count, shown } from '../../support/table.ts'
import { startClients } from '../limiter/client.ts'
import { findingsOf, judgeNotes, sayExamples } from '../limiter/judge.ts'
import {
  type AdmissionRow,
  type Asked,
  type JournalRows,
  type NetworksRow,
  type Step,
  UNSTEPPED,
} from '../limiter/records.ts'
import { customersOf, type Ids, listText } from '../limiter/traffic.ts'
import { type Finding, type Part, type Run, scaled } from '../part.ts'
import { kill } from '../support/kill.ts'
import { tortureHosts } from './hosts.ts'

/** A run with the program as the beginning of a command. */
export type NodesRun = Omit<Run, 'binary'> & { program: readonly string[] }

const JOURNAL = `
  create schema torture;
  create table torture.clock (ms bigint not null); -- how far limits are ahead of the real clock
  insert into torture.clock values (0);
  create table torture.admissions (
    seq bigserial primary key, -- of one subject in order of commit: its row is locked
    subject text not null,
    at bigint not null,        -- by the clock of limits
    real_ms bigint not null,   -- by the real clock, before the commit
    added integer not null,    -- requests; less than 0: given back
    gone bigint[] not null,    -- instants of those given back, where the subject still had them
    oldest bigint,             -- the oldest instant that the subject has
    xid xid8 not null
  );
  create table torture.networks (
    seq bigserial primary key,
    subject text not null,     -- and the set
    day integer not null,
    real_ms bigint not null,
    added text[] not null
  );
  create function torture.real_ms() returns bigint language sql volatile as
    $$ select floor(extract(epoch from clock_timestamp()) * 1000)::bigint $$;

  create function torture.note_admission() returns trigger language plpgsql security definer as $$
  declare
    _added integer;
    _gone bigint[] := '{}';
  begin
    if tg_op = 'DELETE' then -- pruned: the limits forget it, early where the clock was ahead
      if cardinality(old.at) > 0 then
        insert into torture.admissions (subject, at, real_ms, added, gone, oldest, xid)
        values (old.kind || ':' || old.id, old.latest, torture.real_ms(), -cardinality(old.at),
          old.at, null, pg_current_xact_id());
      end if;
      return null;
    end if;
    _added := new.requests;
    if tg_op = 'UPDATE' then
      if old.day = new.day then _added := new.requests - old.requests; end if;
      -- Given back after midnight: the window lacks it, and the day that goes on never counted it.
      if _added = 0 then
        _added := least(0, cardinality(new.at) - cardinality(old.at));
      end if;
      if _added < 0 then
        select coalesce(array_agg(a order by a), '{}') into _gone from
          (select unnest(old.at) except all select unnest(new.at)) gone(a);
      end if;
    end if;
    if _added <> 0 then
      insert into torture.admissions (subject, at, real_ms, added, gone, oldest, xid)
      values (new.kind || ':' || new.id, new.latest, torture.real_ms(), _added, _gone,
        new.at[1], pg_current_xact_id());
    end if;
    return null;
  end $$;
  create trigger torture_admission after insert or update or delete on proxylist.usage
    for each row execute function torture.note_admission();

  create function torture.note_network() returns trigger language plpgsql security definer as $$
  begin
    insert into torture.networks (subject, day, real_ms, added)
    values (new.kind || ':' || new.id || ':' || new.network_set, new.day, torture.real_ms(),
      array[new.network]);
    return null;
  end $$;
  create trigger torture_network after insert on proxylist.networks
    for each row execute function torture.note_network();

  grant usage on schema torture to public;
  grant select on torture.clock to public;
  create or replace function proxylist.now_ms() returns bigint language sql volatile as
    $$ select torture.real_ms() + (select ms from torture.clock) $$;
`

/** Adds keys to the database, which keeps a journal from then on; gives their ids. */
async function makeWorld(
  shared: Shared & { database: SharedDatabase },
  directory: string,
  requests: number,
): Promise<Ids> {
  const customers = customersOf(requests)
  const ids = customers.byKind(await addSharedCustomers(shared, directory, customers))
  await shared.database.run(JOURNAL)
  return ids
}

async function readJournal({ run }: SharedDatabase): Promise<JournalRows> {
  const admissions = await run(
    `select seq::float8, subject, at::float8, real_ms::float8 as "realMs", added,
       array_to_json(gone)::text as gone, oldest::float8, xid::text
     from torture.admissions order by seq`,
  )
  const networks = await run(
    `select subject, day, real_ms::float8 as "realMs", array_to_json(added)::text as added
     from torture.networks order by seq`,
  )
  const parsed = (rows: { [column: string]: unknown }[], column: string) =>
    rows.map(row => ({ ...row, [column]: JSON.parse(String(row[column])) }))
  return {
    admissions: parsed(admissions, 'gone') as AdmissionRow[], // as selected
    networks: parsed(networks, 'added') as NetworksRow[],
  }
}

/** The clock of limits of a database, set by hand. */
function createLimitsClock({ run }: SharedDatabase) {
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
function createNodeClock(file: string): (aheadMs: number) => void {
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
type Scene = {
  database: SharedDatabase
  nodes: readonly Restartable[]
  /** The clock of limits, and the file that is the clock of the nodes. */
  limits: ReturnType<typeof createLimitsClock>
  setNodeClock: (aheadMs: number) => void
  random: () => number
}

/** What a fault did; times are of the real clock. */
type Done = {
  /** How many times its kind of fault happened. */
  times: number
  /** When what it hit was usable again. */
  returnedMs: number
}
type Fault = (scene: Scene) => Promise<Done>

const back = (times = 1): Done => ({ times, returnedMs: Date.now() })
const sleep = (random: () => number, least: number, most: number): Promise<void> =>
  Bun.sleep(between(random, least, most))

/** A node is killed, and started again. */
const killNode: Fault = async ({ nodes, random }) => {
  const node = pick(random, nodes)
  if (!(await kill(node.child()))) throw new Error('a node had ended by itself')
  await sleep(random, 0, 200)
  node.start()
  await node.ready()
  return back()
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
  const promoting = new SQL({ url: standby.url('postgres'), max: 1 })
  await promoting.unsafe('select pg_promote()')
  await promoting.close({ timeout: 0 })
  await standby.stop('SIGINT')
  await server.start(standby.dir())
  return back()
}

/** Every kind of fault, and how often it happens in a full run, or more; of backends, each counts. */
const FAULTS: { readonly [name: string]: { fault: Fault; times: number; what: string } } = {
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
  const list = join(directory, 'list.txt')
  writeFileSync(list, listText())
  await command(shared, ['import', list])
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

export const nodes: Part = async run => {
  const program = { ...run, program: [run.binary] }
  const findings = await tortureNodes(program, {
    nodes: 3,
    clients: 64,
    admissions: scaled(ADMISSIONS, run),
    faults: Object.fromEntries(
      Object.entries(FAULTS).map(([name, { times }]) => [name, scaled(times, run)]),
    ),
    calmMs: CALM_MS,
    slackMs: 0,
  })
  return [...findings, ...(await tortureHosts(program))]
}
