/** Owns the stores of `serve`: those of a data directory, or those of a node on a shared database. */
import { join } from 'node:path'
import type { Settings } from '../config/settings.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import type { Observed } from '../metrics/observed.ts'
import { type Node, observeNode, openNode } from '../node/node.ts'
import { requireOwnData } from '../sqlite/copy/copy-of.ts'
import { observeData } from '../sqlite/observe.ts'
import { openMemoryList, openServerList } from '../sqlite/server-list.ts'
import { openServerRegistry } from '../sqlite/server-registry.ts'
import { ACCESS_FILE, PROXY_FILE, withResource } from '../sqlite/stores.ts'
import type { DATA_SETTINGS } from './command.ts'

export type StoreSettings = Settings<(typeof DATA_SETTINGS)[number] | 'sample' | 'providerService'>

type SampleList = { kind: 'sample' } & ReturnType<typeof openMemoryList>
type FileList = { kind: 'file' } & ReturnType<typeof openServerList>
type Registry = Pick<ReturnType<typeof openServerRegistry>, 'keys' | 'plans' | 'usage' | 'tick'> & {
  hasKeys(): Awaitable<boolean>
}

/** What the service reads and writes; `node` is `null` where the data are this machine's own. */
export type Served = { observed: Observed } & (
  | { node: null; registry: Registry; list: SampleList | FileList }
  | { node: Node; registry: Node['registry']; list: Node['list'] }
)

type Work = (served: Served) => Promise<void>

/** Works with the stores in the data directory. */
function withDirectory(settings: StoreSettings, clock: Clock, log: Log, work: Work): Promise<void> {
  const { data, providerService } = settings
  requireOwnData(data)
  const openList = (): SampleList | FileList =>
    settings.sample
      ? { kind: 'sample', ...openMemoryList() }
      : { kind: 'file', ...openServerList(data, providerService, clock, log.say) }
  return withResource(
    join(data, ACCESS_FILE),
    () => openServerRegistry(data, log.say),
    registry =>
      withResource(join(data, PROXY_FILE), openList, list =>
        work({ node: null, registry, list, observed: observeData(data, registry, list) }),
      ),
  )
}

/** Opens the stores that the settings choose, works with them, and closes them. */
export async function withServed(
  settings: StoreSettings,
  clock: Clock,
  log: Log,
  work: Work,
): Promise<void> {
  const { data: dir, database: url, databaseTimeout: timeoutMs, providerService } = settings
  if (url === undefined) return withDirectory(settings, clock, log, work)
  const node = await openNode({ dir, url, timeoutMs, provider: providerService, clock, log })
  try {
    await work({ node, registry: node.registry, list: node.list, observed: observeNode(dir, node) })
  } finally {
    await node.close()
  }
}
