/**
 * Owns registries of both engines for tests of the port `Registry`: several machines with the same
 * keys, and a clock that is moved by hand.
 */
import type { Registry } from '../../src/access/store.ts'
import { seedPlans } from '../../src/postgres/access/plans.ts'
import {
  type Connection,
  type ConnectionOptions,
  openConnection,
} from '../../src/postgres/connection.ts'
import { openRegistry as openShared } from '../../src/postgres/registry.ts'
import { migrate } from '../../src/postgres/schema.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { T0 } from './fixtures.ts'
import { emptyDatabase, HAS_POSTGRES } from './postgres.ts'
import { onCleanUp, temporaryDirectory } from './temporary.ts'

/** An installation that is new. */
export type TestInstallation = {
  /** The registry as one more process, or machine, has it. */
  open(): Registry
  /** Sets the clock that decides limits. */
  at(nowMs: number): Promise<void>
  close(): Promise<void>
}

export type RegistryEngine = {
  name: string
  isThere: boolean
  install(): Promise<TestInstallation>
}

type Closable = { close(): Promise<void> | void }

async function installSqlite(): Promise<TestInstallation> {
  const dir = temporaryDirectory()
  const opened: Closable[] = []
  return {
    open() {
      const registry = openRegistry(dir)
      opened.push(registry)
      return registry
    },
    at: async () => {},
    async close() {
      for (const registry of opened) await registry.close()
    },
  }
}

/** Makes the clock of a database one that is a row of a table. */
const CLOCK = `
  create table public.clock (now_ms bigint not null);
  insert into public.clock values (0);
  create or replace function proxylist.now_ms() returns bigint language sql volatile
    return (select now_ms from public.clock)`

type Place = { options: ConnectionOptions; connection: Connection }

/** Databases that no installation uses. */
const free: Place[] = []

async function newPlace(): Promise<Place> {
  const options = { url: await emptyDatabase(), timeoutMs: 20_000, name: 'test' }
  const connection = openConnection(options)
  onCleanUp(async () => {
    free.length = 0
    await connection.close()
  })
  await migrate(connection)
  await connection.query(CLOCK)
  return { options, connection }
}

/** Makes a database what it was at first. */
async function empty({ query }: Connection): Promise<void> {
  await query(
    `truncate proxylist.plans, proxylist.keys, proxylist.old_secrets, proxylist.removed_keys,
       proxylist.usage, proxylist.networks, proxylist.days`,
  )
  await query(`update public.clock set now_ms = ${T0}`)
  await seedPlans(query)
}

async function installPostgres(): Promise<TestInstallation> {
  const place = free.pop() ?? (await newPlace())
  const { options, connection } = place
  await empty(connection)
  const opened: Closable[] = []
  return {
    open() {
      const registry = openShared(options)
      opened.push(registry)
      return registry
    },
    at: async nowMs => void (await connection.query(`update public.clock set now_ms = ${nowMs}`)),
    async close() {
      for (const registry of opened) await registry.close()
      free.push(place)
    },
  }
}

export const REGISTRY_ENGINES: readonly RegistryEngine[] = [
  { name: 'SQLite', isThere: true, install: installSqlite },
  { name: 'PostgreSQL', isThere: HAS_POSTGRES, install: installPostgres },
]
