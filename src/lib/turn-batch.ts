/** Shares work within one turn of the event loop: batches, and values that are read once. */
import type { Awaitable } from './awaitable.ts'
import { stopwatch } from './clock.ts'

/** Maps the result of a queued item, and its error. Without these, the promise settles with them. */
export type Settle<Result, T> =
  | []
  | [then: (result: Result) => Awaitable<T>, failed: (error: unknown) => Awaitable<T>]

/**
 * Queues an item and resolves to its result, or to what `then` or `failed` returns. The batch calls these itself,
 * which saves the promises of `.then` and `.catch`, a microsecond each. `failed` gets what the work or `then`
 * throws, but not the rejection of a promise that `then` returns.
 */
export type Enqueue<Item, Result> = <T = Result>(
  item: Item,
  ...settle: Settle<Result, T>
) => Promise<T>

/** Where the result of a queued item goes. */
type Waiting<Result> = {
  then: (result: Result) => unknown
  failed: (error: unknown) => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

/** Returns how many milliseconds an item has waited so far. */
export type Waited = () => number

/** The greatest weight of a batch. A batch of many thousands could exceed the timeout of a database. */
export const BATCH_MAX = 1_000

/**
 * Returns a function that queues an item. `work` gets all items of one turn of the event loop in one call, in order
 * of arrival, up to a weight of `BATCH_MAX`. It returns one result per item, or a promise of them. At most one batch
 * is in flight. Items that arrive meanwhile form the next batch; `work` also gets how long the first of them has waited.
 * A result that is a promise delays only its own item. If `work` fails, every item of the batch fails.
 */
export function createTurnBatch<Item, Result>(
  work: (items: readonly Item[], waited?: Waited) => Awaitable<readonly Awaitable<Result>[]>,
  weightOf: (item: Item) => number = () => 1,
): Enqueue<Item, Result> {
  let items: Item[] = []
  let waiting: Waiting<Result>[] = []
  /** How long the first of `items` has waited for the batch in flight. */
  let waited: Waited | undefined
  let isInFlight = false

  /** The number of items in the next batch, at least one. */
  function sizeOfNext(): number {
    let weight = 0
    const over = items.findIndex(item => {
      weight += weightOf(item)
      return weight > BATCH_MAX
    })
    return over === -1 ? items.length : Math.max(1, over)
  }

  function run(): void {
    const [batch, waiters, waitedSoFar] = [items, waiting, waited]
    const size = sizeOfNext()
    items = items.splice(size)
    waiting = waiting.splice(size)
    const isMore = items.length > 0
    waited = isMore ? (waited ?? stopwatch()) : undefined
    try {
      const results = work(batch, waitedSoFar)
      if (results instanceof Promise) void wait(results, waiters)
      else deliver(results, waiters)
    } catch (error) {
      fail(waiters, error)
    }
    if (isMore && !isInFlight) setImmediate(run)
  }

  /** Holds the next batch back until this one has ended, even if it fails. */
  async function wait(
    results: Promise<readonly Awaitable<Result>[]>,
    waiters: readonly Waiting<Result>[],
  ): Promise<void> {
    isInFlight = true
    try {
      deliver(await results, waiters)
    } catch (error) {
      fail(waiters, error)
    }
    isInFlight = false
    if (items.length > 0) setImmediate(run)
  }

  return (item, then = same, failed = rethrow) =>
    new Promise((resolve, reject) => {
      if (items.length === 0) {
        if (isInFlight) waited = stopwatch()
        else setImmediate(run)
      }
      items.push(item)
      waiting.push({ then, failed, resolve: resolve as Waiting<Result>['resolve'], reject })
    })
}

const same = (result: unknown): never => result as never // without `then`, T is Result
const rethrow = (error: unknown): never => {
  throw error
}

/** Passes each result to the item that waits for it. */
function deliver<Result>(
  results: readonly Awaitable<Result>[],
  waiters: readonly Waiting<Result>[],
): void {
  let i = 0
  for (const waiter of waiters) {
    try {
      const result = results[i++] as Awaitable<Result> // one per item
      if (result instanceof Promise) {
        result.then(
          found => deliver([found], [waiter]),
          error => settleFailed(waiter, error),
        )
      } else waiter.resolve(waiter.then(result))
    } catch (error) {
      settleFailed(waiter, error)
    }
  }
}

const fail = <Result>(waiters: readonly Waiting<Result>[], error: unknown): void => {
  for (const waiter of waiters) settleFailed(waiter, error)
}

function settleFailed<Result>({ failed, resolve, reject }: Waiting<Result>, error: unknown): void {
  try {
    resolve(failed(error))
  } catch (failure) {
    reject(failure)
  }
}

/** As `createTurnBatch`, for calls with several items each: a call resolves to the results of its own items. */
export function createListBatch<Item, Result>(
  work: (items: readonly Item[], waited: Waited) => Promise<readonly Result[]>,
): (items: readonly Item[]) => Promise<readonly Result[]> {
  const inBatch = createTurnBatch<readonly Item[], readonly Result[]>(
    async (calls, waited = () => 0) => {
      const results = await work(calls.flat(), waited)
      let end = 0
      return calls.map(({ length }) => {
        end += length
        return results.slice(end - length, end)
      })
    },
  )
  return items => inBatch(items)
}

/** A value that is read at most once in a turn of the event loop. */
export function oncePerTurn<T>(read: () => T): () => T {
  let known: { value: T } | null = null
  const forget = (): void => {
    known = null
  }
  return () => {
    if (known === null) {
      known = { value: read() }
      setImmediate(forget)
    }
    return known.value
  }
}
