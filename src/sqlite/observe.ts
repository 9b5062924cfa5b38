/** What metrics show of a data directory: its databases, its disk, its list and its feeds. */
import { statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AHEAD_MS } from '../access/ahead.ts'
import type { Subject } from '../access/rate-limit.ts'
import type { Space } from '../metrics/attention.ts'
import type { DatabaseState, Observed } from '../metrics/observed.ts'
import { createStatsCache } from '../proxies/stats-cache.ts'
import { ACCESS_FILE, PROXY_FILE, walOf } from './data-directory.ts'
import type { ServerList } from './server-list.ts'
import { listFeeds } from './stores.ts'
import type { Health } from './supervise.ts'

type Supervised = { health(): Health }

/** What `read` returns; `otherwise` where it cannot be reached, which its supervisor says. */
function tryRead<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}

const sizeOf = (file: string): number => tryRead(() => statSync(file).size, 0)

/** Free space needed besides a second copy of the data, for imports and write-ahead logs. */
const SPARE_BYTES = 64 * 1024 * 1024

/** @throws where there is no such directory. */
export function spaceIn(dir: string): Space {
  const { bavail, bsize } = statfsSync(dir)
  const sizes = [PROXY_FILE, ACCESS_FILE].map(name => sizeOf(join(dir, name)))
  return { freeBytes: bavail * bsize, neededBytes: sizes.reduce((a, b) => a + b, SPARE_BYTES) }
}

function stateOf(dir: string, name: string, { health }: Supervised): DatabaseState {
  const file = join(dir, name)
  return { name, ...health(), bytes: sizeOf(file), walBytes: sizeOf(walOf(file)) }
}

/** The data in `dir` as a server has it open; a list in memory has no `health`. */
export function observeData(
  dir: string,
  registry: Supervised & { after?(timeMs: number): Subject[] },
  list: ServerList & Partial<Supervised>,
): Observed {
  const { health } = list
  return {
    databases: () => [
      stateOf(dir, ACCESS_FILE, registry),
      ...(health === undefined ? [] : [stateOf(dir, PROXY_FILE, { health })]),
    ],
    space: () => tryRead(() => spaceIn(dir), null),
    checks: list.checks,
    ahead: nowMs => ({ subjects: registry.after?.(nowMs + AHEAD_MS) ?? [], distanceMs: 0 }),
    nodes: () => [],
    extent: list.extent,
    breakdown: createStatsCache(list.stats.count, list.version),
    feeds: () => listFeeds(dir, { isServer: true }), // waits for no other process
    replication: () => null,
  }
}
