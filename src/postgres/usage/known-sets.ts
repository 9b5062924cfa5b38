/**
 * Owns what a node knows of the networks of a day without a round trip. Sets only grow during a day,
 * so a network that is in one stays in it. Knows nothing of SQL.
 */
import type { NetworkSet } from '../../access/network-quota.ts'
import type { Subject, SubjectsOfKind } from '../../access/rate-limit.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { nameOf } from './known.ts'

/** Networks that a node remembers of a set, and of all sets: of these about 100 MB. */
const NETWORKS_EACH_MAX = 1_000
const NETWORKS_MAX = 1_000_000
/** A set without networks takes as much memory as so many. */
const SET_SIZE = 10

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

export const SETS: readonly NetworkSet[] = ['served', 'callers']

/** A set of any day: a node remembers that of one day. */
const anyDayName = (subject: Subject, set: NetworkSet): string => `${nameOf(subject)} ${set}`

/** What a node knows of a set: networks that it has, and how many they were when it was last told. */
type KnownSet = { day: number; networks: Set<string>; size: number; quota: number }

export type KnownSets = ReturnType<typeof createKnownSets>

export function createKnownSets() {
  const known = createBoundedMap<string, KnownSet>(
    NETWORKS_MAX,
    undefined,
    ({ networks }) => SET_SIZE + networks.size,
  )
  let generation = 0

  /** What an ask would find, as far as that is certain; `null`: the database has to be asked. */
  function look(ask: Ask): Ask | null {
    const its = known.get(anyDayName(ask.subject, ask.set))
    if (its?.day !== ask.day || its.quota !== ask.quota) return null
    const lacking = new Set(ask.networks).difference(its.networks).size
    const isWhole = its.networks.size === its.size
    if (lacking === 0 && its.size <= ask.quota) return { ...ask, used: its.size, added: 0 }
    return isWhole && its.size + lacking > ask.quota
      ? { ...ask, used: its.size, added: lacking }
      : null
  }

  function learn(ask: Ask, isConsumed: boolean): void {
    const { subject, set, day, quota, used, added } = ask
    const name = anyDayName(subject, set)
    const its = known.get(name)
    if (its !== undefined && its.day > day) return // an answer admitted before midnight
    const networks = its?.day === day ? its.networks : new Set<string>()
    if (isConsumed) for (const network of ask.networks) networks.add(network)
    const size = used + (isConsumed ? added : 0)
    if (networks.size > NETWORKS_EACH_MAX) known.delete(name)
    else known.set(name, { day, networks, size, quota })
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

    forget({ kind, id }: SubjectsOfKind): void {
      generation += 1
      if (id !== null) for (const set of SETS) known.delete(anyDayName({ kind, id }, set))
      else for (const name of [...known.keys()]) if (name.startsWith(`${kind} `)) known.delete(name)
    },
  }
}
