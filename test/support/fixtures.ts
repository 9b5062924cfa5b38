/** What tests share as data: an instant, filters, lists, plans and keys, golden files. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Plan } from '../../src/access/plan.ts'
import { readRow } from '../../src/import/row.ts'
import type { Awaitable } from '../../src/lib/awaitable.ts'
import { EVERYTHING, type Filter } from '../../src/proxies/filter.ts'
import type { ImportMode, ProxyWriter } from '../../src/proxies/store.ts'
import { type List, openList, openRegistry } from '../../src/sqlite/stores.ts'
import { onCleanUp, temporaryDirectory } from './temporary.ts'

/** The instant at which every test begins: 2026-11-20 12:00:00 UTC, in milliseconds. */
export const T0 = Date.UTC(2026, 10, 20, 12)

/** What a query without parameters asks for. */
export const NO_FILTER: Filter = { ...EVERYTHING, ageMaxSeconds: 600 }

/** A list row as a file would hold it; `age` is in seconds before T0. */
export type TestRow = { [member: string]: unknown; age?: number }

/** Imports rows; into a list of SQLite at once. */
export function fillList(
  list: Pick<ProxyWriter, 'begin'>,
  rows: readonly TestRow[],
  mode: ImportMode = 'merge',
): Awaitable<unknown> {
  const importTx = list.begin(mode)
  for (const { age = 0, ...row } of rows) {
    const checkedAt = T0 / 1000 - age
    const defaults = { type: undefined, nowMs: T0, provider: 'the service' }
    const result = readRow({ checked_at: checkedAt, ...row }, defaults)
    if (result.kind !== 'good') throw new Error(`${JSON.stringify(row)}: ${result.reason}`)
    importTx.add(result.proxy)
  }
  return importTx.commit()
}

/** A list in memory, closed by `cleanUp`. */
export function listOf(rows: readonly TestRow[]): List {
  const list = openList(null)
  onCleanUp(list.close)
  fillList(list, rows)
  return list
}

/** Adds a list to a data directory. */
export function addList(dir: string, rows: readonly TestRow[]): void {
  const list = openList(dir)
  fillList(list, rows)
  list.close()
}

/** What a plan grants; `null` is unlimited. */
export type Limits = Omit<Plan, 'name'>
export const UNLIMITED: Limits = {
  ...{ burst: null, daily: null, subnets: null, clients: null, count: null },
  ...{ downloads: null, enabled: true },
}

/** A key to add. Without a plan it is temporary; times are Unix milliseconds. */
type TestKey = {
  key: string
  plan: string | null
  label?: string
  note?: string
  from?: string
  expiresAt?: number | null
  revokedAt?: number | null
}

/** Adds plans and keys to a data directory; gives the ids of the keys in their order. */
export function addKeys(
  dir: string,
  plans: { readonly [name: string]: Partial<Limits> },
  keys: readonly TestKey[],
  nowMs = Date.now(),
): string[] {
  const registry = openRegistry(dir)
  try {
    const addAll = registry.db.transaction(() => {
      for (const [name, limits] of Object.entries(plans)) {
        registry.plans.set({ ...UNLIMITED, ...limits, name })
      }
      return keys.map(
        ({ key, plan, label = '', note = '', from = '', expiresAt = null, revokedAt = null }) => {
          const { id } = registry.keys.add({ key, label, note, from, plan, expiresAt }, nowMs)
          if (revokedAt !== null) registry.keys.revoke(id, revokedAt)
          return id
        },
      )
    })
    return addAll.immediate()
  } finally {
    registry.close()
  }
}

/** The key of the data directory's plan, which limits nothing by default. */
export const KEY = 'k-5f4dcc3b5aa765d61d8327deb882cf99'
export const ASK = `/api?key=${KEY}`

const ONE: readonly TestRow[] = [{ ip: '192.0.2.1:80', type: 'http' }]

/** A data directory with a list and `KEY`. */
export function dataDirectory(rows = ONE, limits: Partial<Limits> = {}): string {
  const dir = temporaryDirectory()
  addList(dir, rows)
  addKeys(dir, { free: limits }, [{ key: KEY, plan: 'free' }], T0)
  return dir
}

const GOLDEN = join(import.meta.dir, '../fixtures/golden')

/** A golden file's text; with GOLDEN=write it is replaced by `actual` first, for review in git. */
export function golden(name: string, actual: string): string {
  const file = join(GOLDEN, name)
  if (process.env.GOLDEN === 'write') writeFileSync(file, actual)
  return readFileSync(file, 'utf8')
}
