/**
 * Owns what a node knows of usage without a round trip: of which subjects the database said that
 * their limit is full, and for how long that is certain. Pure.
 */
import {
  admit,
  type Decision,
  type LimitRule,
  type Subject,
  type Usage,
} from '../../access/rate-limit.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'

/** Subjects with a full limit that a node remembers. */
const SUBJECTS_MAX = 100_000

/** How much faster the database's clock may run than this machine's. */
const DRIFT = 1.0005

/** The database's clock, as it was when it answered a call. */
export type Told = {
  nowMs: number
  /** By the stopwatch of this machine: when the call was sent, and when its answer came. */
  sentMs: number
  receivedMs: number
  /** How often something was forgotten until the call was sent. */
  generation: number
}

/**
 * The latest and the earliest that the database's clock can be, `passedMs` by the stopwatch of this
 * machine. The earliest is what is counted by: nobody is to try again too early.
 */
export const latestNow = ({ nowMs, sentMs }: Told, passedMs: number): number =>
  nowMs + 1 + (passedMs - sentMs) * DRIFT
export const earliestNow = ({ nowMs, receivedMs }: Told, passedMs: number): number =>
  Math.floor(nowMs + (passedMs - receivedMs) / DRIFT)

/** A subject with a full limit: its usage, and the instant up to which nothing about it changes. */
type Full = { rule: LimitRule; usage: Usage; untilMs: number; told: Told }

export const nameOf = ({ kind, id }: Subject): string => `${kind} ${id}`

const isSameRule = (one: LimitRule, two: LimitRule): boolean =>
  one === two ||
  (one.daily === two.daily &&
    one.window?.limit === two.window?.limit &&
    one.window?.ms === two.window?.ms)

/**
 * Up to when a rule certainly refuses and all that counts for it counts, as its usage was at
 * `nowMs`; `null` when it does not refuse. The instants of `usage` but the oldest may be later than
 * they were: so this ends as soon as one of them may count no more.
 */
function fullUntil({ window, daily }: LimitRule, usage: Usage, nowMs: number): number | null {
  const atMs = Math.max(nowMs, usage.latestMs)
  const midnightMs = (utcDay(atMs) + 1) * DAY_MS
  const counted = window === null ? 0 : Math.min(window.limit, usage.admissions.length)
  const oldestMs = usage.admissions[usage.admissions.length - counted] ?? atMs
  const windowMs = window === null || counted === 0 ? Infinity : oldestMs + window.ms
  const isWindowFull = window !== null && counted >= window.limit
  const isDayFull = daily !== null && usage.day === utcDay(atMs) && usage.requests >= daily
  if (!isWindowFull && !isDayFull) return null
  return Math.min(windowMs, daily === null ? Infinity : midnightMs)
}

/** `elapsedMs` is the stopwatch of this machine. */
export function createKnownUsage(elapsedMs: () => number) {
  const full = createBoundedMap<string, Full>(SUBJECTS_MAX)
  let generation = 0

  /** What is known of a rule, as long as that is certain. */
  function find(rule: LimitRule, passedMs: number): Full | null {
    const known = full.get(nameOf(rule.subject))
    if (known === undefined || !isSameRule(known.rule, rule)) return null
    return latestNow(known.told, passedMs) < known.untilMs ? known : null
  }

  return {
    /** Refuses a request that the database would certainly refuse; `null`: it has to be asked. */
    refuse(rules: readonly LimitRule[]): Decision | null {
      if (full.size === 0) return null
      const passedMs = elapsedMs()
      const found: Full[] = []
      for (const rule of rules) {
        const known = find(rule, passedMs)
        if (known === null) return null
        found.push(known)
      }
      const nowMs = Math.max(...found.map(({ told }) => earliestNow(told, passedMs)))
      const read = (subject: Subject): Usage | null =>
        found.find(({ rule }) => nameOf(rule.subject) === nameOf(subject))?.usage ?? null
      return admit({ read, record() {} }, { rules, nowMs })
    },

    generation: (): number => generation,

    /**
     * Remembers the usage of a subject after a call, if it is full; not when something was forgotten
     * since the call was sent, which may have been decided before that.
     */
    learn(rule: LimitRule, usage: Usage, told: Told): void {
      if (told.generation !== generation) return
      const name = nameOf(rule.subject)
      const untilMs = fullUntil(rule, usage, told.nowMs)
      if (untilMs === null) full.delete(name)
      else full.set(name, { rule, usage, untilMs, told })
    },

    /** Forgets a subject, or all of a kind when `id` is null. */
    forget({ kind, id }: { kind: Subject['kind']; id: string | null }): void {
      generation += 1
      if (id !== null) full.delete(nameOf({ kind, id }))
      else {
        for (const name of [...full.keys()]) if (name.startsWith(`${kind} `)) full.delete(name)
      }
    },
  }
}
