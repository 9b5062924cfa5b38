/**
 * Usage on both engines for tests of the port `UsageStore`: several servers over the same data, a
 * clock that is moved by hand, and keys whose history is kept.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { hashKey } from '../../src/access/key.ts'
import type { UsageStore } from '../../src/access/ports.ts'
import { createUsageStore as createSharedUsage } from '../../src/postgres/usage/usage.ts'
import type { SnapshotOptions } from '../../src/sqlite/access/admission-log.ts'
import { LOCK_WAIT } from '../../src/sqlite/access/usage.ts'
import { ACCESS_FILE } from '../../src/sqlite/data-directory.ts'
import { T0 } from './fixtures.ts'
import { openUsage } from './limits.ts'
import { HAS_POSTGRES, optionsFor } from './postgres.ts'
import { borrowDatabase } from './shared.ts'
import { temporaryDirectory } from './temporary.ts'

/** Usage on an engine; none at first. */
export type TestUsage = {
  /** Opens the store of one more server. */
  open(): UsageStore
  /** Ends a server as a restart does; one that crashed is never ended. */
  end(server: UsageStore): void
  /** Makes what a server does next fail by one of the engine's faults; returns what repairs it. */
  break(server: UsageStore, fault: string): () => void
  /** Sets the clock that decides limits. */
  at(nowMs: number): Promise<void>
  /** Lets the servers forget what they know without the database. */
  forget(): void
  /** Adds keys with these ids, which `days` and last use are kept for. */
  addKeys(...ids: string[]): Promise<void>
  /** Runs a statement; tables are named with `$`. */
  run(sql: string): Promise<void>
  count(table: string): Promise<number>
  close(): Promise<void>
}

export type Engine = {
  name: string
  isHere: boolean
  /** What makes a batch fail. */
  faults: readonly string[]
  /** Runs of a property test; a step takes longer where there is a server. */
  runs: number
  /** `snapshot`: options of SQLite's. */
  open: (snapshot?: SnapshotOptions) => Promise<TestUsage>
}

async function openSqlite(snapshot: SnapshotOptions = {}): Promise<TestUsage> {
  const dir = temporaryDirectory()
  const opened: ReturnType<typeof openUsage>[] = []
  const add = () => {
    const server = openUsage(dir, snapshot, { ...LOCK_WAIT, msMax: 0 })
    server.db.run('pragma busy_timeout = 0')
    opened.push(server)
    return server
  }
  const of = (store: UsageStore) => {
    const server = opened.find(({ usage }) => usage === store)
    if (server === undefined) throw new Error('it is another store')
    return server
  }
  const { db, countRows, addKeys } = add()
  return {
    open: () => add().usage,
    end(store) {
      const server = of(store)
      server.usage.fold()
      server.close()
      opened.splice(opened.indexOf(server), 1)
    },
    break(store, fault) {
      if (fault === 'request') return () => {} // the caller adds one that cannot be written
      if (fault === 'locked') {
        const other = new Database(join(dir, ACCESS_FILE))
        other.run('begin immediate')
        return () => other.close()
      }
      const broken = of(store).db
      broken.run(
        `create temp trigger broken before ${fault} begin select raise(abort, 'broken'); end`,
      )
      return () => void broken.run('drop trigger broken')
    },
    at: async () => {},
    forget() {},
    addKeys: async (...ids) => addKeys(...ids),
    run: async sql => void db.run(sql.replaceAll('$', '')),
    count: async table => countRows(table),
    async close() {
      for (const { close } of opened) close()
    },
  }
}

const EMPTY = `truncate proxylist.usage, proxylist.networks, proxylist.days, proxylist.keys, proxylist.plans cascade`

async function openPostgres(): Promise<TestUsage> {
  const { url, connection, setClock, giveBack } = await borrowDatabase(EMPTY)
  const { query } = connection
  const opened: ReturnType<typeof createSharedUsage>[] = []
  let elapsedMs = 0
  let nowMs = T0
  /** What a server hears when something was given back. */
  const forgetAll = (): void => {
    for (const { forgetRefusals } of opened) {
      forgetRefusals()
    }
  }
  return {
    open() {
      const usage = createSharedUsage(optionsFor(url), () => elapsedMs)
      opened.push(usage)
      return {
        ...usage,
        refund: batch => usage.refund(batch).finally(forgetAll),
        reset: (subject, part) => usage.reset(subject, part).finally(forgetAll),
      }
    },
    end() {},
    break: () => () => {},
    forget: forgetAll,
    async at(ms) {
      if (ms === nowMs) return
      if (ms < nowMs) forgetAll() // a stopwatch does not step back
      elapsedMs += Math.max(0, ms - nowMs)
      nowMs = ms
      await setClock(ms)
    },
    async addKeys(...ids) {
      for (const id of ids) {
        await query(
          'insert into proxylist.keys values ($1, $2, $3, $3, $3, null, 0, null, null, null, 1)',
          [...[id, hashKey(id), '']],
        )
      }
    },
    run: async sql => void (await query(sql.replaceAll('$', 'proxylist.'))),
    async count(table) {
      const [row] = await query<{ n: number }>(`select count(*)::int as n from proxylist.${table}`)
      return row?.n ?? 0
    },
    async close() {
      for (const { close } of opened) await close()
      giveBack()
    },
  }
}

export const ENGINES: readonly Engine[] = [
  {
    ...{ name: 'SQLite', isHere: true, runs: 100, open: openSqlite },
    faults: [
      ...['request', 'locked', 'insert on batches', 'insert on snapshot', 'delete on batches'],
    ],
  },
  { name: 'PostgreSQL', isHere: HAS_POSTGRES, runs: 15, open: openPostgres, faults: [] },
]
