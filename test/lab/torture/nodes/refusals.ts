/**
 * Owns the proof that each refusal is right: at some instant between sending the request and its
 * answer, the naive model refuses it as well, and with the same fields.
 */
import { dayOf, decide, quotaName, setName } from '../../../support/limiter-oracle.ts'
import { countBelow, quotasOf } from '../limiter/records.ts'
import { networksOf } from '../limiter/traffic.ts'
import { type Asked, type Shown, shownOf } from './asked.ts'
import type { Histories, WrittenSet } from './histories.ts'

const DAY_MS = 86_400_000

/** The code of a refusal, by the kind of key and what is full. */
export const CODES = {
  regular: { window: 'RATE_LIMIT_EXCEEDED', daily: 'DAILY_LIMIT_REACHED' },
  demo: { window: 'DEMO_LIMIT_REACHED', daily: '' },
  temp: { window: 'TEMP_LIMIT_REACHED', daily: '' },
} as const

/** How a refusal is wrong: no limit was full, or a field is not what the model says. */
export type Fault = 'not-full' | 'fields'

/** A time in which no subject of a request changed, by the real clock. */
type Segment = { fromMs: number; toMs: number; counts: number[]; place: number }

/** The segments from sending a request to its answer; in the first one, counts before and after. */
function segmentsOf({ rules, sentMs, receivedMs }: Asked, { of, placeAt }: Histories): Segment[] {
  const written = rules.map(({ subject }) => of(subject))
  const cuts = new Set([sentMs])
  for (const { realMs } of written) {
    const end = countBelow(realMs, receivedMs + 1)
    for (let n = countBelow(realMs, sentMs); n < end; n += 1) cuts.add(realMs[n] ?? sentMs)
  }
  const instants = [...cuts].sort((a, b) => a - b)
  return instants.flatMap((fromMs, i) => {
    const toMs = instants[i + 1] ?? receivedMs
    const countsBefore = (ms: number) => written.map(({ realMs }) => countBelow(realMs, ms))
    const after = { fromMs, toMs, counts: countsBefore(fromMs + 1), place: placeAt(fromMs) }
    const before = {
      fromMs,
      toMs: fromMs,
      counts: countsBefore(fromMs),
      place: placeAt(fromMs - 1),
    }
    return [before, after]
  })
}

const isBetween = (value: number, one: number, other: number): boolean =>
  Math.min(one, other) <= value && value <= Math.max(one, other)

/** What the model decides in a segment, at its begin and at its end. */
function decideIn(asked: Asked, { of }: Histories, segment: Segment, offsetMs: number) {
  const histories = asked.rules.map(({ subject }) => of(subject))
  const at = (ms: number) =>
    decide(asked.rules, histories, segment.counts, ms + offsetMs, segment.place).decision
  return { early: at(segment.fromMs), late: at(segment.toMs) }
}
type Decisions = ReturnType<typeof decideIn>

/** Whether the fields of a refusal are those of the model, at some instant of the segment. */
function hasFields({ code, of, fields, retryAfter }: Asked, shown: Shown, pair: Decisions) {
  const { early, late } = pair
  if (early.kind !== 'refused' || CODES[of.caller][early.by] !== code) return false
  const lastWait = late.kind === 'refused' ? late.retryAfterSeconds : 1
  const wait = fields.retry_after ?? -1
  if (Number(retryAfter) !== wait || !isBetween(wait, lastWait, early.retryAfterSeconds))
    return false
  const daily = code === 'DAILY_LIMIT_REACHED' ? (of.limits.daily ?? undefined) : undefined
  if (fields.daily_limit !== daily) return false
  return early.limits.every(({ name, remaining, resetSeconds }, i) => {
    const item = shown.get(name)
    const least = late.limits[i]?.resetSeconds ?? resetSeconds
    return item?.remaining === remaining && isBetween(item.resetSeconds, least, resetSeconds)
  })
}

/** The longest window of a request, or that of its day. */
const longestMs = ({ rules }: Asked): number =>
  Math.max(...rules.map(({ window, daily }) => (daily === null ? (window?.ms ?? 0) : DAY_MS)))

/**
 * How a refusal by window or day is wrong; `null` when it is right. A node refuses by what it was told
 * and by its own timer: a clock of limits that jumps ahead meanwhile changes nothing for it.
 */
export function faultOf(asked: Asked, histories: Histories): Fault | null {
  const segments = segmentsOf(asked, histories)
  const shown = shownOf(asked)
  let isFull = false
  for (const sinceMs of [asked.sentMs, asked.sentMs - longestMs(asked)]) {
    for (const offset of histories.offsetsBetween(sinceMs, asked.receivedMs)) {
      for (const segment of segments) {
        const pair = decideIn(asked, histories, segment, offset)
        if (hasFields(asked, shown, pair)) return null
        isFull ||= pair.early.kind === 'refused'
      }
    }
  }
  return isFull ? 'fields' : 'not-full'
}

const NO_SET: WrittenSet = { networks: [], realMs: [] }

/** The days that a request can count for. */
const daysOf = ({ sentMs, receivedMs }: Asked, { offsetsBetween }: Histories): number[] => [
  ...new Set(
    offsetsBetween(sentMs, receivedMs).flatMap(offset => [
      dayOf(sentMs + offset),
      dayOf(receivedMs + offset),
    ]),
  ),
]

/** How many networks of a set can have been there while a request was under way. */
const boundsOf = ({ realMs }: WrittenSet, { sentMs, receivedMs }: Asked) => ({
  least: countBelow(realMs, sentMs),
  most: countBelow(realMs, receivedMs + 1),
})

/** Whether a refusal for networks is right: they do not fit in a set of the size that it names. */
export function isRightForNetworks(asked: Asked, histories: Histories): boolean {
  const used = asked.fields.used_subnets ?? -1
  return daysOf(asked, histories).some(day =>
    quotasOf(asked, networksOf(asked.port)).some(({ subject, quota, networks }) => {
      const set = histories.sets.get(setName(subject, day)) ?? NO_SET
      const { least, most } = boundsOf(set, asked)
      if (!isBetween(used, least, most)) return false
      return new Set([...set.networks.slice(0, used), ...networks]).size > quota
    }),
  )
}

/** Networks of an answer that were not in their set when it arrived. */
export function missingNetworks(
  asked: Asked,
  shownNetworks: readonly string[],
  histories: Histories,
): number {
  const shown = shownOf(asked)
  return quotasOf(asked, shownNetworks).filter(({ subject, quota, networks }) => {
    const used = quota - (shown.get(quotaName(subject))?.remaining ?? Number.NaN)
    return !daysOf(asked, histories).some(day => {
      const set = histories.sets.get(setName(subject, day)) ?? NO_SET
      const { most } = boundsOf(set, asked)
      const known = set.networks.slice(0, Math.min(used, most))
      return networks.every(network => known.includes(network))
    })
  }).length
}
