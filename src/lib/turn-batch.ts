/**
 * Owns what is shared within one turn of the event loop: batches of work, and values read once.
 * Knows nothing of what the work is.
 */

/** A value, or a promise of it. */
export type Awaitable<T> = T | Promise<T>

/**
 * Returns a function that queues an item and resolves to its result. All items queued in one turn
 * of the event loop are passed to `work` in one call, in order of arrival; `work` returns one
 * result per item, or a promise of them. At most one batch is in flight: what arrives meanwhile
 * forms the next.
 * When `work` fails, every item of the batch is rejected with that error.
 */
export function createTurnBatch<Item, Result>(
  work: (items: readonly Item[]) => Awaitable<readonly Result[]>,
): (item: Item) => Promise<Result> {
  type Batch = {
    items: Item[]
    results: Promise<readonly Result[]>
    resolve: (results: Awaitable<readonly Result[]>) => void
    reject: (error: unknown) => void
  }
  let open: Batch | null = null
  let isInFlight = false

  function openBatch(): Batch {
    if (!isInFlight) setImmediate(run)
    const { promise: results, resolve, reject } = Promise.withResolvers<readonly Result[]>()
    return { items: [], results, resolve, reject }
  }

  function run(): void {
    const batch = open
    open = null
    if (batch === null) return
    try {
      const results = work(batch.items)
      batch.resolve(results)
      if (results instanceof Promise) wait(results)
    } catch (error) {
      batch.reject(error)
    }
  }

  /** Holds the next batch back until this one has ended, even if it fails. */
  function wait(results: Promise<unknown>): void {
    isInFlight = true
    const next = (): void => {
      isInFlight = false
      if (open !== null) setImmediate(run)
    }
    results.then(next, next)
  }

  return async item => {
    open ??= openBatch()
    const { items, results } = open
    const at = items.push(item) - 1
    return (await results)[at] as Result // one per item
  }
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
