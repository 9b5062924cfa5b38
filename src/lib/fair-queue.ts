/**
 * Queues of asynchronous work and of calls, by owner: a key or a client address. Keys on plans come before
 * `demo` and `temp_`, which get at least a tenth of the calls. Independent of the work that it schedules.
 */
import type { Awaitable } from './awaitable.ts'
import { stopwatch } from './clock.ts'
import { orAborted } from './errors.ts'

export type Owner = { id: string; isTrial: boolean }
/** Slices for plans before one for `demo` and `temp_`, when both have work. */
const PLAN_SLICES = 9

/** Returns a function that says whether it is the turn of `demo` and `temp_`, by which of both have work. */
function createTierChoice() {
  let planSlices = 0
  return (hasPlans: boolean, hasTrial: boolean): boolean => {
    const isTrialNext = hasTrial && (!hasPlans || planSlices >= PLAN_SLICES)
    planSlices = isTrialNext || !hasTrial ? 0 : planSlices + 1
    return isTrialNext
  }
}

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

type Calls<Item, T> = {
  ownerOf: (item: Item) => Owner
  call: (item: Item) => Awaitable<T>
  /** For one that has waited: what is returned instead of a call that nobody wants any more. */
  left: (item: Item) => T | null
}

/** While calls wait, a turn of the event loop should take no longer, in milliseconds, with all that they lead to. */
const TURN_MS = 10
/** By what the calls of a turn are divided at most: some of what a turn costs is for all of them together. */
const FEWER = 8

/**
 * Returns a function that makes calls: at once, as long as no more than `most` are made in a turn of the event
 * loop, the others in later turns, in turns between owners; half as many after a turn that took long. Those that
 * nobody wants any more do not count. `elapsedMs` is a monotonic clock.
 */
export function createCalls<Item, T>(
  most: number,
  { ownerOf, call, left }: Calls<Item, T>,
  elapsedMs: () => number = stopwatch(),
) {
  const plans = new Map<string, (() => void)[]>()
  const trial = new Map<string, (() => void)[]>()
  const isTrialNext = createTierChoice()
  /** Those of this turn, when it began, and how many there may be. */
  let made = 0
  let beganMs = 0
  let mostNow = most
  const isWaiting = (): boolean => plans.size + trial.size > 0

  function makeNext(): void {
    const tier = isTrialNext(plans.size > 0, trial.size > 0) ? trial : plans
    for (const [id, calls] of tier) {
      tier.delete(id)
      calls.shift()?.()
      if (calls.length > 0) tier.set(id, calls)
      return
    }
  }
  function turn(): void {
    const nowMs = elapsedMs()
    const isLong = isWaiting() && nowMs - beganMs > TURN_MS
    mostNow = isLong ? Math.max(most / FEWER, mostNow / 2) : Math.min(most, 2 * mostNow)
    beganMs = nowMs
    made = 0
    while (made < mostNow && isWaiting()) makeNext()
    if (made > 0) setImmediate(turn)
  }

  return (item: Item): Awaitable<T> => {
    if (made === 0) {
      beganMs = elapsedMs()
      setImmediate(turn)
    }
    if (made < mostNow && !isWaiting()) {
      made += 1
      return call(item)
    }
    const { id, isTrial } = ownerOf(item)
    return new Promise(resolve => {
      const tier = isTrial ? trial : plans
      const calls = tier.get(id) ?? []
      calls.push(() => {
        const instead = left(item)
        if (instead === null) made += 1
        resolve(instead ?? Promise.try(call, item))
      })
      tier.set(id, calls)
    })
  }
}
