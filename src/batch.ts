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
  type Waiting = { item: Item; resolve: (result: Result) => void; reject: (e: unknown) => void }
  let queue: Waiting[] = []

  function flush(): void {
    const batch = queue
    queue = []
    try {
      const results = work(batch.map(({ item }) => item))
      for (const [i, { resolve }] of batch.entries()) resolve(results[i] as Result) // one an item
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  return item =>
    new Promise((resolve, reject) => {
      if (queue.length === 0) setImmediate(flush)
      queue.push({ item, resolve, reject })
    })
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
