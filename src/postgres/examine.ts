/**
 * What `doctor` examines of a shared database: facts, and what is said of them. Reads only: it makes no
 * schema and migrates none. What is allowed but unwise is a note. No finding holds a password or a key.
 */
import { AHEAD_MS } from '../access/ahead.ts'
import type { Subject } from '../access/rate-limit.ts'
import type { Clock } from '../lib/clock.ts'
import { counted, several } from '../lib/counted.ts'
import {
  type Checks,
  examineAll,
  type Finding,
  finding,
  note,
  type Result,
  right,
  wrong,
} from '../lib/examination.ts'
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import {
  describeDistance,
  type Facts,
  judgeChecks,
  judgeKeys,
  SILENT_SECONDS_MAX,
  sentencesOn,
} from '../metrics/attention.ts'
import { type Tally, type TallyReader, tallyAt } from '../proxies/freshness.ts'
import { judgeCertificates, readCertificates } from './certificates.ts'
import { createChange } from './change-numbers.ts'
import { versions } from './changes.ts'
import { type Connection, onlyRow, openConnection, type Query } from './connection.ts'
import { lacksRight } from './errors.ts'
import { SCHEMA_VERSION, SERVER_VERSION_MIN, versionOf } from './migrate.ts'
import { createNodes, type NodeState } from './nodes.ts'
import { createKeyStore } from './registry.ts'

/** What is read, unless this role may not read it. */
const unlessHidden = <T>(found: Promise<T>): Promise<T | 'hidden'> =>
  found.catch((failure: unknown) => {
    if (lacksRight(failure)) return 'hidden'
    throw failure
  })

async function readVersions({ query, shown }: Connection) {
  const { number, text } = await onlyRow<{ number: number; text: string }>(
    query,
    `select current_setting('server_version_num')::int as number,
       split_part(current_setting('server_version'), ' ', 1) as text`,
  )
  const schema = await unlessHidden(versionOf(query))
  // It may lack tables, or rows that it always has; of a right that is missing, `rights` says which.
  if (schema === SCHEMA_VERSION) await unlessHidden(versions({ query, shown }))
  const server = { text, isUsable: number >= SERVER_VERSION_MIN }
  return { server, schema, newestSchema: SCHEMA_VERSION }
}

/** Whether what is committed survives: the settings of this session, of the role, of the server. */
const readDurability = (query: Query) =>
  onlyRow<{
    session: string
    defaults: string
    off: string[]
    unlogged: string[]
    is_read_only: boolean
  }>(
    query,
    `select current_setting('synchronous_commit') as session,
       array(select name from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off') as off,
       array(select relname::text from pg_class where relpersistence = 'u' and relkind = 'r'
         and relnamespace = to_regnamespace('proxylist') order by relname) as unlogged,
       pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' as is_read_only,
       coalesce((select string_agg(distinct entry, ', ') from pg_db_role_setting s, unnest(s.setconfig) entry
         where entry like 'synchronous_commit=%'
           and (s.setdatabase = 0 or s.setdatabase = (select oid from pg_database where datname = current_database()))
           and (s.setrole = 0 or s.setrole = (select oid from pg_roles where rolname = current_user))), '') as defaults`,
  )

/**
 * The standbys: those that a commit waits for by name, all that are connected, and how many of them
 * are synchronous; that is `null` for a role that may not see it. One that is frozen is connected still, so
 * how many commits of this role have waited for longer than `waitedMs`.
 */
const readStandbys = (query: Query, waitedMs: number) =>
  onlyRow<{ names: string; connected: number; synchronous: number | null; waiting: number }>(
    query,
    `select (select count(*)::int from pg_stat_activity where wait_event = 'SyncRep'
         and query_start < clock_timestamp() - $1 * interval '1 ms') as waiting,
       current_setting('synchronous_standby_names') as names, count(pid)::int as connected,
       case when count(pid) > count(sync_state) then null
         else (count(*) filter (where sync_state in ('sync', 'quorum')))::int end as synchronous
       from pg_stat_replication`,
    [waitedMs],
  )

/** Whether this connection is encrypted; of one over a unix socket or loopback, `null`. */
export async function readEncryption(query: Query): Promise<boolean | null> {
  const { is_near, is_encrypted } = await onlyRow<{ is_near: boolean; is_encrypted: boolean }>(
    query,
    `select coalesce(inet_client_addr() <<= '127.0.0.0/8' or inet_client_addr() <<= '::1', true) as is_near,
       coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as is_encrypted`,
  )
  return is_near && !is_encrypted ? null : is_encrypted
}

const backendOf = async (query: Query): Promise<number> =>
  (await onlyRow<{ pid: number }>(query, 'select pg_backend_pid() as pid')).pid

/**
 * Whether a connection keeps its session. A pooler in transaction mode gives a free session to
 * whichever connection sends a transaction, so two connections share one while none is in a transaction.
 */
async function keepsSession(mine: Connection, open: () => Connection): Promise<boolean> {
  await using other = open()
  const before = await backendOf(mine.query)
  const besides = await backendOf(other.query)
  const meanwhile = await other.transaction(async tx => {
    await backendOf(tx)
    return backendOf(mine.query)
  })
  return besides !== before && meanwhile === before
}

/** By how much this machine's clock is ahead of the database's, in milliseconds: of the quickest of some tries. */
async function readDistance(query: Query, clock: () => number): Promise<number> {
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

/**
 * How many connections there may be, and are besides this one: of the server, the database, the role. Who has
 * most of them, in the words of the server: an address is seen only of the own role.
 */
const readConnections = (query: Query) =>
  onlyRow<{ most: number; used: number; users: string[] }>(
    query,
    `with others as (select datid, usesysid, usename, application_name, client_addr from pg_stat_activity
         where datid is not null and usesysid is not null and pid <> pg_backend_pid()),
       limits as (
         select current_setting('max_connections')::int
             - current_setting('superuser_reserved_connections')::int
             - coalesce(current_setting('reserved_connections', true)::int, 0) as most,
           (select count(*) from others)::int as used
         union all select datconnlimit, (select count(*) from others where datid = d.oid)::int
           from pg_database d where datname = current_database() and datconnlimit >= 0
         union all select rolconnlimit, (select count(*) from others where usesysid = r.oid)::int
           from pg_roles r where rolname = current_user and rolconnlimit >= 0)
     select most, used, array(
         select concat_ws(' ', count(*), 'of role', usename, '(' || nullif(application_name, '') || ')',
           'from ' || host(client_addr))
         from others group by usename, application_name, client_addr
         order by count(*) desc, usename, application_name, client_addr limit 4) as users
       from limits order by most - used limit 1`,
  )

/** What the role may not do and must, and what it may do and need not. */
const readRights = (query: Query) =>
  onlyRow<{ role: string; missing: string[]; more: string[] }>(
    query,
    `with needed as (
       select format('%s on %s', word, c.relname) as what
         from pg_class c, unnest(array['select', 'insert', 'update', 'delete', 'bypassrls']) word
         where c.relnamespace = to_regnamespace('proxylist') and c.relkind = 'r' and case word
           when 'bypassrls' then row_security_active(c.oid) else not has_table_privilege(c.oid, word) end
       union all select format('execute on %s', p.proname) from pg_proc p
         where p.pronamespace = to_regnamespace('proxylist')
           and not has_function_privilege(p.oid, 'execute')
       union all select 'usage on schema proxylist'
         where not has_schema_privilege('proxylist', 'usage')
       union all select 'temporary on the database'
         where not has_database_privilege(current_database(), 'temporary'))
     select current_user::text as role,
       array(select what from needed order by what like 'usage %' desc, what) as missing,
       array(select 'is a superuser' from pg_roles where rolname = current_user and rolsuper
         union all select 'owns the schema' where exists (select from pg_namespace
           where nspname = 'proxylist' and pg_has_role(nspowner, 'USAGE')
             and not (select rolsuper from pg_roles where rolname = current_user))) as more`,
  )

/** How many proxies there are, and by when they were checked, as of a data directory. */
const tallyOf =
  (query: Query): TallyReader =>
  (sinceMs, untilMs) =>
    onlyRow<Tally>(
      query,
      `select count(*)::float8 as rows,
         (max(checked_at) filter (where checked_at <= $2::bigint))::float8 as newest,
         (count(*) filter (where checked_at between $1::bigint and $2::bigint))::float8 as recent,
         (count(*) filter (where checked_at > $2::bigint))::float8 as ahead
       from proxylist.proxies`,
      [toSeconds(sinceMs), toSeconds(untilMs)],
    )

/** What of usage lies in the future by the database's clock (contract B10), and how far this machine's is ahead of that. */
export const readAhead = async (
  query: Query,
  clock: Clock,
): Promise<Omit<Facts['clock'], 'rows'>> => ({
  subjects: await query<Subject>(
    `select kind, id from proxylist.usage where latest > proxylist.now_ms() + $1::bigint
     order by kind, id`,
    [AHEAD_MS],
  ),
  distanceMs: await readDistance(query, clock),
})

type Read<F extends (...given: never[]) => unknown> = Awaited<ReturnType<F>>

/**
 * Connections that one node has at most: ten that it keeps, and four while it fetches a feed and copies
 * a large list. A rolling restart has two of a machine.
 */
const CONNECTIONS_OF_A_NODE = 14
/** Machines that ask NTP are closer than this. */
const DISTANCE_NOTED_MS = SECOND_MS

export function judgeVersions(
  { server, schema, newestSchema }: Read<typeof readVersions>,
  lost: string | null = null,
): Result {
  if (!server.isUsable) return wrong(`PostgreSQL ${server.text} is too old; 14 or newer is needed`)
  if (schema === null) {
    return wrong(
      lost ??
        'it has no schema yet; proxylist move, import or keys add makes it, as a role that may',
    )
  }
  if (schema === 'hidden') return wrong('this role may not read its schema')
  const found = `PostgreSQL ${server.text}, schema ${schema}`
  if (schema > newestSchema) return wrong(`${found}: of a newer proxylist; use that version`)
  if (schema === newestSchema) return right(found)
  return wrong(
    `${found}: of an earlier proxylist; serve, or a command that changes something, upgrades it`,
  )
}

export function judgeEncryption(isEncrypted: boolean | null, url: string): Result {
  if (isEncrypted === null) return right('the connection does not leave this machine')
  const how = 'use sslmode=verify-full with sslrootcert in the URL'
  if (!isEncrypted) return note(`the connection is not encrypted; ${how}`)
  const mode = /[?&]sslmode=([a-z-]+)/.exec(url)?.[1]
  if (mode === 'verify-full')
    return right('the connection is encrypted, and the server is who it says')
  return note(`the connection is encrypted, but nothing verifies who the server is; ${how}`)
}

const DURABLE: readonly string[] = ['on', 'remote_apply']

export function judgeDurability(facts: Read<typeof readDurability>): Result {
  const { session, defaults, off, unlogged, is_read_only } = facts
  const weak = defaults !== '' && !DURABLE.some(value => defaults.endsWith(`=${value}`))
  const problems = [
    is_read_only && 'it is read-only: a standby, or it was set so',
    ...off.map(name => `${name} is off: a crash of the server may destroy the database`),
    ...unlogged.map(name => `table ${name} is unlogged: a crash or a failover empties it`),
    !DURABLE.includes(session) &&
      `synchronous_commit is ${session} although nodes set it: is a pooler in between?`,
  ]
  return finding(
    problems.filter(problem => typeof problem === 'string'),
    'commits are on disk before an answer leaves',
    weak ? [`${defaults} is set for this role or database; nodes set synchronous_commit = on`] : [],
  )
}

export function judgeStandbys(
  { names, connected, synchronous, waiting }: Read<typeof readStandbys>,
  warning: string | null = null,
): Result {
  const standbys = several(connected, 'standby')
  if (warning !== null) return wrong(warning)
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
  if (waiting > 0) {
    return wrong(
      `${several(waiting, 'commit')} waiting for '${names}', a synchronous standby that does not ` +
        'answer: requests get 503',
    )
  }
  const seen = synchronous === null ? 'pg_monitor may see which' : `${synchronous} synchronous`
  return right(`a commit waits for '${names}': ${standbys} connected, ${seen}`)
}

export const judgeSession = (isKept: boolean): Result =>
  isKept
    ? right('each connection keeps its session')
    : wrong(
        'a pooler in transaction mode is in between: LISTEN and settings are lost; connect to the server itself, or pool sessions',
      )

export function judgeRights({ role, missing, more }: Read<typeof readRights>): Result {
  const named = missing.slice(0, 3).join(', ')
  const rest = missing.length > 3 ? ` and ${missing.length - 3} more` : ''
  return finding(
    missing.length === 0 ? [] : [`the role ${role} lacks ${named}${rest}`],
    `the role ${role} may do what a node does, and no more`,
    more.length === 0 ? [] : [`the role ${role} ${more.join(' and ')}; a node needs less`],
  )
}

export function judgeConnections({ most, used, users }: Read<typeof readConnections>): Result {
  const found = `${counted(used)} of ${counted(most)} connections are used; a node takes up to ${CONNECTIONS_OF_A_NODE}`
  const room = Math.trunc((most - used) / CONNECTIONS_OF_A_NODE)
  if (room > 1) return right(found)
  const by = `most are ${users.join(', ')}`
  return room === 1
    ? note(`${found}: there is room for one more; ${by}`)
    : wrong(`${found}: there is no room for one more; ${by}`)
}

export function judgeClock(clock: Facts['clock']): Result {
  const distanceMs = Math.abs(clock.distanceMs)
  const apart =
    distanceMs < 100
      ? 'the clocks of this machine and of the database agree'
      : describeDistance(clock.distanceMs)
  return finding(
    sentencesOn({ clock }, 0),
    `${apart}; no request and no check lies in the future`,
    distanceMs > DISTANCE_NOTED_MS ? [`${apart}: set both by NTP`] : [],
  )
}

/** Copying a large import takes longer. */
const LAG_SECONDS_NOTED = 5

export function judgeNodes(nodes: readonly NodeState[]): Result {
  if (nodes.length === 0) return note('no node has served from this database in the last day')
  const newest = Math.max(...nodes.map(({ version }) => version))
  const problems: string[] = []
  const notes: string[] = []
  for (const state of nodes) {
    const { node, address, version, lagSeconds, silentSeconds } = state
    const name = `${node} (${address})`
    const [problem] = sentencesOn({ nodes: [state] }, 0)
    if (problem !== undefined) {
      // One that is silent may have been taken away.
      ;(silentSeconds > SILENT_SECONDS_MAX ? notes : problems).push(problem)
    } else if (lagSeconds > LAG_SECONDS_NOTED) {
      // A node says so after it has followed the keys, so these are new: it does answer.
      notes.push(`${name} lags by ${counted(Math.round(lagSeconds))} s: it is copying the list`)
    } else if (version < newest) {
      notes.push(`${name} has version ${version} of the list, the newest is ${newest}`)
    }
  }
  const found = `${several(nodes.length, 'node')} with version ${newest} of the list`
  return finding(problems.length > 0 ? [...problems, ...notes] : [], found, notes)
}

/** A database that is examined; `origin` says how to fill an empty list. */
type Database = Connection & {
  open: () => Connection
  url: string
  timeoutMs: number
  origin: string
  clock: Clock
}

/** What is examined of any database, in the order in which it is shown. */
const SERVER_CHECKS: Checks<Database> = {
  encryption: async ({ query, url }) => judgeEncryption(await readEncryption(query), url),
  certificates: async ({ url, timeoutMs, clock }) =>
    judgeCertificates(await readCertificates(url, timeoutMs), clock()),
  durability: async ({ query }) => judgeDurability(await readDurability(query)),
  standbys: async ({ query, timeoutMs, warning }) =>
    judgeStandbys(await readStandbys(query, timeoutMs), warning()),
  sessions: async database => judgeSession(await keepsSession(database, database.open)),
  connections: async ({ query }) => judgeConnections(await readConnections(query)),
}

const RIGHTS: Checks<Database> = {
  rights: async ({ query }) => judgeRights(await readRights(query)),
}

/** What is examined besides of one that has a schema. */
const SCHEMA_CHECKS: Checks<Database> = {
  ...RIGHTS,
  freshness: async ({ query, origin, clock }) =>
    judgeChecks(await tallyAt(tallyOf(query), clock()), origin, clock()),
  limits: database => {
    const keys = createKeyStore(database.query, createChange(database), database)
    return judgeKeys(keys, database.clock())
  },
  async clock({ query, clock }) {
    const { ahead: rows } = await tallyAt(tallyOf(query), clock())
    return judgeClock({ rows, ...(await readAhead(query, clock)) })
  },
  nodes: async database => judgeNodes(await createNodes(database).list()),
}

/** Examines a shared database, as a node connects; one that cannot be used at all is one finding. */
export async function examineDatabase(
  {
    url,
    timeoutMs,
    origin,
    lost = null,
  }: Pick<Database, 'url' | 'timeoutMs' | 'origin'> & {
    /** What is said when there is no schema where there are copies of one. */
    lost?: string | null
  },
  clock: Clock,
  signal: AbortSignal,
): Promise<Finding[]> {
  const open = (): Connection => openConnection({ url, timeoutMs, name: 'proxylist doctor' })
  await using connection = open()
  const database = { ...connection, open, url, timeoutMs, origin, clock }
  let others: Checks<Database> = {}
  const first: Checks<Database> = {
    async database() {
      const facts = await readVersions(database)
      const result = judgeVersions(facts, lost)
      if (result.ok) others = { ...SERVER_CHECKS, ...SCHEMA_CHECKS }
      else if (facts.server.isUsable) {
        others = { ...SERVER_CHECKS, ...(facts.schema === 'hidden' && RIGHTS) }
      }
      return result
    },
  }
  const findings = await examineAll(first, database, signal)
  return [...findings, ...(await examineAll(others, database, signal))]
}
