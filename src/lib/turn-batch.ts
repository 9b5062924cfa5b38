/**
 * Owns what is shared within one turn of the event loop: group commit, and values read once.
 * Knows nothing of what the work is.
 */

/**
 * Returns a function that queues an item and resolves to its result. All items queued in one turn
 * of the event loop are handed to `work` in one call, in order of arrival; `work` returns one
 * result an item. When `work` throws, every item of the batch is rejected with that error.
 */
export function createTurnBatch<Item, Result>(
  work: (items: readonly Item[]) => readonly Result[],
): (item: Item) => Promise<Result> {
  type Batch = { items: Item[]; results: Promise<readonly Result[]> }
  let open: Batch | null = null

  function openBatch(): Batch {
    const { promise: results, resolve, reject } = Promise.withResolvers<readonly Result[]>()
    const items: Item[] = []
    setImmediate(() => {
      open = null
      try {
        resolve(work(items))
      } catch (error) {
        reject(error)
      }
    })
    return { items, results }
  }

  return async item => {
    open ??= openBatch()
    const { items, results } = open
    const at = items.push(item) - 1
    return (await results)[at] as Result // one an item
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
