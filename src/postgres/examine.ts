/**
 * Owns what `doctor` and `nodes` read of a shared database, as facts without judgement. Reads only:
 * it makes no schema and migrates none.
 */
import type { Subject } from '../access/rate-limit.ts'
import { toSeconds } from '../lib/time.ts'
import { versions } from './changes.ts'
import { type Connection, onlyRow, openConnection, type Query } from './connection.ts'
import { lacksRight } from './errors.ts'
import { createNodes } from './nodes.ts'
import { SCHEMA_VERSION, SERVER_VERSION_MIN, schemaState, versionOf } from './schema.ts'

function hiddenOrThrow(failure: unknown): 'hidden' {
  if (lacksRight(failure)) return 'hidden'
  throw failure
}

/** The version of the schema. @throws StoreError when it lacks tables, or rows that it always has. */
async function readSchema({ query, shown }: Connection): Promise<number | null> {
  const version = await versionOf(query)
  if (version === SCHEMA_VERSION) {
    // Of a right that is missing, `rights` says which.
    await versions({ query, shown }).catch(failure => {
      if (!lacksRight(failure)) throw failure
    })
  }
  return version
}

/** Which versions there are, and which are needed; the schema may be hidden from this role. */
async function readVersions(connection: Connection) {
  const { query } = connection
  const server = await onlyRow<{ number: number; text: string }>(
    query,
    `select current_setting('server_version_num')::int as number,
       split_part(current_setting('server_version'), ' ', 1) as text`,
  )
  return {
    server: { text: server.text, isUsable: server.number >= SERVER_VERSION_MIN },
    schema: await readSchema(connection).catch(hiddenOrThrow),
    newestSchema: SCHEMA_VERSION,
  }
}

/** Whether what is committed survives: the settings of this session, of the role, of the server. */
const readDurability = (query: Query) =>
  onlyRow<{
    session: string
    defaults: string
    fsync: string
    pages: string
    is_read_only: boolean
  }>(
    query,
    `select current_setting('synchronous_commit') as session,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as pages,
       pg_is_in_recovery() or current_setting('transaction_read_only') = 'on' as is_read_only,
       coalesce((select string_agg(distinct entry, ', ') from pg_db_role_setting s, unnest(s.setconfig) entry
         where entry like 'synchronous_commit=%'
           and (s.setdatabase = 0 or s.setdatabase = (select oid from pg_database where datname = current_database()))
           and (s.setrole = 0 or s.setrole = (select oid from pg_roles where rolname = current_user))), '') as defaults`,
  )

/**
 * The standbys: those that a commit waits for by name, all that are connected, and how many of them
 * are synchronous; that is `null` for a role that may not see it.
 */
const readStandbys = (query: Query) =>
  onlyRow<{ names: string; connected: number; synchronous: number | null }>(
    query,
    `select current_setting('synchronous_standby_names') as names, count(pid)::int as connected,
       case when count(pid) > count(sync_state) then null
         else (count(*) filter (where sync_state in ('sync', 'quorum')))::int end as synchronous
       from pg_stat_replication`,
  )

/** Whether this connection is encrypted; of one over a unix socket or loopback, `null`. */
async function readEncryption(query: Query): Promise<boolean | null> {
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
  const other = open()
  try {
    const before = await backendOf(mine.query)
    const besides = await backendOf(other.query)
    const meanwhile = await other.transaction(async tx => {
      await backendOf(tx)
      return backendOf(mine.query)
    })
    return besides !== before && meanwhile === before
  } finally {
    await other.close()
  }
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

/** How many connections there may be, and are besides this one: of the server, the database, the role. */
const readConnections = (query: Query) =>
  onlyRow<{ most: number; used: number }>(
    query,
    `with others as (select datid, usesysid from pg_stat_activity
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
     select most, used from limits order by most - used limit 1`,
  )

/** What the role may not do and must, and what it may do and need not. */
const readRights = (query: Query) =>
  onlyRow<{ role: string; missing: string[]; more: string[] }>(
    query,
    `with needed as (
       select format('%s on %s', word, c.relname) as what
         from pg_class c, unnest(array['select', 'insert', 'update', 'delete']) word
         where c.relnamespace = to_regnamespace('proxylist') and c.relkind = 'r'
           and not has_table_privilege(c.oid, word)
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
const readTally = (query: Query, sinceMs: number, untilMs: number) =>
  onlyRow<{ rows: number; newest: number | null; recent: number; ahead: number }>(
    query,
    `select count(*)::float8 as rows,
       (max(checked_at) filter (where checked_at <= $2::bigint))::float8 as newest,
       (count(*) filter (where checked_at between $1::bigint and $2::bigint))::float8 as recent,
       (count(*) filter (where checked_at > $2::bigint))::float8 as ahead
     from proxylist.proxies`,
    [toSeconds(sinceMs), toSeconds(untilMs)],
  )

/** Subjects whose last admission lies more than `aheadMs` after the database's clock (contract B10). */
const readSubjectsAhead = (query: Query, aheadMs: number) =>
  query<Subject>(
    `select kind, id from proxylist.usage where latest > proxylist.now_ms() + $1::bigint
     order by kind, id`,
    [aheadMs],
  )

export type Examination = ReturnType<typeof openExamination>

/** Opens a connection as a node's, through which each fact is read when it is asked for. */
export function openExamination(url: string, timeoutMs: number, clock: () => number) {
  const open = (): Connection => openConnection({ url, timeoutMs, name: 'proxylist doctor' })
  const connection = open()
  const { query, shown, close } = connection
  return {
    shown,
    schemaState: () => schemaState(connection),
    versions: () => readVersions(connection),
    durability: () => readDurability(query),
    standbys: () => readStandbys(query),
    encryption: () => readEncryption(query),
    keepsSession: () => keepsSession(connection, open),
    distanceMs: () => readDistance(query, clock),
    connections: () => readConnections(query),
    rights: () => readRights(query),
    tally: (sinceMs: number, untilMs: number) => readTally(query, sinceMs, untilMs),
    subjectsAhead: (aheadMs: number) => readSubjectsAhead(query, aheadMs),
    nodes: () => createNodes(connection).list(),
    close,
  }
}
