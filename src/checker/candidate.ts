/**
 * A candidate, the memory of an address: how a check changes it, and when the next check is due (contract H3, H4).
 * Pure: instants are arguments, of the schedule's clock.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { RECENT_MS } from '../proxies/freshness.ts'
import type { CandidateRow, ProxyType } from '../proxies/proxy.ts'
import { idOf } from '../proxies/row.ts'
import { typeBits } from '../proxies/types.ts'
import type { Attempt, Candidate, Measured, Past, Queue, Reason, Works } from './ports.ts'

// -----------------------------------------------------------------------------------------------
// The next check

/** The pause of the living varies by 10 %, so that they are not all due at once. */
export const LIVING_MS = 240 * SECOND_MS
const LIVING_JITTER = 0.1

/** The pause after a check; `streak` is the number of failures in a row, `random` is from 0 up to 1. */
const PAUSES: { readonly [Q in Queue]: (streak: number, random: number) => number } = {
  living: (_, random) => LIVING_MS * (1 + LIVING_JITTER * (2 * random - 1)),
  down: streak => Math.min(45 * SECOND_MS * 1.5 ** Math.max(0, streak - 2), 30 * MINUTE_MS),
  raw: streak => Math.min(10 * MINUTE_MS * 2 ** (streak - 1), DAY_MS),
}
/** An idle checker may check an address after this share of its pause. */
const IDLE_SHARE = 0.5

function timesAfter(queue: Queue, streak: number, nowMs: number, random: number) {
  const pauseMs = Math.round(PAUSES[queue](streak, random))
  return { queue, nextAtMs: nowMs + pauseMs, idleAtMs: nowMs + Math.round(pauseMs * IDLE_SHARE) }
}

/** Speed, services and TLS cost more than a check: they are measured at most this often. */
const RARE_MS = 6 * HOUR_MS
export const isRareDue = (measuredMs: number | null, nowMs: number): boolean =>
  measuredMs === null || nowMs - measuredMs >= RARE_MS

const FAILURES_MAX = 20
const RAW_MS_MAX = 14 * DAY_MS
const DOWN_MS_MAX = 7 * DAY_MS

/** Whether to forget an address after a failure. One that worked may be in the list for a week. */
export const shouldForget = ({ streak, okAtMs, addedMs }: Candidate, nowMs: number): boolean =>
  okAtMs === null
    ? streak >= FAILURES_MAX || nowMs - addedMs >= RAW_MS_MAX
    : streak >= FAILURES_MAX && nowMs - okAtMs >= DOWN_MS_MAX

// -----------------------------------------------------------------------------------------------
// The percentage of checks that succeed

const HALF_LIFE_MS = 6 * HOUR_MS
/** A longer gap between two checks weighs no more than this. */
const GAP_MS_MAX = HOUR_MS
/** The weight of a first check. */
const FIRST_SECONDS = LIVING_MS / SECOND_MS
const CHECKS_MIN = 3

/** A check weighs as much as the time since the last one; older checks fade. */
export function worksAfter(
  { works, checkedMs }: Pick<Candidate, 'works' | 'checkedMs'>,
  isGood: boolean,
  nowMs: number,
): Works {
  const { good, total, checks } = works ?? { good: 0, total: 0, checks: 0 }
  const gapMs = checkedMs === null ? null : Math.max(0, nowMs - checkedMs)
  const weight = gapMs === null ? FIRST_SECONDS : Math.min(gapMs, GAP_MS_MAX) / SECOND_MS
  const left = 0.5 ** ((gapMs ?? 0) / HALF_LIFE_MS)
  const round = (seconds: number): number => Math.round(seconds * 10) / 10
  return {
    good: round(good * left + (isGood ? weight : 0)),
    total: round(total * left + weight),
    checks: Math.min(checks + 1, CHECKS_MIN),
  }
}

export const percentOf = (works: Works | null): number | null =>
  works === null || works.checks < CHECKS_MIN || works.total === 0
    ? null
    : Math.round((100 * works.good) / works.total)

// -----------------------------------------------------------------------------------------------
// Candidates

const ATTEMPTS_MAX = 20

function withPast(history: readonly Past[], past: Past): Past[] {
  const latest = { ...past, attempts: past.attempts.slice(-ATTEMPTS_MAX) }
  let left = ATTEMPTS_MAX
  return [latest, ...history].filter(({ attempts }) => {
    left -= Math.max(1, attempts.length)
    return left >= 0
  })
}

/** The types that work, see `proxies/types.ts`. */
export const typesIn = ({ type, others = [] }: Measured): number => typeBits([type, ...others])

/** The other types after a check. An undecided type stays if it worked before, or if the list has it. */
function othersAfter({ measured, okAtMs, named }: Candidate, found: Measured): ProxyType[] {
  const listed = okAtMs === null ? 0 : named
  const before = measured === null ? listed : typesIn(measured)
  const { others = [], undecided = [] } = found
  return [...others, ...undecided.filter(type => before & typeBits([type]))]
}

/** `nowMs` is of the schedule's clock, `at` of the clock of the machine. */
export type Ended = { nowMs: number; at: number; attempts: readonly Attempt[] }

/** The candidate after a success. It keeps values that the check did not measure. */
export function afterSuccess(
  candidate: Candidate,
  measured: Measured,
  { nowMs, at, attempts }: Ended,
  random: number,
): Candidate {
  const { measured: before, history } = candidate
  const wasSpeedTried = attempts.some(({ purpose }) => purpose === 'speed')
  const speed = measured.speed ?? before?.speed
  const hasTls = measured.hasTls ?? before?.hasTls
  const others = othersAfter(candidate, measured)
  return {
    ...candidate,
    ...timesAfter('living', 0, nowMs, random),
    okAtMs: nowMs,
    streak: 0,
    works: worksAfter(candidate, true, nowMs),
    checkedMs: nowMs,
    named: typeBits([measured.type, ...others, ...(measured.undecided ?? [])]),
    measured: {
      ...measured,
      ...(others.length > 0 && { others }),
      pingMs: measured.pingMs ?? before?.pingMs ?? null,
      services: { ...before?.services, ...measured.services },
      ...(speed !== undefined && { speed }),
      ...(hasTls !== undefined && { hasTls }),
    },
    speedMs: wasSpeedTried ? nowMs : candidate.speedMs,
    servicesMs: measured.services === undefined ? candidate.servicesMs : nowMs,
    tlsMs: measured.hasTls === undefined ? candidate.tlsMs : nowMs,
    history: withPast(history, { at, result: 'ok', attempts, measured }),
  }
}

export function afterFailure(
  candidate: Candidate,
  reason: Reason,
  { nowMs, at, attempts }: Ended,
  random: number,
): Candidate {
  const streak = candidate.streak + 1
  const queue = candidate.okAtMs === null ? 'raw' : 'down'
  return {
    ...candidate,
    ...timesAfter(queue, streak, nowMs, random),
    streak,
    works: worksAfter(candidate, false, nowMs),
    checkedMs: nowMs,
    history: withPast(candidate.history, { at, result: reason, attempts }),
  }
}

/** A new candidate. A row of the list worked when it was checked; a row of a file or a feed may never have worked. */
export function newCandidate(row: CandidateRow, nowMs: number, isListed: boolean): Candidate {
  const { types: named, works } = row
  const checkedMs = Math.min(row.checkedAt * SECOND_MS, nowMs)
  const isLiving = isListed && nowMs - checkedMs <= RECENT_MS
  const nextAtMs = isLiving ? Math.max(nowMs, checkedMs + LIVING_MS) : nowMs
  const total = CHECKS_MIN * FIRST_SECONDS // a percentage counts as that many checks
  return {
    ...{ id: idOf(row), named, nextAtMs, idleAtMs: nextAtMs, addedMs: nowMs, streak: 0 },
    queue: isLiving ? 'living' : isListed ? 'down' : 'raw',
    okAtMs: isListed ? checkedMs : null,
    works: works === null ? null : { good: (works / 100) * total, total, checks: CHECKS_MIN },
    checkedMs: works === null ? null : checkedMs,
    ...{ measured: null, speedMs: null, servicesMs: null, tlsMs: null, history: [] },
  }
}
