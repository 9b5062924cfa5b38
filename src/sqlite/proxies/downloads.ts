/**
 * Counting the long answers of a share over all servers on a data directory (contract B8, B9):
 * each holds the lock on one of as many files as the share may have. The operating system ends a
 * lock with its process, so nothing stays counted when a server is killed.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Share } from '../../access/entitlements.ts'
import { ApiError } from '../../api/errors.ts'
import type { Later } from '../../lib/clock.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { lockPlace } from '../database-files.ts'

/** Ends a claim; calls after the first do nothing. */
export type Release = () => void
/** Counts a long answer of `share`; `null` if others have as many as it may have. */
export type Claim = (share: Share) => Release | null

/** Counts nothing, because there is no limit. */
const UNLIMITED: Release = () => {}

const LEFT_BEHIND = /^answer-[0-9a-z]+-\d+(?=\.lock$)/

/** Without the address or id, and without characters that a file name cannot have. */
const nameOf = ({ id, isTrial }: Share): string =>
  `answer-${Bun.hash.xxHash64(`${isTrial} ${id}`).toString(36)}`

/** Locks a place, in about 0.1 ms; `null` if another process has it. */
function lock(place: string): Release | null {
  try {
    return lockPlace(place, 0)
  } catch {
    throw new ApiError(
      'DB_EXECUTE_FAILED',
      'long answers cannot be counted, because the data directory cannot be written',
      { retryAfterSeconds: 1 },
    )
  }
}

/** Removes the files of killed servers. */
function removeLeftovers(dir: string): void {
  for (const name of readdirSync(dir)) {
    const place = LEFT_BEHIND.exec(name)?.[0]
    if (place === undefined) continue
    try {
      lockPlace(join(dir, place), 0)?.()
    } catch {
      // The directory cannot be written at the moment; the next start tries again.
    }
  }
}

/** Claims in a data directory. */
export function createClaims(dir: string) {
  /** The places that this server has locked. */
  const locked = new Map<string, Release>()
  removeLeftovers(dir)

  function take(place: string): Release | null {
    const unlock = locked.has(place) ? null : lock(place)
    if (unlock === null) return null
    locked.set(place, unlock)
    return () => {
      if (!locked.delete(place)) return
      try {
        unlock()
      } catch {
        // The lock has ended; only its file could not be removed.
      }
    }
  }

  const claim: Claim = share => {
    const { downloads } = share
    if (downloads === null) return UNLIMITED
    const name = nameOf(share)
    for (let n = 0; n < downloads; n += 1) {
      const release = take(join(dir, `${name}-${n}`))
      if (release !== null) return release
    }
    return null
  }
  return {
    /** @throws ApiError DB_EXECUTE_FAILED when the directory cannot be written. */
    claim,
    close(): void {
      for (const unlock of locked.values()) unlock()
      locked.clear()
    },
  }
}

/** A reader that has not asked for its next chunk for so long is slow: below 128 KB/s. */
const SLOW_MS = 2_000
/** A stream of this age may be ended when others wait, in milliseconds. */
const OLD_MS = 60_000

/** A long answer that is being sent. */
export type Sending = {
  /** How long its reader has not asked for the next chunk, and its age, in milliseconds. */
  idleMs: () => number
  ageMs: () => number
  /** Ends it, and releases its slot. */
  end: () => void
}

export type Held = { sending: Sending | null }
export type Waiting = { sinceMs: number; grant: () => void }
/**
 * What a share holds, and what of it waits, the oldest first. It is blocked while other servers hold
 * all that it may have besides.
 */
export type Holder = { share: Share; held: Set<Held>; waiting: Set<Waiting>; isBlocked: boolean }

export const mayHoldMore = ({ share: { downloads }, held, isBlocked }: Holder): boolean =>
  !isBlocked && (downloads === null || held.size < downloads)

const createHolder = (share: Share): Holder => ({
  ...{ share, held: new Set(), waiting: new Set(), isBlocked: false },
})

/** Who holds slots or waits for one. */
export function createHolders() {
  const holders = new Map<string, Holder>()
  return {
    of(share: Share): Holder {
      const holder = holders.get(share.id) ?? createHolder(share)
      holder.share = share // the plan may have changed
      holders.set(share.id, holder)
      return holder
    },

    forgetUnused({ share, held, waiting }: Holder): void {
      if (held.size === 0 && waiting.size === 0) holders.delete(share.id)
    },

    /** Of those that wait and may hold more, one that holds least, and waits longest of these. */
    next(): Holder | null {
      let next: Holder | null = null
      let nextSinceMs = Infinity
      for (const holder of holders.values()) {
        const [first] = holder.waiting
        if (first === undefined || !mayHoldMore(holder)) continue
        const more = holder.held.size - (next?.held.size ?? Infinity)
        if (more > 0 || (more === 0 && first.sinceMs >= nextSinceMs)) continue
        next = holder
        nextSinceMs = first.sinceMs
      }
      return next
    },

    /** Lets all try again that are blocked. */
    unblock(): void {
      for (const holder of holders.values()) holder.isBlocked = false
    },

    /** Who holds most. */
    greatest: (): Holder | null =>
      [...holders.values()].reduce<Holder | null>(
        (most, holder) => (holder.held.size > (most?.held.size ?? 0) ? holder : most),
        null,
      ),
  }
}

/** The answer of a holder to be ended first: one whose reader is slow, else an old one. */
export function mostDispensable({ held }: Holder): Sending | null {
  const sent = [...held].flatMap(({ sending }) => (sending === null ? [] : [sending]))
  const slow = sent.filter(({ idleMs }) => idleMs() >= SLOW_MS)
  const old = sent.filter(({ ageMs }) => ageMs() >= OLD_MS)
  const [slowest] = slow.sort((a, b) => b.idleMs() - a.idleMs())
  const [oldest] = old.sort((a, b) => b.ageMs() - a.ageMs())
  return slowest ?? oldest ?? null
}

/** Most long answers waiting for a slot, of one share and of a pool. */
const WAITING_EACH_MAX = 64
const WAITING_MAX = 1_000
/** How often a share tries again whether another server has released what it may have. */
const RETRY_MS = 100
export type Slot = {
  /** Says that the answer is being sent now: it may be ended if others wait for a slot. */
  send: (sending: Sending) => void
  /** Frees the slot; calls after the first do nothing. */
  release: () => void
}

export type PoolOptions = {
  slots: number
  /** How long an answer waits, in milliseconds. */
  waitMsMax: number
  later: Later
  elapsedMs: () => number
  /** Counts the answers of a share over all servers. */
  claim: Claim
}

const STOPPING = 'the server is stopping; try again shortly'

const refusal = (code: 'RATE_LIMIT_EXCEEDED' | 'DB_EXECUTE_FAILED', message: string): ApiError =>
  new ApiError(code, message, { retryAfterSeconds: 1 })

/** Why an answer of `holder` does not get one of so many slots. */
function refusalOf(holder: Holder, slots: number): ApiError {
  const { isTrial, downloads } = holder.share
  const isOwnLimit = !mayHoldMore(holder)
  if (!isOwnLimit && !isTrial) {
    return refusal('DB_EXECUTE_FAILED', 'too many long answers are under way; try again shortly')
  }
  const limit = isOwnLimit ? downloads : slots
  const answers = limit === 1 ? '1 long answer' : `${limit} long answers`
  const trial = isOwnLimit
    ? 'the demo and temporary keys of an address'
    : 'all demo and temporary keys'
  const whose = isTrial ? trial : 'this key'
  return refusal(
    'RATE_LIMIT_EXCEEDED',
    `${whose} may have ${answers} under way at once; retry after 1 s`,
  )
}

/** Returns a function that calls `work`, and again every second until that returns false. */
function createTicker(later: Later, work: () => boolean): () => void {
  let isTicking = false
  function tick(): void {
    isTicking = work()
    if (isTicking) later(tick, SECOND_MS)
  }
  return () => {
    if (!isTicking) tick()
    else work()
  }
}

/** Calls `work` after `RETRY_MS`, once however often it is called meanwhile. */
function createRetry(later: Later, work: () => void): () => void {
  let isDue = false
  return () => {
    if (isDue) return
    isDue = true
    later(() => {
      isDue = false
      work()
    }, RETRY_MS)
  }
}

type TakingParts = {
  claim: Claim
  /** Called when a slot was released, and when other servers hold what a share may have. */
  onRelease: (holder: Holder) => void
  onBlocked: () => void
}

/** Takes slots for holders, however many there are. */
function createTaking({ claim, onRelease, onBlocked }: TakingParts) {
  let held = 0
  return {
    held: () => held,

    /** A slot; `null` if other servers hold what the share may have. */
    take(holder: Holder): Slot | null {
      const endClaim = claim(holder.share)
      if (endClaim === null) {
        holder.isBlocked = true
        onBlocked()
        return null
      }
      const one: Held = { sending: null }
      holder.held.add(one)
      held += 1
      return {
        send(sending) {
          one.sending = sending
        },
        release() {
          if (!holder.held.delete(one)) return
          held -= 1
          endClaim()
          holder.isBlocked = false
          onRelease(holder)
        },
      }
    },
  }
}

type QueueParts = Pick<PoolOptions, 'slots' | 'later' | 'waitMsMax' | 'elapsedMs'> & {
  take: (holder: Holder) => Slot | null
  /** Called with a holder of which nothing waits any more because of a failure. */
  onFailure: (holder: Holder) => void
}

/** What waits for slots. */
function createQueue({ slots, later, waitMsMax, elapsedMs, take, onFailure }: QueueParts) {
  /** What ends the wait of each with an error. */
  const failures = new Set<(error: unknown) => void>()
  return {
    hasRoom: (holder: Holder): boolean =>
      holder.waiting.size < WAITING_EACH_MAX && failures.size < WAITING_MAX,
    isEmpty: (): boolean => failures.size === 0,
    failAll(error: unknown): void {
      for (const fail of failures) fail(error)
    },

    /** Waits until `grant` of what is added to the holder takes a slot, or for too long. */
    wait(holder: Holder): Promise<Slot> {
      const { promise, resolve, reject } = Promise.withResolvers<Slot>()
      const leave = (): void => {
        holder.waiting.delete(one)
        failures.delete(fail)
        cancel()
      }
      const fail = (error: unknown): void => {
        leave()
        onFailure(holder)
        reject(error)
      }
      const one: Waiting = {
        sinceMs: elapsedMs(),
        grant() {
          try {
            const slot = take(holder)
            if (slot === null) return
            leave()
            resolve(slot)
          } catch (error) {
            fail(error)
          }
        },
      }
      const cancel = later(() => fail(refusalOf(holder, slots)), waitMsMax)
      holder.waiting.add(one)
      failures.add(fail)
      return promise
    },
  }
}

/** A pool of slots. */
export function createSlots({ slots, waitMsMax, later, elapsedMs, claim }: PoolOptions) {
  const holders = createHolders()
  const retryLater = createRetry(later, () => {
    holders.unblock()
    grantNext()
  })
  const { held, take } = createTaking({
    claim,
    onRelease(holder) {
      holders.forgetUnused(holder)
      grantNext()
    },
    onBlocked: retryLater,
  })
  const onFailure = holders.forgetUnused
  const queue = createQueue({ slots, later, waitMsMax, elapsedMs, take, onFailure })

  function grantNext(): void {
    while (held() < slots && !queue.isEmpty()) {
      const [first] = holders.next()?.waiting ?? []
      if (first === undefined) return
      first.grant()
    }
  }

  /**
   * Ends an answer of the holder that has most, if it has at least two more than one that waits while
   * all slots are taken. So nobody can keep others out by reading slowly.
   */
  const keepRelieving = createTicker(later, () => {
    const needy = held() < slots ? null : holders.next()
    const greatest = holders.greatest()
    if (needy && greatest && greatest.held.size >= needy.held.size + 2) {
      mostDispensable(greatest)?.end()
    }
    return !queue.isEmpty()
  })

  let isStopping = false

  return {
    /**
     * A slot for a long answer of `share`, at once or when others are released.
     * @throws ApiError RATE_LIMIT_EXCEEDED when the share keeps all it may have for too long, or
     *   others keep all slots of `demo` and temporary keys; DB_EXECUTE_FAILED when others keep all of
     *   plans, or what `claim` throws.
     */
    async acquire(share: Share): Promise<Slot> {
      const holder = holders.of(share)
      try {
        const isFirst = held() < slots && holder.waiting.size === 0 && mayHoldMore(holder)
        const slot = isFirst ? take(holder) : null
        if (slot !== null) return slot
        if (isStopping) throw refusal('DB_EXECUTE_FAILED', STOPPING)
        if (!queue.hasRoom(holder)) throw refusalOf(holder, slots)
      } catch (error) {
        holders.forgetUnused(holder)
        throw error
      }
      const waiting = queue.wait(holder)
      keepRelieving()
      return waiting
    },

    /** Refuses what waits, and what would wait from now on. */
    refuseWaiting(): void {
      isStopping = true
      queue.failAll(refusal('DB_EXECUTE_FAILED', STOPPING))
    },
  }
}
