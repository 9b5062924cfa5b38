/**
 * The PostgreSQL that nodes of a long run share: a durable server of PG_BIN or of the npm
 * package, a role for the nodes that is no superuser, and a connection beside theirs.
 */
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { SQL } from 'bun'
import { addKeys, type Limits } from '../../support/fixtures.ts'
import { succeed } from '../../support/launch.ts'
import {
  copyOfPostgres,
  launchPostgres,
  PACKAGE_BIN,
  type Server,
  startPostgres,
} from '../../support/postgres.ts'
import { onCleanUp } from '../../support/temporary.ts'
import { createRestartable, type Restartable, type RestartOptions } from './serve.ts'

/** The folder with the programs of PostgreSQL. */
const postgresBin = (): string => (process.env.PG_BIN ? resolve(process.env.PG_BIN) : PACKAGE_BIN)

/** Survives a crash as a server in use does; the slots for superusers stay free for the run. */
const DURABLE = {
  ...{ fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on' },
  ...{ max_connections: '60', superuser_reserved_connections: '5', shared_buffers: '256MB' },
  ...{
    wal_level: 'replica',
    max_wal_senders: '4',
    checkpoint_timeout: '60s',
    wal_keep_size: '256MB',
  },
}

export const ROLE = 'proxylist'
const DATABASE = 'proxylist'

export type SharedDatabase = Awaited<ReturnType<typeof startShared>>

/** Starts a server with an empty database that the role owns. */
export async function startShared(settings: { readonly [name: string]: string } = {}) {
  const server = await startPostgres({ ...DURABLE, ...settings }, postgresBin())
  const sql = new SQL({ url: server.url('postgres'), max: 1 })
  await sql.unsafe(`create role ${ROLE} login`)
  await sql.unsafe(`create database ${DATABASE} owner ${ROLE}`)
  const [row] = await sql.unsafe("select current_setting('server_version') as version")
  await sql.close()
  return {
    server,
    version: String(row.version),
    /** The URL that nodes get. */
    url: () => server.url(DATABASE).replace('postgres@', `${ROLE}@`),
    /** Runs statements as a superuser. */
    run: createAdmin(server.url(DATABASE)),
  }
}

const STANDBY_MS_MAX = 60_000

/** Waits until a statement has a row. */
export async function untilSome(url: string, text: string): Promise<void> {
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

/** A standby of a server, which is stopped for a moment to copy its files; it streams when this returns. */
export async function startStandby(server: Server): Promise<Server> {
  await server.stop('SIGINT')
  const dir = copyOfPostgres(server.dir())
  await server.start()
  await Bun.write(`${dir}/standby.signal`, '')
  const source = `host=127.0.0.1 port=${server.port} user=postgres application_name=standby`
  const settings = { ...server.settings, primary_conninfo: source }
  const standby = await launchPostgres(dir, settings, postgresBin())
  await untilSome(
    server.url('postgres'),
    "select from pg_stat_replication where state = 'streaming'",
  )
  return standby
}

/** Makes a standby the primary. */
export async function promote(standby: Server): Promise<void> {
  const sql = new SQL({ url: standby.url('postgres'), max: 1 })
  await sql.unsafe('select pg_promote()')
  await sql.close({ timeout: 0 })
}

/** A connection as a superuser, opened again when it was lost. */
function createAdmin(url: string) {
  const open = () => new SQL({ url, max: 1, connectionTimeout: 5 })
  let admin = open()
  onCleanUp(() => admin.close({ timeout: 0 }))
  return async (text: string): Promise<{ [column: string]: unknown }[]> => {
    try {
      return [...(await admin.unsafe(text))]
    } catch (error) {
      void admin.close({ timeout: 0 }).catch(() => {})
      admin = open()
      throw error
    }
  }
}

/** The program, as the beginning of a command, and the database that its commands and nodes use. */
export type Shared = { program: readonly string[]; database: Pick<SharedDatabase, 'url' | 'run'> }

const environmentOf = ({ database }: Shared) => ({ PROXYLIST_DATABASE: database.url() })

/** Runs a command of the program on the database. @throws Error with its stderr when it fails. */
export const command = (shared: Shared, args: readonly string[]): Promise<string> =>
  succeed([...shared.program, ...args], { env: environmentOf(shared), deadlineSeconds: 300 })

type Customers = {
  plans: { readonly [name: string]: Limits }
  keys: readonly { key: string; plan: string | null }[]
}

/** For longer than any run: a temporary key must end. */
const TEMPORARY_MS = 3_650 * 86_400_000

/** The limits of a plan as flags of `plans set`. */
export function flagsOf({ burst, ...limits }: Limits): string[] {
  const window = burst === null ? 'unlimited' : `${burst.requests}/${burst.seconds}s`
  const names = ['daily', 'subnets', 'clients', 'count', 'downloads'] as const
  const others = names.flatMap(name => [`--${name}`, String(limits[name] ?? 'unlimited')])
  return ['--burst', window, ...others]
}

/**
 * Adds plans and keys, a key without a plan is temporary; gives the ids of the keys in their order. They
 * move there from a data directory, which is made in `directory`.
 */
export async function addSharedCustomers(
  shared: Shared,
  directory: string,
  { plans, keys }: Customers,
): Promise<string[]> {
  const ending = { expiresAt: Date.now() + TEMPORARY_MS }
  const all = keys.map(key => (key.plan === null ? { ...key, ...ending } : key))
  const ids = addKeys(directory, plans, all)
  const file = join(directory, 'keys.ndjson')
  writeFileSync(file, await succeed([...shared.program, 'keys', 'export', '--data', directory]))
  for (const [name, limits] of Object.entries(plans)) {
    await command(shared, ['plans', 'set', name, ...flagsOf(limits)])
  }
  await command(shared, ['keys', 'import', file])
  return ids
}

/** Longest wait for the first copy of a long list, on a machine that copies several. */
const FIRST_COPY_MS_MAX = 300_000

/** Nodes of the database, each with a directory of its own, ready. */
export async function startNodes(
  shared: Shared,
  directories: readonly string[],
  { env = {}, more = [] }: Pick<RestartOptions, 'env' | 'more'> = {},
): Promise<Restartable[]> {
  const nodes = directories.map(data =>
    createRestartable({
      ...{ program: shared.program, data, more },
      env: { ...environmentOf(shared), ...env },
    }),
  )
  for (const node of nodes) node.start()
  for (const node of nodes) await node.ready(FIRST_COPY_MS_MAX)
  return nodes
}
