/**
 * Owns where commands find keys, plans, usage, the list and the states of feeds: in a data directory, or
 * in a database that machines share. What is in either is that store's own.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Settings } from './config/settings.ts'
import type { Clock } from './lib/clock.ts'
import { CommandError } from './lib/errors.ts'
import { requireOwnData } from './sqlite/copy/copy-of.ts'
import { ACCESS_FILE, hasDirectory, missingDirectory, PROXY_FILE } from './sqlite/data-directory.ts'
import {
  changeList,
  changeRegistry,
  listFeeds,
  readList,
  readRegistry,
  withFeeds,
  withList,
  withListToReplace,
  withRegistry,
} from './sqlite/stores.ts'
import type { Stores } from './stores/command-stores.ts'
import { databaseStores } from './stores/database-stores.ts'

/** The stores in a data directory, which is no copy of a database. */
function directoryStores(dir: string, clock: Clock): Stores {
  const own = (): string => {
    requireOwnData(dir)
    return dir
  }
  return {
    withRegistry: async work => withRegistry(own(), work),
    readRegistry: async work => readRegistry(own(), work),
    changeRegistry: async work => changeRegistry(own(), work),
    withList: async work => withList(own(), clock, work),
    withListToReplace: async (work, observer, signal) =>
      withListToReplace(own(), clock, work, observer, signal),
    readList: async work => readList(own(), clock, work),
    readBreakdown: async nowMs => readList(own(), clock, list => list.breakdown(nowMs)),
    changeList: async work => changeList(own(), clock, work),
    withFeeds: async work => withFeeds(own(), work),
    async listFeeds() {
      if (!hasDirectory(dir)) throw new CommandError(missingDirectory(dir))
      return listFeeds(own())
    },
    has: () => ({
      registry: existsSync(join(dir, ACCESS_FILE)),
      list: existsSync(join(dir, PROXY_FILE)),
    }),
    place: dir,
    scratch: dir,
  }
}

/** The stores that the settings choose. */
export const storesOf = (
  settings: Settings<'data' | 'database' | 'databaseTimeout'>,
  clock: Clock,
): Stores => {
  const { data, database, databaseTimeout } = settings
  return database === undefined
    ? directoryStores(data, clock)
    : databaseStores({ url: database, timeoutMs: databaseTimeout }, data, clock)
}
