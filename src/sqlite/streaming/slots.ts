/**
 * Owns how many long answers are under way at once (contract B9): of one key or client address, and
 * of all. A further one waits for a slot. Knows nothing of how answers are found or sent.
 */

import type { Later } from '../../access/auth-throttle.ts'
import type { Share } from '../../access/entitlements.ts'
import { ApiError } from '../../api/errors.ts'
import { SECOND_MS } from '../../lib/time.ts'

/** Most long answers waiting for a slot, of one share and of a pool. */
const WAITING_EACH_MAX = 64
const WAITING_MAX = 1_000
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
}

type Held = { sending: Sending | null }
type Waiting = { sinceMs: number; grant: () => void }
/** What a share holds, and what of it waits, the oldest first. */
type Holder = { share: Share; held: Set<Held>; waiting: Set<Waiting> }

const refusal = (code: 'RATE_LIMIT_EXCEEDED' | 'DB_EXECUTE_FAILED', message: string): ApiError =>
  new ApiError(code, message, { retryAfterSeconds: 1 })

const mayHoldMore = ({ share: { downloads }, held }: Holder): boolean =>
  downloads === null || held.size < downloads

/** Why an answer of `holder` does not get a slot. */
function refusalOf(holder: Holder): ApiError {
  const { isTrial, downloads } = holder.share
  if (mayHoldMore(holder) && !isTrial) {
    return refusal('DB_EXECUTE_FAILED', 'too many long answers are under way; try again shortly')
  }
  const limit = downloads === 1 ? '1 long answer' : `${downloads} long answers`
  const whose = isTrial ? 'the demo and temporary keys of an address' : 'this key'
  return refusal(
    'RATE_LIMIT_EXCEEDED',
    `${whose} may have ${limit} under way at once; retry after 1 s`,
  )
}

/** Who holds slots or waits for one. */
function createHolders() {
  const holders = new Map<string, Holder>()
  return {
    of(share: Share): Holder {
      const holder = holders.get(share.id) ?? { share, held: new Set(), waiting: new Set() }
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

    /** Who holds most. */
    greatest: (): Holder | null =>
      [...holders.values()].reduce<Holder | null>(
        (most, holder) => (holder.held.size > (most?.held.size ?? 0) ? holder : most),
        null,
      ),
  }
}

/** The answer of a holder to be ended first: one whose reader is slow, else an old one. */
function mostDispensable({ held }: Holder): Sending | null {
  const sent = [...held].flatMap(({ sending }) => (sending === null ? [] : [sending]))
  const slow = sent.filter(({ idleMs }) => idleMs() >= SLOW_MS)
  const old = sent.filter(({ ageMs }) => ageMs() >= OLD_MS)
  const [slowest] = slow.sort((a, b) => b.idleMs() - a.idleMs())
  const [oldest] = old.sort((a, b) => b.ageMs() - a.ageMs())
  return slowest ?? oldest ?? null
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

/** A pool of slots. */
export function createSlots({ slots, waitMsMax, later, elapsedMs }: PoolOptions) {
  const holders = createHolders()
  let held = 0
  let waiting = 0

  function take(holder: Holder): Slot {
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
        holders.forgetUnused(holder)
        grantNext()
      },
    }
  }

  function grantNext(): void {
    while (held < slots && waiting > 0) {
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
    const needy = held < slots ? null : holders.next()
    const greatest = holders.greatest()
    if (needy && greatest && greatest.held.size >= needy.held.size + 2) {
      mostDispensable(greatest)?.end()
    }
    return waiting > 0
  })

  function wait(holder: Holder): Promise<Slot> {
    const { promise, resolve, reject } = Promise.withResolvers<Slot>()
    const leave = (): void => {
      holder.waiting.delete(one)
      waiting -= 1
      cancel()
    }
    const one: Waiting = {
      sinceMs: elapsedMs(),
      grant() {
        leave()
        resolve(take(holder))
      },
    }
    const cancel = later(() => {
      leave()
      holders.forgetUnused(holder)
      reject(refusalOf(holder))
    }, waitMsMax)
    holder.waiting.add(one)
    waiting += 1
    keepRelieving()
    return promise
  }

  /**
   * A slot for a long answer of `share`, at once or when others are released.
   * @throws ApiError RATE_LIMIT_EXCEEDED when the share keeps all it may have for too long,
   *   DB_EXECUTE_FAILED when others keep all slots.
   */
  return async function acquire(share: Share): Promise<Slot> {
    const holder = holders.of(share)
    if (held < slots && holder.waiting.size === 0 && mayHoldMore(holder)) return take(holder)
    if (holder.waiting.size < WAITING_EACH_MAX && waiting < WAITING_MAX) return wait(holder)
    holders.forgetUnused(holder)
    throw refusalOf(holder)
  }
}
