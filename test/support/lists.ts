/** A list in SQLite for tests of what the ports of `proxies/store.ts` promise, read through one function. */
import { SECOND_MS } from '../../src/lib/time.ts'
import type { Proxy } from '../../src/proxies/proxy.ts'
import { type CityName, ROW_COLUMNS, type Row } from '../../src/proxies/row.ts'
import type { ProxyWriter } from '../../src/proxies/store.ts'
import { openCheckerList } from '../../src/sqlite/checker-list.ts'
import { openList } from '../../src/sqlite/stores.ts'
import { T0 } from './fixtures.ts'
import { proxiesOf } from './rows.ts'
import { onCleanUp } from './temporary.ts'

export type TestList = ProxyWriter & {
  /** The proxies, by address. */
  contents(): Promise<Proxy[]>
  /** The number of rows, and the newest check, as the store knows them. */
  extent(): Promise<{ rows: number; newestMs: number | null }>
  /** The same list as another process has it. */
  again(): Promise<TestList>
  /** Locks the list as an import of another process does while it writes; returns what ends that. */
  hold(): Promise<() => unknown>
  /** As the checker uses it. */
  checked(): ReturnType<typeof openCheckerList>
  close(): Promise<void>
}

const byAddress = ([a]: Row, [b]: Row): number => a - b

function toProxies(rows: readonly Row[], names: ReadonlyMap<number, CityName>): Proxy[] {
  const cityNames = (id: number): CityName => names.get(id) ?? { name: '', nameEn: '' }
  return proxiesOf({ rows: rows.toSorted(byAddress), cityNames })
}

/** An empty list in memory, or the one in a directory. */
export function openTestList(dir: string | null = null): TestList {
  const list = openList(dir, { clock: () => T0 })
  return {
    begin: list.begin,
    removeStale: list.proxies.removeStale,
    importMark: list.importMark,
    count: () => list.proxies.count(),
    async contents() {
      const cities = list.db.query<{ id: number; name: string; nameEn: string }, []>(
        'select id, name, name_en as nameEn from cities',
      )
      const rows = list.db.query(`select ${ROW_COLUMNS.join(', ')} from proxies`).values()
      return toProxies(rows as Row[], new Map(cities.all().map(({ id, ...name }) => [id, name])))
    },
    async extent() {
      const { rows, newest } = list.proxies.checks()
      return { rows, newestMs: newest === null ? null : newest * SECOND_MS }
    },
    again: async () => openTestList(dir),
    async hold() {
      const importTx = openTestList(dir).begin('merge')
      await importTx.lock()
      return importTx.rollback
    },
    checked() {
      const checked = openCheckerList(dir ?? '', () => T0)
      onCleanUp(checked.close)
      return checked
    },
    close: async () => list.close(),
  }
}
