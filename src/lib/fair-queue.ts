/** Queues of asynchronous work by name. Independent of the work that they hold. */
import { orAborted } from './errors.ts'

/** Lines of asynchronous work: the first `most` of each owner are under way, the others wait in order. */
export function createLines(most: number) {
  const lines = new Map<string, Set<() => void>>()
  return {
    lengthOf: (owner: string): number => lines.get(owner)?.size ?? 0,
    /** Does work when its place is reached. @throws the reason of `signal` once that is aborted while it waits. */
    async inLine<T>(owner: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
      const line = lines.get(owner) ?? new Set()
      lines.set(owner, line)
      const { promise, resolve: begin } = Promise.withResolvers<void>()
      line.add(begin)
      try {
        if (line.size > most) await (signal === undefined ? promise : orAborted(promise, signal))
        return await work()
      } finally {
        line.delete(begin)
        if (line.size === 0) lines.delete(owner)
        const [next] = line.values().drop(most - 1)
        next?.()
      }
    },
  }
}
