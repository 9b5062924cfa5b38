/**
 * Owns where commands find keys, plans, usage, the list and the states of feeds: in a data directory, or
 * in a database that machines share. What is in either is that store's own.
 */
import type { Registry } from '../access/store.ts'
import type { Settings } from '../config/settings.ts'
import type { FeedState, FeedStore } from '../import/feeds/store.ts'
import type { Clock } from '../lib/clock.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import type { Filter } from '../proxies/filter.ts'
import type { CityNames, EndpointRow, Row } from '../proxies/row.ts'
import type { Breakdown } from '../proxies/stats/breakdown.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import { requireOwnData } from '../sqlite/copy/copy-of.ts'
import { hasDirectory, missingDirectory } from '../sqlite/data-directory.ts'
import {
  changeList,
  changeRegistry,
  listFeeds,
  type ReplaceObserver,
  readList,
  readRegistry,
  withFeeds,
  withList,
  withListToReplace,
  withRegistry,
} from '../sqlite/stores.ts'
import { databaseStores } from './database-stores.ts'

/** A list that an import writes. */
export type WritableList = Pick<ProxyWriter, 'begin'> & { isEmpty(): Awaitable<boolean> }

/** A list that is read, as of one moment. */
export type ReadableList = {
  /** Whole rows that match, in pages between which the caller may pause. */
  pages(filter: Filter, nowMs: number): Iterable<Row[]>
  /** The same for bare addresses. */
  endpointPages(filter: Filter, nowMs: number): Iterable<EndpointRow[]>
  cityNames: CityNames
  breakdown(nowMs: number): Breakdown
}

type With<S> = <T>(work: (store: S) => Awaitable<T>) => Promise<T>

/**
 * The stores of a command: each is opened, worked with and closed. `read…` and `change…` are for what is
 * there; with nothing there they throw a `CommandError`, as all do where a store fails.
 */
export type Stores = {
  withRegistry: With<Registry>
  readRegistry: With<Registry>
  changeRegistry: With<Registry>
  withList: With<WritableList>
  /** For a list whose rows are all to be replaced, also where it is damaged. */
  withListToReplace<T>(
    work: (list: WritableList) => Awaitable<T>,
    observer: ReplaceObserver,
    signal?: AbortSignal,
  ): Promise<T>
  readList: With<ReadableList>
  changeList: With<ReadableList & WritableList>
  withFeeds: With<FeedStore>
  /** The states of the feeds; none when no feed was ever fetched. */
  listFeeds(): Promise<FeedState[]>
  /** What is there, to leave out what is not; a database has both. */
  has(): { registry: boolean; list: boolean }
  /** Where it is, as it may be shown: a directory, or host, port and name of a database. */
  place: string
}

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
    changeList: async work => changeList(own(), clock, work),
    withFeeds: async work => withFeeds(own(), work),
    listFeeds: async () => listFeeds(own()),
    place: dir,
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
