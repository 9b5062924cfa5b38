/** What `backup` and `restore` do with a data directory, and with a shared database. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Settings } from './config/settings.ts'
import type { Clock } from './lib/clock.ts'
import { CommandError, messageOf, nextTurn } from './lib/errors.ts'
import { formatCount } from './lib/plural.ts'
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
import { storesOf } from './stores.ts'

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

/** Rows between two turns of the event loop. */
const TURN_ROWS = 4096

/** Imports the list in `scratch` into a database, whose list is empty. */
async function importList(
  scratch: string,
  settings: StoreSettings,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  using from = openList(scratch)
  if (from.isEmpty()) return
  await storesOf(settings, clock).withList(async to => {
    const importTx = to.begin('replace')
    try {
      await importTx.lock(signal)
      let rows = 0
      for (const page of from.pages(EVERYTHING, clock())) {
        for (const row of page) {
          const proxy = toProxy(row, from.cityNames)
          importTx.add({ ...proxy, servicesStated: ALL_SERVICES } satisfies IncomingProxy)
          rows += 1
          if (rows % TURN_ROWS > 0) continue
          await nextTurn(signal)
          await importTx.drained?.()
        }
      }
      await nextTurn(signal)
      await importTx.commit()
    } catch (error) {
      await importTx.rollback()
      throw error
    }
  })
}

/**
 * Restores an archive into an empty database: keys, plans and usage in one transaction, then the list by an import.
 * @throws CommandError, which says so when only the list could not be restored.
 */
export const restoreDatabase = (
  settings: StoreSettings & { database: string },
  { clock, signal, ...archive }: Omit<RestoreOrder, 'force'>,
): Promise<Contents & { shown: string }> =>
  inScratch(join(tmpdir(), 'proxylist-restore'), async scratch => {
    const { database: url, databaseTimeout: timeoutMs } = settings
    const contents = await unpack(scratch, { ...archive, signal })
    {
      using access = openAccessFile(join(scratch, ACCESS_FILE), { mustExist: true })
      await writeDump({ url, timeoutMs, signal }, readAccessDump(access))
    }
    await importList(scratch, settings, clock, signal).catch((error: unknown) => {
      throw new CommandError(
        `keys and plans are restored, the list is not (${messageOf(error)}): import it with: proxylist import`,
      )
    })
    return { ...contents, shown: shownDatabase(url) }
  })

/** Describes an archive for the operator: `access.db (2 keys, 2 plans) and proxies.db (5 proxies)`. */
export function describeContents({ files, keys, plans, proxies }: Contents): string {
  const contents: { [file: string]: string } = {
    [ACCESS_FILE]: `${formatCount(keys)} keys, ${formatCount(plans)} plans`,
    [PROXY_FILE]: `${formatCount(proxies)} proxies`,
  }
  return files.map(file => `${file} (${contents[file]})`).join(' and ')
}

export type { BackupTarget }
