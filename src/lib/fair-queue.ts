/**
 * The order in which work is done that others wait for (contract B9): in slices of some milliseconds, in
 * turns between keys and client addresses. Those of plans come before `demo` and `temp_`, which get a
 * tenth of the time at least. Knows nothing of what the work is.
 */
import type { Awaitable } from './awaitable.ts'
import { createBoundedMap } from './bounded-map.ts'
import { stopwatch } from './clock.ts'
import { orAborted } from './errors.ts'

export type Owner = { id: string; isTrial: boolean }
/** Work that pauses often, after a millisecond or a few. It must not throw. */
export type Work = Generator<void, void>

/** How long work goes on before it is the next one's turn, in milliseconds. */
const SLICE_MS = 4
/** How far the work of an owner who had none is preferred: short work does not wait for long work. */
const HEAD_START_MS = 20
/** Slices for plans before one for `demo` and `temp_`, when both have work. */
const PLAN_SLICES = 9
const OWNERS_MAX = 10_000

/** Work of an owner: in each lane one after the other, and in turns between lanes. */
type Owned = { usedMs: number; lanes: Map<number, Work[]> }

/** The owners of a tier: the next one is that which has used least. */
function createTier(elapsedMs: () => number) {
  /** Those who have work, in the order of their last turn. */
  const active = new Map<string, Owned>()
  /** What owners without work have used. */
  const usedBy = createBoundedMap<string, number>(OWNERS_MAX)
  /** The most that one had used when its turn came. If it fell, newcomers would start far behind others. */
  let currentMs = 0

  return {
    hasWork: (): boolean => active.size > 0,

    add(id: string, lane: number, work: Work): void {
      let owned = active.get(id)
      if (owned === undefined) {
        const usedMs = Math.max(usedBy.get(id) ?? 0, currentMs - HEAD_START_MS)
        owned = { usedMs, lanes: new Map() }
        active.set(id, owned)
      }
      const before = owned.lanes.get(lane)
      if (before === undefined) owned.lanes.set(lane, [work])
      else before.push(work)
    },

    doSlice(): void {
      const [first, ...others] = active
      if (first === undefined) return
      const [id, owned] = others.reduce((a, b) => (b[1].usedMs < a[1].usedMs ? b : a), first)
      const { lanes } = owned
      const [[lane, works] = [0, []]] = lanes
      currentMs = Math.max(currentMs, owned.usedMs)
      const startMs = elapsedMs()
      let isDone = false
      while (!isDone && elapsedMs() - startMs < SLICE_MS) isDone = works[0]?.next().done ?? true
      owned.usedMs += elapsedMs() - startMs
      if (isDone) works.shift()
      lanes.delete(lane)
      if (works.length > 0) lanes.set(lane, works)
      active.delete(id)
      if (lanes.size > 0) active.set(id, owned)
      else usedBy.set(id, owned.usedMs)
    },
  }
}

/** Returns a function that says whether it is the turn of `demo` and `temp_`, by which of both have work. */
function createTierChoice() {
  let planSlices = 0
  return (hasPlans: boolean, hasTrial: boolean): boolean => {
    const isTrialNext = hasTrial && (!hasPlans || planSlices >= PLAN_SLICES)
    planSlices = isTrialNext || !hasTrial ? 0 : planSlices + 1
    return isTrialNext
  }
}

/** Work in turns; `elapsedMs` is a monotonic clock. */
export function createFairQueue(elapsedMs: () => number = stopwatch()) {
  const plans = createTier(elapsedMs)
  const trial = createTier(elapsedMs)
  const isTrialNext = createTierChoice()

  return {
    /** Adds work, to be done after all of the same owner and lane. */
    add: ({ id, isTrial }: Owner, lane: number, work: Work): void =>
      (isTrial ? trial : plans).add(id, lane, work),

    /** Does a slice of work; returns whether there is more. */
    doSlice(): boolean {
      const next = isTrialNext(plans.hasWork(), trial.hasWork()) ? trial : plans
      next.doSlice()
      return plans.hasWork() || trial.hasWork()
    },
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

/** Returns a function that adds work to such a queue, a slice of which is done in each turn of the event loop. */
export function createTurns() {
  const queue = createFairQueue()
  let isWorking = false
  function workOn(): void {
    isWorking = queue.doSlice()
    if (isWorking) setImmediate(workOn)
  }
  return (...work: Parameters<typeof queue.add>): void => {
    queue.add(...work)
    if (!isWorking) setImmediate(workOn)
    isWorking = true
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
