/**
 * Owns what a command asks of where its data are: which stores, and how each of them is opened. A data
 * directory (`stores.ts`) and a database that machines share (`database-stores.ts`) give it.
 */
import type { Registry } from '../access/ports.ts'
import type { FeedState, FeedStore } from '../feeds/store.ts'
import type { Awaitable } from '../lib/turn-batch.ts'
import type { Filter } from '../proxies/filter.ts'
import type { CityNames, EndpointRow, Row } from '../proxies/row.ts'
import type { Breakdown } from '../proxies/stats.ts'
import type { ProxyWriter } from '../proxies/store.ts'
import type { ReplaceObserver } from '../sqlite/stores.ts'

/** A list that an import writes. */
export type WritableList = Pick<ProxyWriter, 'begin'> & { isEmpty(): Awaitable<boolean> }

/** A list that is read, as of one moment. */
export type ReadableList = {
  /** Whole rows that match, in pages between which the caller may pause. */
  pages(filter: Filter, nowMs: number): Iterable<Row[]>
  /** The same for bare addresses. */
  endpointPages(filter: Filter, nowMs: number): Iterable<EndpointRow[]>
  cityNames: CityNames
}

/** Says a sentence to the operator. */
export type Say = (sentence: string) => void
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
  /** The list; `say` is called when it is this machine's copy because the database is away. */
  readList<T>(work: (list: ReadableList) => Awaitable<T>, say: Say): Promise<T>
  /** The list by type, country and age. */
  readBreakdown(nowMs: number, say: Say): Promise<Breakdown>
  changeList: With<ReadableList & WritableList>
  withFeeds: With<FeedStore>
  /** The states of the feeds; none when no feed was ever fetched. */
  listFeeds(): Promise<FeedState[]>
  /** What is there, to leave out what is not; a database has both. */
  has(): { registry: boolean; list: boolean }
  /** Where it is, as it may be shown: a directory, or host, port and name of a database. */
  place: string
  /** A directory for temporary files. */
  scratch: string
}
