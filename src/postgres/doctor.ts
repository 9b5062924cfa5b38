/**
 * What `doctor` checks in a shared database (contract I5): facts, and a finding for each. It only reads. What is
 * allowed but unwise is a note. No finding contains a password or a key.
 */
import type { Clock } from '../lib/clock.ts'
import {
  type Checks,
  examineAll,
  type Finding,
  finding,
  note,
  type Result,
  right,
  wrong,
} from '../lib/findings.ts'
import { several } from '../lib/plural.ts'
import {
  checkKeys,
  describeDistance,
  SILENT_SECONDS_MAX,
  sentencesOn,
} from '../metrics/attention.ts'
import { type Connection, onlyRow, openConnection, type Query } from './connection.ts'
import { SCHEMA_VERSION, schemaState } from './migrate.ts'
import { createNodes, type NodeState } from './nodes.ts'
import { createKeyStore } from './registry.ts'

/** @throws CommandError for a server that is too old, or a schema that is too new. */
async function checkVersion(connection: Connection): Promise<Result> {
  const state = await schemaState(connection)
  if (state === 'none') {
    return wrong('it has no schema yet; proxylist restore or keys add makes it, as a role that may')
  }
  if (state === 'older') {
    return wrong('an earlier proxylist made it; serve, or a command that writes, upgrades it')
  }
  const select = `select split_part(current_setting('server_version'), ' ', 1) as version`
  const { version } = await onlyRow<{ version: string }>(connection.query, select)
  return right(`PostgreSQL ${version}, schema ${SCHEMA_VERSION}`)
}

export const judgeDurability = (synchronousCommit: string): Result =>
  synchronousCommit === 'on'
    ? right('commits are on disk before an answer leaves')
    : wrong(
        `synchronous_commit is ${synchronousCommit} although nodes set it: is a pooler in between?`,
      )

/**
 * The names that a commit waits for, the standbys that are connected, and how many of these are synchronous (`null` if
 * this role may not see it).
 */
const STANDBYS = `select current_setting('synchronous_standby_names') as names,
  count(pid)::int as connected,
  case when count(pid) > count(sync_state) then null
    else (count(*) filter (where sync_state in ('sync', 'quorum')))::int end as synchronous
  from pg_stat_replication`
type Standbys = { names: string; connected: number; synchronous: number | null }

export function judgeStandbys({ names, connected, synchronous }: Standbys): Result {
  const standbys = several(connected, 'standby')
  if (names === '' && connected === 0) {
    return note('there is no standby: the service ends with this server')
  }
  if (names === '') {
    return note(
      `${standbys} connected, none synchronous: a failover loses the admissions that were ` +
        'answered last; set synchronous_standby_names',
    )
  }
  if (connected === 0 || synchronous === 0) {
    return wrong(
      `synchronous_standby_names is '${names}' and no such standby is connected: every commit ` +
        'waits, and requests get 503',
    )
  }
  return right(`a commit waits for '${names}': ${standbys} connected`)
}

/** A pooler in transaction mode hands its free session to any connection, so two idle connections share one. */
async function checkSessions({ query, open }: Database): Promise<Result> {
  await using other = open()
  const pids = new Set<number>()
  for (const ask of [query, other.query]) {
    pids.add((await onlyRow<{ pid: number }>(ask, 'select pg_backend_pid() as pid')).pid)
  }
  return pids.size === 2
    ? right('each connection keeps its session')
    : wrong(
        'a pooler in transaction mode is in between: LISTEN and settings are lost; connect to the ' +
          'server itself, or pool sessions',
      )
}

/** How far this machine's clock is ahead of the database's, in milliseconds: the fastest of five round trips. */
export async function readDistance(query: Query, clock: () => number): Promise<number> {
  let best = { tookMs: Number.POSITIVE_INFINITY, aheadMs: 0 }
  for (let tries = 0; tries < 5; tries += 1) {
    const before = clock()
    const { at } = await onlyRow<{ at: number }>(
      query,
      'select floor(extract(epoch from clock_timestamp()) * 1000)::float8 as at',
    )
    const after = clock()
    const tookMs = Math.max(0, after - before)
    if (tookMs < best.tookMs) best = { tookMs, aheadMs: (before + after) / 2 - at }
  }
  return Math.round(best.aheadMs)
}

export function judgeClock(distanceMs: number): Result {
  return finding(sentencesOn({ clock: { rows: 0, distanceMs } }, 0), describeDistance(distanceMs))
}

export function judgeNodes(nodes: readonly NodeState[]): Result {
  if (nodes.length === 0) return note('no node has served from this database in the last day')
  const newest = Math.max(...nodes.map(({ version }) => version))
  // A silent node may have been removed on purpose.
  const isSilent = ({ silentSeconds }: NodeState): boolean => silentSeconds > SILENT_SECONDS_MAX
  const notes = sentencesOn({ nodes: nodes.filter(isSilent) }, 0)
  const problems = sentencesOn({ nodes: nodes.filter(node => !isSilent(node)) }, 0)
  const found = `${several(nodes.length, 'node')} with version ${newest} of the list`
  return finding(problems.length > 0 ? [...problems, ...notes] : [], found, notes)
}

type Database = Connection & { open: () => Connection; clock: Clock }

const SERVER_CHECKS: Checks<Database> = {
  async durability({ query }) {
    const { value } = await onlyRow<{ value: string }>(
      query,
      `select current_setting('synchronous_commit') as value`,
    )
    return judgeDurability(value)
  },
  standbys: async ({ query }) => judgeStandbys(await onlyRow<Standbys>(query, STANDBYS)),
  sessions: checkSessions,
  clock: async ({ query, clock }) => judgeClock(await readDistance(query, clock)),
}

const SCHEMA_CHECKS: Checks<Database> = {
  limits: database => checkKeys(createKeyStore(database), database.clock()),
  nodes: async database => judgeNodes(await createNodes(database).list()),
}

/** Checks a shared database over a node's kind of connection. */
export async function examineDatabase(
  { url, timeoutMs }: { url: string; timeoutMs: number },
  clock: Clock,
  signal: AbortSignal,
): Promise<Finding[]> {
  const open = (): Connection => openConnection({ url, timeoutMs, name: 'proxylist doctor' })
  await using connection = open()
  const database = { ...connection, open, clock }
  let others: Checks<Database> = {}
  const first: Checks<Database> = {
    async database() {
      const result = await checkVersion(connection)
      others = result.ok ? { ...SERVER_CHECKS, ...SCHEMA_CHECKS } : SERVER_CHECKS
      return result
    },
  }
  const findings = await examineAll(first, database, signal)
  return [...findings, ...(await examineAll(others, database, signal))]
}
