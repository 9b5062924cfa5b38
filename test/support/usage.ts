/**
 * Usage on both engines for tests of the port `UsageStore`: several servers over the same data, a
 * clock that is moved by hand, and keys whose history is kept.
 */
import { hashKey } from '../../src/access/key.ts'
import type { UsageStore } from '../../src/access/ports.ts'
import { createUsageStore as createSharedUsage } from '../../src/postgres/usage/usage.ts'
import type { SnapshotOptions } from '../../src/sqlite/access/admission-log.ts'
import { T0 } from './fixtures.ts'
import { openUsage } from './limits.ts'
import { HAS_POSTGRES, optionsFor } from './postgres.ts'
import { borrowDatabase } from './shared.ts'
import { temporaryDirectory } from './temporary.ts'

/** Usage on an engine; none at first. */
export type TestUsage = {
  /** Opens the store of one more server. */
  open(): UsageStore
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
  /** Runs of a property test; a step takes longer where there is a server. */
  runs: number
  /** `snapshot`: options of SQLite's. */
  open: (snapshot?: SnapshotOptions) => Promise<TestUsage>
}

async function openSqlite(snapshot: SnapshotOptions = {}): Promise<TestUsage> {
  const dir = temporaryDirectory()
  const opened: ReturnType<typeof openUsage>[] = []
  const add = () => {
    const server = openUsage(dir, snapshot)
    opened.push(server)
    return server
  }
  const { db, countRows, addKeys } = add()
  return {
    open: () => add().usage,
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

export async function openPostgres(): Promise<TestUsage> {
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
  { name: 'SQLite', isHere: true, runs: 30, open: openSqlite },
  { name: 'PostgreSQL', isHere: HAS_POSTGRES, runs: 10, open: openPostgres },
]
