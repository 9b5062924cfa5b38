/**
 * What is shared within one turn of the event loop: batches of work, and values read once.
 * Knows nothing of what the work is.
 */
import type { Awaitable } from './awaitable.ts'
import { stopwatch } from './clock.ts'

/** What a queued item becomes: its result, or what these return for the result or the error. */
export type Settle<Result, T> =
  | []
  | [then: (result: Result) => Awaitable<T>, failed: (error: unknown) => Awaitable<T>]

/**
 * Queues an item and resolves to its result, or to what `then` or `failed` return: the batch calls them,
 * which saves the promises of `.then` and `.catch`, a microsecond each. `failed` gets what the work or
 * `then` throws, but no rejection of a promise that `then` returns.
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

/** How long an item has waited, in milliseconds so far. */
export type Waited = () => number

/** The most that the items of a batch weigh: one of many thousands might take longer than a database may, and fail. */
export const BATCH_MAX = 1_000

/**
 * Returns a function that queues an item. All items queued in one turn of the event loop, until they weigh
 * `BATCH_MAX`, are passed to `work` in one call, in order of arrival; `work` returns one result per item,
 * or a promise of them. At most one batch is in flight: what arrives meanwhile forms the next, and
 * `work` is called with how long the first of it has waited. A result that is a promise itself keeps
 * only its item waiting, not the next batch.
 * When `work` fails, every item of the batch fails with that error.
 */
export function createTurnBatch<Item, Result>(
  work: (items: readonly Item[], waited?: Waited) => Awaitable<readonly Awaitable<Result>[]>,
  weightOf: (item: Item) => number = () => 1,
): Enqueue<Item, Result> {
  let items: Item[] = []
  let waiting: Waiting<Result>[] = []
  /** How long the first of `items` waits for another batch. */
  let waited: Waited | undefined
  let isInFlight = false

  /** Of how many items the next batch is: one at least. */
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

/**
 * A batch of calls that have several items each: `work` gets the items of all calls of a turn together,
 * and each call resolves to the results of its own items.
 */
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
