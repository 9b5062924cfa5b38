/**
 * Who holds slots for long answers or waits for one (contract B9), and which of them is next, or
 * the first to lose one. Knows nothing of how slots are taken.
 */
import type { Share } from '../../access/entitlements.ts'

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
