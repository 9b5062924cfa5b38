/** Shares work and values within one turn of the event loop. */
import type { Awaitable } from './awaitable.ts'
import { stopwatch } from './clock.ts'

/** How long the first item of a batch has waited so far, in milliseconds. */
export type Waited = () => number

/**
 * Returns a function that queues an item and resolves to its result. `work` receives all items of one turn of the event
 * loop in order of arrival, and returns one result per item. One batch is in flight at a time: later items form the next
 * batch, and `waited` returns how long its first item has waited. If `work` fails, all items of the batch fail.
 */
export function createTurnBatch<Item, Result>(
  work: (items: readonly Item[], waited?: Waited) => Awaitable<readonly Result[]>,
): (item: Item) => Promise<Result> {
  let items: Item[] = []
  let promises: {
    resolve: (result: Result) => void
    reject: (error: unknown) => void
  }[] = []
  let waited: Waited | undefined
  let isInFlight = false

  function run(): void {
    const [batch, settled, waitedSoFar] = [items, promises, waited]
    items = []
    promises = []
    waited = undefined
    const resolveAll = (results: readonly Result[]): void => {
      let at = 0
      for (const { resolve } of settled) resolve(results[at++] as Result) // one per item
    }
    const rejectAll = (error: unknown): void => {
      for (const { reject } of settled) reject(error)
    }
    try {
      const results = work(batch, waitedSoFar)
      if (!(results instanceof Promise)) return resolveAll(results)
      isInFlight = true
      void results.then(resolveAll, rejectAll).then(() => {
        isInFlight = false
        if (items.length > 0) setImmediate(run)
      })
    } catch (error) {
      rejectAll(error)
    }
  }

  return item =>
    new Promise((resolve, reject) => {
      if (items.length === 0) {
        if (isInFlight) waited = stopwatch()
        else setImmediate(run)
      }
      items.push(item)
      promises.push({ resolve, reject })
    })
}

/** As `createTurnBatch` for calls with several items: each call resolves to the results of its own items. */
export function createListBatch<Item, Result>(
  work: (items: readonly Item[], waited: Waited) => Promise<readonly Result[]>,
): (items: readonly Item[]) => Promise<readonly Result[]> {
  return createTurnBatch<readonly Item[], readonly Result[]>(async (calls, waited = () => 0) => {
    const results = await work(calls.flat(), waited)
    let end = 0
    return calls.map(({ length }) => {
      end += length
      return results.slice(end - length, end)
    })
  })
}

/** Returns a function that calls `read` at most once per turn of the event loop. */
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
