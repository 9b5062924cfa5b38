/**
 * Owns asking what requests of one turn of the event loop want to know with one statement, and the next
 * one only after that: however many requests come, few statements wait for a connection, and none so long
 * that the database seems to be away. Knows nothing of what is asked.
 */
import { createTurnBatch } from '../../lib/turn-batch.ts'

/** Finds the results of items, in their order; `waitedMs`: how long the first has waited. */
export type Ask<Item, Result> = (
  items: readonly Item[],
  waitedMs: number,
) => Promise<readonly Result[]>

/** Returns a function that finds the results of its items, together with those of other calls. */
export function createJoined<Item, Result>(ask: Ask<Item, Result>) {
  const inBatch = createTurnBatch<readonly Item[], readonly Result[]>(async (calls, waited) => {
    const results = await ask(calls.flat(), waited?.() ?? 0)
    let end = 0
    return calls.map(({ length }) => {
      end += length
      return results.slice(end - length, end)
    })
  })
  return (items: readonly Item[]): Promise<readonly Result[]> => inBatch(items)
}
