/** Shares work and values within one turn of the event loop. */
import type { Awaitable } from './awaitable.ts'

/** Queues items: `work` gets all of one turn, and returns a result for each. One batch is in flight at a time. */
export function createTurnBatch<Item, Result>(
  work: (items: readonly Item[]) => Awaitable<readonly Result[]>,
): (item: Item) => Promise<Result> {
  let items: Item[] = []
  let promises: {
    resolve: (result: Result) => void
    reject: (error: unknown) => void
  }[] = []
  let isInFlight = false

  function run(): void {
    const [batch, settled] = [items, promises]
    items = []
    promises = []
    const resolveAll = (results: readonly Result[]): void => {
      let at = 0
      for (const { resolve } of settled) resolve(results[at++] as Result) // one per item
    }
    const rejectAll = (error: unknown): void => {
      for (const { reject } of settled) reject(error)
    }
    try {
      const results = work(batch)
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
      if (items.length === 0 && !isInFlight) setImmediate(run)
      items.push(item)
      promises.push({ resolve, reject })
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
