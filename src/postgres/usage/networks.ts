/**
 * Owns the daily quotas of networks in PostgreSQL: one call for a batch of answers, and what a node
 * knows of the sets, which only grow during a day. The decisions are those of `network-quota.ts`.
 */
import {
  type Consumption,
  consume,
  type NetworkCounts,
  type NetworkDecision,
} from '../../access/network-quota.ts'
import { type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { stopwatch } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'
import type { Awaitable, Waited } from '../../lib/turn-batch.ts'
import { arrayLiteral, limitOf } from '../arrays.ts'
import type { Query } from '../connection.ts'
import type { DatabaseClock } from './clock.ts'
import { createJoined } from './joined.ts'
import { type Ask, createKnownSets, type KnownSets, SETS, setName } from './known-sets.ts'

/** How often a batch is sent again, because a set was removed between adding and locking it. */
const TRIES_MAX = 4

const CONSUME = `select proxylist.consume($1::text[], $2::text[], $3::text[], $4::int[], $5::int[],
  $6::bigint[], $7::text[], $8::int[]) as numbers`
const COUNT = `
  select coalesce(max(cardinality(n.networks)) filter (where n.network_set = 'served'), 0)
      as served,
    coalesce(max(cardinality(n.networks)) filter (where n.network_set = 'callers'), 0) as callers
  from unnest($1::text[], $2::text[], $3::int[]) with ordinality s (kind, id, day, place)
  left join proxylist.networks n
    on n.kind = s.kind collate "C" and n.id = s.id collate "C" and n.day = s.day
  group by s.place order by s.place`

const asksOf = ({ subject, quotas, networks, atMs }: Consumption): Ask[] =>
  SETS.flatMap(set => {
    const quota = quotas[set]
    if (quota === null) return []
    const day = utcDay(atMs)
    return [
      { ...{ subject, set, day, quota }, networks: networks[set], position: 0, used: 0, added: 0 },
    ]
  })

/** A set of `used` networks, which lacks `added` of those of an answer. */
const setWith = (used: number, lacking: ReadonlySet<string>) => ({
  size: used,
  has: (network: string): boolean => !lacking.has(network),
})

/** Decides an answer by how many networks its sets have, and how many it would add. */
function decide(
  consumption: Consumption,
  asks: readonly Ask[],
  usage: Usage,
  nowMs: number,
): NetworkDecision {
  return consume(
    {
      networks(_, set) {
        const ask = asks.find(each => each.set === set)
        const lacking = [...new Set(ask?.networks)].slice(0, ask?.added)
        return setWith(ask?.used ?? 0, new Set(lacking))
      },
      addNetworks() {},
      read: () => usage,
      record() {},
    },
    { ...consumption, nowMs },
  )
}

/** Sorted by primary key; each ask gets the position of its set. */
function setsOf(asks: readonly Ask[]): Ask[] {
  const byName = new Map<string, Ask>()
  for (const ask of asks) byName.set(setName(ask), ask)
  const key = ({ subject, set, day }: Ask) => [subject.kind, subject.id, set, day] as const
  const sorted = [...byName.values()].sort((a, b) => {
    const [one, two] = [key(a), key(b)]
    const at = one.findIndex((part, i) => part !== two[i])
    return at < 0 ? 0 : (one[at] ?? 0) < (two[at] ?? 0) ? -1 : 1
  })
  const positions = new Map(sorted.map((ask, i) => [setName(ask), i + 1]))
  for (const ask of asks) ask.position = positions.get(setName(ask)) ?? 0
  return sorted
}

function parametersOf(items: readonly (readonly Ask[])[]): string[] {
  const asks = items.flat()
  const sets = setsOf(asks)
  let end = 0
  const ends = items.map(({ length }) => {
    end += length
    return end
  })
  return [
    arrayLiteral(sets.map(({ subject }) => subject.kind)),
    arrayLiteral(sets.map(({ subject }) => subject.id)),
    arrayLiteral(sets.map(({ set }) => set)),
    arrayLiteral(sets.map(({ day }) => day)),
    arrayLiteral(asks.map(({ position }) => position)),
    arrayLiteral(asks.map(({ quota }) => limitOf(quota))),
    arrayLiteral(asks.map(({ networks }) => arrayLiteral([...new Set(networks)]))),
    arrayLiteral(ends),
  ]
}

/** Whether a rule's window may last longer than the day of an answer: then a retry waits for it. */
const mayOutlastDay = ({ rule, atMs }: Consumption, nowMs: number): boolean =>
  Math.max(atMs, nowMs) + (rule.window?.ms ?? 0) > (utcDay(atMs) + 1) * DAY_MS

/** Returns a function that decides answers by the database, and remembers what it says. */
function createAsking(
  query: Query,
  usageOf: (subject: Subject) => Promise<Usage>,
  clock: DatabaseClock,
  known: KnownSets,
) {
  async function call(parameters: readonly string[], waited: Waited): Promise<number[]> {
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const [row] = await query<{ numbers: string | null }>(CONSUME, parameters, waited())
      if (row?.numbers != null) return JSON.parse(`[${row.numbers}]`)
    }
    throw new StoreError('sets of networks were removed while they were added to')
  }

  return async function ask(
    batch: readonly Consumption[],
    items: readonly (readonly Ask[])[],
    waited: Waited,
  ): Promise<NetworkDecision[]> {
    const [sentMs, generation] = [clock.elapsedMs(), known.generation()]
    const [nowMs = 0, ...numbers] = await call(parametersOf(items), waited)
    clock.set({ nowMs, sentMs })
    for (const [i, each] of items.flat().entries()) {
      each.used = numbers[2 * i] ?? 0
      each.added = numbers[2 * i + 1] ?? 0
    }
    const decisions: NetworkDecision[] = []
    for (const [i, consumption] of batch.entries()) {
      const asks = items[i] ?? []
      const isOver = asks.some(({ quota, used, added }) => used + added > quota)
      const needsUsage = isOver && mayOutlastDay(consumption, nowMs)
      const usage = needsUsage ? await usageOf(consumption.rule.subject) : UNUSED
      known.learn(asks, !isOver, generation)
      decisions.push(decide(consumption, asks, usage, nowMs))
    }
    return decisions
  }
}

/** The networks over a connection; `usageOf` reads the usage of a subject. */
export function createNetworks(
  query: Query,
  usageOf: (subject: Subject) => Promise<Usage>,
  clock: DatabaseClock,
) {
  const known = createKnownSets()
  const ask = createAsking(query, usageOf, clock, known)

  /** Decides an answer without the database, if that is certain; `null`: it has to be asked. */
  function decideHere(consumption: Consumption, asks: readonly Ask[]): NetworkDecision | null {
    const found = known.look(asks)
    if (found === null) return null
    const over = found.filter(({ quota, used, added }) => used + added > quota)
    // A refusal says how many are used. Others may have added some, but not to a full set.
    if (over.some(({ quota, used }) => used < quota)) return null
    const atMs = clock.elapsedMs()
    if (over.length > 0 && mayOutlastDay(consumption, clock.latest(atMs))) return null
    return decide(consumption, found, UNUSED, clock.earliest(atMs))
  }

  return {
    known,

    /** A set that the database is asked for is not decided by what was known before. */
    consume(
      batch: readonly Consumption[],
      waited: Waited = stopwatch(),
    ): Awaitable<readonly NetworkDecision[]> {
      const items = batch.map(asksOf)
      const askedSets = new Set<string>()
      const here = batch.map((consumption, i) => {
        const asks = items[i] ?? []
        const decision = asks.some(each => askedSets.has(setName(each)))
          ? null
          : decideHere(consumption, asks)
        if (decision === null) for (const each of asks) askedSets.add(setName(each))
        return decision
      })
      const isAsked = (_: unknown, i: number): boolean => here[i] === null
      if (askedSets.size === 0) return here.filter(decision => decision !== null)
      return ask(batch.filter(isAsked), items.filter(isAsked), waited).then(decisions => {
        let next = 0
        return here.flatMap(decision => decision ?? decisions[next++] ?? [])
      })
    },

    count: createJoined<{ subject: Subject; day: number }, NetworkCounts>((batch, waitedMs) => {
      const parameters = [
        arrayLiteral(batch.map(({ subject }) => subject.kind)),
        arrayLiteral(batch.map(({ subject }) => subject.id)),
        arrayLiteral(batch.map(({ day }) => day)),
      ]
      return query<NetworkCounts>(COUNT, parameters, waitedMs)
    }),
  }
}
