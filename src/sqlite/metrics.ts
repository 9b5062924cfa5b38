/** Metrics of a data directory: databases, disk, list, feeds and checker. */
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { SECOND_MS } from '../lib/time.ts'
import type { Space } from '../metrics/attention.ts'
import type { DatabaseState, Observed } from '../metrics/observed.ts'
import { attempt } from '../metrics/process.ts'
import type { Breakdown } from '../proxies/stats.ts'
import { checkerStatusIn } from './candidates.ts'
import { ACCESS_FILE, PROXY_FILE, sizeOf, walOf } from './data-directory.ts'
import type { Health } from './server.ts'
import type { ServerList } from './server-list.ts'
import { listFeeds } from './stores.ts'

type Held = { health(): Health }

/** Free space needed besides a second copy of the data, for imports and write-ahead logs. */
const SPARE_BYTES = 64 * 1024 * 1024

/** @throws when the directory is missing. */
export function spaceIn(dir: string): Space {
  const { bavail, bsize, files, ffree } = statfsSync(dir)
  const sizes = [PROXY_FILE, ACCESS_FILE].map(name => sizeOf(join(dir, name)))
  const neededBytes = sizes.reduce((a, b) => a + b, SPARE_BYTES)
  return { freeBytes: bavail * bsize, neededBytes, freeInodes: files === 0 ? null : ffree }
}

function stateOf(dir: string, name: string, { health }: Held): DatabaseState {
  const file = join(dir, name)
  return { name, ...health(), bytes: sizeOf(file), walBytes: sizeOf(walOf(file)) }
}

/** A breakdown is not refreshed for this long, even if the list changes. */
const FRESH_MS = 15 * SECOND_MS

/** The breakdown of a list, counted on demand, one at a time. */
export function createBreakdown({ stats, version }: Pick<ServerList, 'stats' | 'version'>) {
  let last: { atMs: number; breakdown: Promise<Breakdown> } | null = null
  return (nowMs: number): Promise<Breakdown> => {
    version() // throws when the list must not be used
    if (last === null || Math.abs(nowMs - last.atMs) >= FRESH_MS) {
      const breakdown = stats.count(nowMs)
      last = { atMs: nowMs, breakdown }
      breakdown.catch(() => {
        last = null
      })
    }
    return last.breakdown
  }
}

/** Reads without waiting for locks of other processes. */
const SERVER_READS = { isServer: true, mustExist: true }

/** Metrics of `dir` and of the stores that the server has open; a store in memory has no `health`. */
export function observeData(
  dir: string,
  registry: Partial<Held>,
  list: ServerList & Partial<Held>,
): Observed {
  const held: [name: string, store: Partial<Held>][] = [
    [ACCESS_FILE, registry],
    [PROXY_FILE, list],
  ]
  return {
    databases: () =>
      held.flatMap(([name, { health }]) => (health ? [stateOf(dir, name, { health })] : [])),
    space: () => attempt(() => spaceIn(dir)),
    checks: list.checks,
    clockDistanceMs: () => 0,
    nodes: () => [],
    breakdown: createBreakdown(list),
    feeds: () => listFeeds(dir, SERVER_READS),
    checker: checkerStatusIn(dir, SERVER_READS).read,
    replication: () => null,
  }
}
