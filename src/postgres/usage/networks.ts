/**
 * The daily quotas of networks in PostgreSQL: one call for a batch of answers, and a cache of what their
 * sets certainly have, which only grow during a day. The decisions are those of `network-quota.ts`.
 *
 * A set is a bitmap of all IPv4 /16 networks, so adding to a large one costs what adding to a small one
 * does; IPv6 networks, which only sets of callers have, stand beside it.
 */
import {
  type Consumption,
  type Addition as Counted,
  decide,
  type NetworkCounts,
  type NetworkDecision,
  type NetworkSet,
  SETS,
} from '../../access/network-quota.ts'
import { type Subject, type SubjectsOfKind, UNUSED, type Usage } from '../../access/rate-limit.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { stopwatch } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'
import { createListBatch, type Waited } from '../../lib/turn-batch.ts'
import { arrayLiteral, columnsOf, endsOf, limitOf } from '../arrays.ts'
import type { Query } from '../connection.ts'
import { type DatabaseClock, nameOf } from './refusals.ts'

/** Networks of type /16, one for each bit of a set. */
const BITS = 65_536

/** The bit of a network: one that is served is a number already. `null`: it is none of IPv4. */
function bitOf(set: NetworkSet, network: string): number | null {
  if (set === 'served') return /^\d{1,5}$/.test(network) && +network < BITS ? +network : null
  const [, a, b] = /^(\d+)\.(\d+)\.0\.0\/16$/.exec(network) ?? []
  return a === undefined || b === undefined ? null : +a * 256 + +b
}

/** Networks as the columns `networks` and `others` have them. */
export function encodeNetworks(set: NetworkSet, networks: readonly string[]) {
  const bytes = new Uint8Array(BITS / 8)
  const others = new Set<string>()
  for (const network of networks) {
    const bit = bitOf(set, network)
    if (bit === null) others.add(network)
    else bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) | (0x80 >> (bit & 7))
  }
  return { networks: `x${bytes.toHex()}`, others: [...others] }
}

/** In what is moved, one dot is so many zeros: most sets are small, and the digits of each are 16 KB. */
const ZEROS = '0'.repeat(64)
export const shortened = (digits: string): string => digits.replaceAll(ZEROS, '.')
/** Column `networks` of what was shortened. */
export const LENGTHENED = `replace(networks, '.', '${ZEROS}')::bit(${BITS})`

/** The column `networks` as hexadecimal digits, shortened, for `decodeNetworks`. */
export const NETWORKS_HEX = `replace(encode(substring(bit_send(networks) from 5), 'hex'), '${ZEROS}', '.')`

/** The networks of a set, from `NETWORKS_HEX` and the column `others`. */
export function decodeNetworks(set: NetworkSet, hex: string, others: readonly string[]): string[] {
  const networks: string[] = []
  for (const { 0: digit, index } of hex.replaceAll('.', ZEROS).matchAll(/[^0]/g)) {
    for (const place of [0, 1, 2, 3]) {
      const bit = 4 * index + place
      if ((parseInt(digit, 16) & (8 >> place)) === 0) continue
      networks.push(set === 'served' ? `${bit}` : `${bit >> 8}.${bit & 255}.0.0/16`)
    }
  }
  return [...networks, ...others]
}

/** How many networks a row of table `networks` has. */
export const NETWORKS_SIZE = 'bit_count(n.networks)::int + cardinality(n.others)'

export type Addition = Counted & { subject: Subject; day: number; networks: readonly string[] }

const setName = ({ subject, set, day }: Addition): string => `${nameOf(subject)} ${set} ${day}`

const additionsOf = ({ subject, quotas, networks, atMs }: Consumption): Addition[] =>
  SETS.flatMap(set => {
    const quota = quotas[set]
    if (quota === null) return []
    return [{ subject, set, day: utcDay(atMs), quota, networks: networks[set], used: 0, added: 0 }]
  })

/** Networks that a node remembers of a set, and of all sets: of these about 100 MB. */
const NETWORKS_EACH_MAX = 1_000
const NETWORKS_MAX = 1_000_000
/** A set without networks takes as much memory as so many. */
const SET_SIZE = 10

/** What a node remembers of a set: networks that it has, and how many they were at the last answer. */
type CachedSet = { day: number; networks: Set<string>; size: number; quota: number }

/** A set of any day: a node remembers that of one day. */
const anyDayName = (subject: Subject, set: NetworkSet): string => `${nameOf(subject)} ${set}`

/** The sets that a node remembers: a network that was in one today stays in it. */
export function createSetCache() {
  const cached = createBoundedMap<string, CachedSet>(
    NETWORKS_MAX,
    undefined,
    ({ networks }) => SET_SIZE + networks.size,
  )
  let generation = 0

  function look(addition: Addition): Addition | null {
    const { subject, set, day, quota } = addition
    const its = cached.get(anyDayName(subject, set))
    if (its?.day !== day || its.quota !== quota) return null
    const added = new Set(addition.networks).difference(its.networks).size
    const isCertain = added === 0 ? its.size <= quota : its.networks.size === its.size
    const isDecided = added === 0 || its.size + added > quota
    return isCertain && isDecided ? { ...addition, used: its.size, added } : null
  }

  function learn(addition: Addition, isMade: boolean): void {
    const { subject, set, day, quota, used } = addition
    const name = anyDayName(subject, set)
    const its = cached.get(name)
    if (its !== undefined && its.day > day) return // an answer admitted before midnight
    const networks = its?.day === day ? its.networks : new Set<string>()
    if (isMade) for (const network of addition.networks) networks.add(network)
    const size = used + (isMade ? addition.added : 0)
    if (networks.size > NETWORKS_EACH_MAX) cached.delete(name)
    else cached.set(name, { day, networks, size, quota })
  }

  return {
    /** Changes whenever something is forgotten. */
    generation: (): number => generation,

    /** The additions of an answer with what each would find; `null`: the database has to be asked. */
    look(additions: readonly Addition[]): Addition[] | null {
      const found = additions.map(look)
      return found.every(each => each !== null) ? found : null
    },

    /** Remembers what the database said; not what it was asked before something was forgotten. */
    learn(additions: readonly Addition[], isMade: boolean, asOf: number): void {
      if (asOf === generation) for (const addition of additions) learn(addition, isMade)
    },

    forget({ kind, id }: SubjectsOfKind): void {
      generation += 1
      if (id !== null) for (const set of SETS) cached.delete(anyDayName({ kind, id }, set))
      else
        for (const name of [...cached.keys()]) if (name.startsWith(`${kind} `)) cached.delete(name)
    },
  }
}

const CONSUME = `select proxylist.consume($1::text[], $2::text[], $3::text[], $4::int[], $5::int[],
  $6::bigint[], $7::text[], $8::text[], $9::int[]) as numbers`

/** Sets are sorted by primary key: all lock rows in that order. Their names are ASCII, and sort like it. */
function parametersOf(answers: readonly (readonly Addition[])[]): string[] {
  const additions = answers.flat()
  const byName = new Map(additions.map(each => [setName(each), each]))
  const sets = [...byName].sort(([one], [two]) => (one < two ? -1 : 1))
  const ordinals = new Map(sets.map(([name], i) => [name, i + 1]))
  const rows = additions.map(each => {
    const { networks, others } = encodeNetworks(each.set, each.networks)
    const ordinal = ordinals.get(setName(each)) ?? null
    return { ordinal, quota: limitOf(each.quota), networks, others: arrayLiteral(others) }
  })
  return [
    ...columnsOf(
      sets.map(([, { subject, set, day }]) => ({ ...subject, set, day })),
      ...(['kind', 'id', 'set', 'day'] as const),
    ),
    ...columnsOf(rows, 'ordinal', 'quota', 'networks', 'others'),
    endsOf(answers),
  ]
}

const COUNT = `
  select coalesce(max(${NETWORKS_SIZE}) filter (where n.network_set = 'served'), 0) as served,
    coalesce(max(${NETWORKS_SIZE}) filter (where n.network_set = 'callers'), 0) as callers
  from unnest($1::text[], $2::text[], $3::int[]) with ordinality s (kind, id, day, ordinal)
  left join proxylist.networks n
    on n.kind = s.kind collate "C" and n.id = s.id collate "C" and n.day = s.day
  group by s.ordinal order by s.ordinal`

/** How often a batch is sent again, because a set was removed between adding and locking it. */
const TRIES_MAX = 4

/** `items`, where the next one of `more` stands for each `null`. */
function fillIn<T>(items: readonly (T | null)[], more: readonly T[]): T[] {
  let next = 0
  return items.flatMap(item => item ?? more[next++] ?? [])
}

/** Whether a rule's window may last longer than the day of an answer: then a retry waits for it. */
const mayOutlastDay = ({ rule, atMs }: Consumption, nowMs: number): boolean =>
  Math.max(atMs, nowMs) + (rule.window?.ms ?? 0) > (utcDay(atMs) + 1) * DAY_MS

/** The networks over a connection; `usageOf` reads the usage of a subject. */
export function createNetworks(
  query: Query,
  usageOf: (subject: Subject) => Promise<Usage>,
  clock: DatabaseClock,
) {
  const cache = createSetCache()

  async function call(parameters: readonly string[], waited: Waited): Promise<number[]> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const [row] = await query<{ numbers: string | null }>(CONSUME, parameters, waited())
      if (row?.numbers != null) return JSON.parse(`[${row.numbers}]`)
    }
    throw new StoreError('sets of networks were removed while they were added to')
  }

  async function ask(
    batch: readonly Consumption[],
    answers: readonly (readonly Addition[])[],
    waited: Waited,
  ): Promise<NetworkDecision[]> {
    const [sentMs, generation] = [clock.elapsedMs(), cache.generation()]
    const [nowMs = 0, ...numbers] = await call(parametersOf(answers), waited)
    clock.set({ nowMs, sentMs })
    for (const [i, each] of answers.flat().entries()) {
      each.used = numbers[2 * i] ?? 0
      each.added = numbers[2 * i + 1] ?? 0
    }
    const decisions: NetworkDecision[] = []
    for (const [i, consumption] of batch.entries()) {
      const additions = answers[i] ?? []
      const isOver = additions.some(({ quota, used, added }) => used + added > quota)
      const needsUsage = isOver && mayOutlastDay(consumption, nowMs)
      const usage = needsUsage ? await usageOf(consumption.rule.subject) : UNUSED
      cache.learn(additions, !isOver, generation)
      decisions.push(decide({ ...consumption, nowMs }, additions, () => usage))
    }
    return decisions
  }

  /** Decides an answer without the database, if that is certain; `null`: it has to be asked. */
  function decideHere(
    consumption: Consumption,
    additions: readonly Addition[],
  ): NetworkDecision | null {
    const found = cache.look(additions)
    if (found === null) return null
    const over = found.filter(({ quota, used, added }) => used + added > quota)
    // A refusal says how many are used. Others may have added some, but not to a full set.
    if (over.some(({ quota, used }) => used < quota)) return null
    const atMs = clock.elapsedMs()
    if (over.length > 0 && mayOutlastDay(consumption, clock.latest(atMs))) return null
    return decide({ ...consumption, nowMs: clock.earliest(atMs) }, found, () => null)
  }

  return {
    forget: cache.forget,

    /** A set that the database is asked for is not decided by what was remembered before. */
    consume(
      batch: readonly Consumption[],
      waited: Waited = stopwatch(),
    ): Awaitable<readonly NetworkDecision[]> {
      const answers = batch.map(additionsOf)
      const askedSets = new Set<string>()
      const here = batch.map((consumption, i) => {
        const additions = answers[i] ?? []
        const decision = additions.some(each => askedSets.has(setName(each)))
          ? null
          : decideHere(consumption, additions)
        if (decision === null) for (const each of additions) askedSets.add(setName(each))
        return decision
      })
      const isAsked = (_: unknown, i: number): boolean => here[i] === null
      if (askedSets.size === 0) return here.filter(decision => decision !== null)
      const asked = ask(batch.filter(isAsked), answers.filter(isAsked), waited)
      return asked.then(decisions => fillIn(here, decisions))
    },

    count: createListBatch<{ subject: Subject; day: number }, NetworkCounts>((batch, waited) => {
      const rows = batch.map(({ subject, day }) => ({ ...subject, day }))
      return query<NetworkCounts>(COUNT, columnsOf(rows, 'kind', 'id', 'day'), waited())
    }),
  }
}
