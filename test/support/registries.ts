/**
 * Registries of both engines for tests of the port `Registry`: several machines with the same
 * keys, and a clock that is moved by hand.
 */
import type { Registry } from '../../src/access/ports.ts'
import { seedPlans } from '../../src/postgres/registry.ts'
import { openRegistry } from '../../src/sqlite/stores.ts'
import { HAS_POSTGRES } from './postgres.ts'
import { borrowDatabase, openSharedRegistry } from './shared.ts'
import { temporaryDirectory } from './temporary.ts'

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

const EMPTY = `truncate proxylist.plans, proxylist.keys, proxylist.old_secrets,
  proxylist.usage, proxylist.networks, proxylist.days`

async function installPostgres(): Promise<TestInstallation> {
  const { url, connection, setClock, giveBack } = await borrowDatabase(EMPTY)
  await seedPlans(connection.query)
  const opened: Closable[] = []
  return {
    open() {
      const shared = openSharedRegistry(url)
      opened.push(shared)
      return shared.registry
    },
    at: async nowMs => void (await setClock(nowMs)),
    async close() {
      for (const registry of opened) await registry.close()
      giveBack()
    },
  }
}

export const REGISTRY_ENGINES: readonly RegistryEngine[] = [
  { name: 'SQLite', isThere: true, install: installSqlite },
  { name: 'PostgreSQL', isThere: HAS_POSTGRES, install: installPostgres },
]
