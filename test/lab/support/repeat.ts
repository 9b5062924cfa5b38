/** Work that is repeated beside something else, until it is stopped. */

/**
 * Calls `work` again and again, in `workers` loops at the same time. `stop` waits for their last
 * turns. @throws what `work` has thrown, from `stop`.
 */
export function repeat(
  work: (turn: number, worker: number) => Promise<unknown>,
  workers = 1,
): { stop: () => Promise<void> } {
  let isOver = false
  async function loop(worker: number): Promise<void> {
    for (let turn = 0; !isOver; turn += 1) await work(turn, worker)
  }
  const all = Promise.all(Array.from({ length: workers }, (_, worker) => loop(worker)))
  all.catch(() => {}) // `stop` throws it
  return {
    async stop() {
      isOver = true
      await all
    },
  }
}
