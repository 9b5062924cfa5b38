/** What `backup` and `restore` do with a data directory, and with a shared database. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Settings } from './config/settings.ts'
import { FEEDS_NAME } from './feeds/feeds-file.ts'
import type { Clock } from './lib/clock.ts'
import { CommandError, nextTurn } from './lib/errors.ts'
import { several } from './lib/plural.ts'
import { shownDatabase } from './postgres/connection.ts'
import { readDump, writeDump } from './postgres/dump.ts'
import { EVERYTHING } from './proxies/filter.ts'
import { type IncomingProxy, SERVICE_SETS, SERVICES } from './proxies/proxy.ts'
import { toProxy } from './proxies/row.ts'
import { readAccessDump, writeAccessDump } from './sqlite/access/dump.ts'
import { openAccessFile } from './sqlite/access/file.ts'
import {
  type Backup,
  type BackupOptions,
  type BackupTarget,
  backUp,
  copyDatabase,
  copyFeedsFile,
  inScratch,
  writeBackup,
} from './sqlite/backup.ts'
import { listCopyOf, removeCopyMark, requireOwnData } from './sqlite/copy.ts'
import { ACCESS_FILE, PROXY_FILE } from './sqlite/data-directory.ts'
import {
  type ArchiveSource,
  type Contents,
  type Restored,
  restore,
  unpack,
} from './sqlite/restore.ts'
import { openList } from './sqlite/stores.ts'

type StoreSettings = Settings<'data' | 'database' | 'databaseTimeout'>

/** Backs up the data directory or the shared database. */
export async function backUpStores(
  { data: dir, database: url, databaseTimeout: timeoutMs }: StoreSettings,
  options: BackupOptions,
): Promise<Backup> {
  if (url === undefined) {
    requireOwnData(dir)
    return backUp({ dir, ...options })
  }
  const { signal } = options
  return writeBackup(async scratch => {
    const { dump, installation, shown } = await readDump({ url, timeoutMs, signal })
    if (listCopyOf(dir)?.database !== installation) {
      throw new CommandError(
        `${dir} has no copy of the list of ${shown}: run backup on a node, with its --data`,
      )
    }
    using access = openAccessFile(join(scratch, ACCESS_FILE))
    writeAccessDump(access, dump)
    await nextTurn(signal)
    const list = join(scratch, PROXY_FILE)
    copyDatabase(join(dir, PROXY_FILE), list, 'proxies')
    removeCopyMark(list)
    copyFeedsFile(dir, scratch)
  }, options)
}

export type RestoreOrder = ArchiveSource & { force: boolean; clock: Clock }

/** Restores an archive into a data directory. */
export function restoreDirectory(
  dir: string,
  { clock, ...order }: RestoreOrder,
): Promise<Restored> {
  requireOwnData(dir)
  return restore({ ...order, dir, nowMs: clock() })
}

const ALL_SERVICES = SERVICE_SETS.at(-1) ?? new Set(SERVICES)

/** The rows of the list in `scratch`. */
function* proxiesIn(scratch: string, nowMs: number): Generator<IncomingProxy> {
  using from = openList(scratch)
  for (const page of from.pages(EVERYTHING, nowMs)) {
    for (const row of page) {
      yield { ...toProxy(row, from.cityNames), servicesStated: ALL_SERVICES }
    }
  }
}

/**
 * Restores an archive into an empty database: keys, plans and usage, and the list as an import that the first node
 * merges, in one transaction. A database has no place for the feeds file.
 */
export const restoreDatabase = (
  settings: StoreSettings & { database: string },
  { clock, signal, ...archive }: Omit<RestoreOrder, 'force'>,
): Promise<Contents & { shown: string }> =>
  inScratch(join(tmpdir(), 'proxylist-restore'), async scratch => {
    const { database: url, databaseTimeout: timeoutMs } = settings
    const contents = await unpack(scratch, { ...archive, signal })
    using access = openAccessFile(join(scratch, ACCESS_FILE), { mustExist: true })
    const list = proxiesIn(scratch, clock())
    await writeDump({ url, timeoutMs, signal }, readAccessDump(access), list)
    const files = contents.files.filter(name => name !== FEEDS_NAME)
    return { ...contents, files, shown: shownDatabase(url) }
  })

/** Describes an archive for the operator: `access.db (2 keys, 1 plan), proxies.db (5 proxies) and feeds`. */
export function describeContents({ files, keys, plans, proxies }: Contents): string {
  const contents: { [file: string]: string } = {
    [ACCESS_FILE]: ` (${several(keys, 'key')}, ${several(plans, 'plan')})`,
    [PROXY_FILE]: ` (${several(proxies, 'proxy', 'proxies')})`,
  }
  return new Intl.ListFormat('en-GB').format(files.map(file => file + (contents[file] ?? '')))
}

export type { BackupTarget }
