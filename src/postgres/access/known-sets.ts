/**
 * Owns what a node knows of the networks of a day without a round trip. Sets only grow during a day,
 * so a network that is in one stays in it. Knows nothing of SQL.
 */
import type { NetworkSet } from '../../access/network-quota.ts'
import type { Subject } from '../../access/rate-limit.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { nameOf, type Subjects } from './known.ts'

/** Sets that a node remembers, and the networks of each. */
const SETS_MAX = 20_000
const NETWORKS_MAX = 1_000

/** Networks of an answer for one set, and what the database says of them. */
export type Ask = {
  subject: Subject
  set: NetworkSet
  day: number
  quota: number
  networks: readonly string[]
  position: number
  used: number
  added: number
}

export const setName = ({ subject, set, day }: Ask): string => `${nameOf(subject)} ${set} ${day}`

/** What a node knows of a set: networks that it has, and how many they were when it was last told. */
type KnownSet = { networks: Set<string>; size: number; quota: number }

export type KnownSets = ReturnType<typeof createKnownSets>

export function createKnownSets() {
  const known = createBoundedMap<string, KnownSet>(SETS_MAX)
  let generation = 0

  /** What an ask would find, as far as that is certain; `null`: the database has to be asked. */
  function look(ask: Ask): Ask | null {
    const its = known.get(setName(ask))
    if (its === undefined || its.quota !== ask.quota) return null
    const lacking = new Set(ask.networks).difference(its.networks).size
    const isWhole = its.networks.size === its.size
    if (lacking === 0 && its.size <= ask.quota) return { ...ask, used: its.size, added: 0 }
    return isWhole && its.size + lacking > ask.quota
      ? { ...ask, used: its.size, added: lacking }
      : null
  }

  function learn(ask: Ask, isConsumed: boolean): void {
    const { quota, used, added } = ask
    const networks = known.get(setName(ask))?.networks ?? new Set<string>()
    if (isConsumed) for (const network of ask.networks) networks.add(network)
    const size = used + (isConsumed ? added : 0)
    if (networks.size > NETWORKS_MAX) known.delete(setName(ask))
    else known.set(setName(ask), { networks, size, quota })
  }

  return {
    generation: (): number => generation,

    /**
     * What the asks of an answer would find, if it certainly passes, or certainly does not; `null`:
     * the database has to be asked.
     */
    look(asks: readonly Ask[]): Ask[] | null {
      const found: Ask[] = []
      for (const ask of asks) {
        const its = look(ask)
        if (its === null) return null
        found.push(its)
      }
      return found
    },

    /** Remembers what the database said of the sets of an answer; `asOf`: when it was asked. */
    learn(asks: readonly Ask[], isConsumed: boolean, asOf: number): void {
      if (asOf === generation) for (const ask of asks) learn(ask, isConsumed)
    },

    forget({ kind, id }: Subjects): void {
      generation += 1
      const start = id === null ? `${kind} ` : `${nameOf({ kind, id })} `
      for (const name of [...known.keys()]) if (name.startsWith(start)) known.delete(name)
    },
  }
}
