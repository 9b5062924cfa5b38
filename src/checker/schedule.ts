/**
 * Which address is checked when, and what is remembered of it after a check (contract H3, H4). Pure: instants
 * are passed in, and are of the schedule's clock.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import { idOf } from '../proxies/row.ts'
import type {
  Attempt,
  Candidate,
  CandidateStore,
  ListedRow,
  Measured,
  Past,
  Queue,
  Reason,
  Works,
} from './ports.ts'

// -----------------------------------------------------------------------------------------------
// When

/** The living are checked this often, give or take a share of it, so that they do not come at once. */
const LIVING_MS = 240 * SECOND_MS
const LIVING_JITTER = 0.1

/** How long to wait after so many failures in a row; `random` is from 0 up to 1. */
const PAUSES: { readonly [Q in Queue]: (streak: number, random: number) => number } = {
  living: (_, random) => LIVING_MS * (1 + LIVING_JITTER * (2 * random - 1)),
  down: streak => Math.min(45 * SECOND_MS * 1.5 ** Math.max(0, streak - 2), 30 * MINUTE_MS),
  raw: streak => Math.min(10 * MINUTE_MS * 2 ** (streak - 1), DAY_MS),
}
/** Idle budget may go to an address when this share of its pause is over. */
const IDLE_SHARE = 0.5

function timesAfter(queue: Queue, streak: number, nowMs: number, random: number) {
  const pauseMs = Math.round(PAUSES[queue](streak, random))
  return { queue, nextAtMs: nowMs + pauseMs, idleAtMs: nowMs + Math.round(pauseMs * IDLE_SHARE) }
}

/** Measurements that cost more than a check are made this often at most. */
const RARE_MS = 6 * HOUR_MS
/** Whether something that was measured then is to be measured again. */
export const isRareDue = (measuredMs: number | null, nowMs: number): boolean =>
  measuredMs === null || nowMs - measuredMs >= RARE_MS

/** A success makes a proxy fresh for this long: a query without `time` finds it. */
export const FRESH_MS = 10 * MINUTE_MS

const FORGOTTEN_FAILURES = 20
const FORGOTTEN_MS = 14 * DAY_MS

/** Whether an address that is not in the list is to be forgotten. */
export const shouldForget = ({ streak, okAtMs, addedMs }: Candidate, nowMs: number): boolean =>
  streak >= FORGOTTEN_FAILURES || nowMs - (okAtMs ?? addedMs) >= FORGOTTEN_MS

/** Of what the living leave, at least this share goes to addresses that were never seen alive. */
const RAW_SHARE = 1 / 4

/** An address that comes next, and out of which line. */
export type Next = { id: number; line: Queue | 'idle' }

/** Which addresses come next: see `CandidateStore` for what it asks. */
export function createOrder(store: Pick<CandidateStore, 'due' | 'idle'>) {
  let rawShare = 0 // what was below a whole address stays for the next time
  return function next(
    nowMs: number,
    count: number,
    excluded: ReadonlySet<number>,
    withIdle: boolean,
  ): Next[] {
    const due = (line: Queue, most: number): Next[] =>
      store.due(line, nowMs, most, excluded).map(id => ({ id, line }))
    const living = due('living', count)
    const rest = count - living.length
    const raw = due('raw', rest)
    rawShare += rest * RAW_SHARE
    const down = due('down', rest - Math.min(Math.floor(rawShare), raw.length))
    rawShare %= 1
    const next = [...living, ...down, ...raw.slice(0, rest - down.length)]
    const left = count - next.length
    if (!withIdle || left === 0) return next
    const idle = store.idle(nowMs, left, excluded)
    return [...next, ...idle.map(id => ({ id, line: 'idle' as const }))]
  }
}

/** The rate that would keep so many living fresh and leave a quarter for the others; `null` where `rate` does. */
export function neededRate(living: number, rate: number): number | null {
  const least = (living * SECOND_MS) / LIVING_MS
  return least <= rate ? null : Math.ceil(least / (1 - RAW_SHARE))
}

// -----------------------------------------------------------------------------------------------
// How much of it works

const HALF_LIFE_MS = 6 * HOUR_MS
/** A gap between two checks counts as this long at most: nobody knows what was in it. */
const GAP_MS_MAX = HOUR_MS
/** What a check weighs that follows none. */
const FIRST_SECONDS = LIVING_MS / SECOND_MS
const CHECKS_MIN = 3

/** `works` as somebody else states it. */
const worksStated = (percent: number): Works => ({
  good: (percent / 100) * CHECKS_MIN * FIRST_SECONDS,
  total: CHECKS_MIN * FIRST_SECONDS,
  checks: CHECKS_MIN,
})

/** A check weighs the time since the one before it; what is older fades. */
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

/** The percentage of a row; `null` while it is unknown. */
export const percentOf = (works: Works | null): number | null =>
  works === null || works.checks < CHECKS_MIN || works.total === 0
    ? null
    : Math.round((100 * works.good) / works.total)

// -----------------------------------------------------------------------------------------------
// What is remembered

const ATTEMPTS_MAX = 20

/** The checks of the last twenty attempts. */
function withPast(history: readonly Past[], past: Past): Past[] {
  const kept: Past[] = []
  let left = ATTEMPTS_MAX
  for (const each of [{ ...past, attempts: past.attempts.slice(-ATTEMPTS_MAX) }, ...history]) {
    left -= Math.max(1, each.attempts.length)
    if (left < 0) break
    kept.push(each)
  }
  return kept
}

/** When a check ended, by the schedule's clock and by that of the machine, and its attempts. */
export type Ended = { nowMs: number; at: number; attempts: readonly Attempt[] }

/** A candidate after a check in which it was alive; what was not measured now is as it was. */
export function afterSuccess(
  candidate: Candidate,
  measured: Measured,
  { nowMs, at, attempts }: Ended,
  random: number,
): Candidate {
  const { measured: before, history } = candidate
  const wasTried = (purpose: Attempt['purpose']): boolean =>
    attempts.some(attempt => attempt.purpose === purpose)
  const speed = measured.speed ?? before?.speed
  const hasTls = measured.hasTls ?? before?.hasTls
  return {
    ...candidate,
    ...timesAfter('living', 0, nowMs, random),
    okAtMs: nowMs,
    streak: 0,
    works: worksAfter(candidate, true, nowMs),
    checkedMs: nowMs,
    measured: {
      ...measured,
      pingMs: measured.pingMs ?? before?.pingMs ?? null,
      services: { ...before?.services, ...measured.services },
      ...(speed !== undefined && { speed }),
      ...(hasTls !== undefined && { hasTls }),
    },
    speedMs: wasTried('speed') ? nowMs : candidate.speedMs,
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
  const queue = candidate.okAtMs === null && candidate.queue === 'raw' ? 'raw' : 'down'
  return {
    ...candidate,
    ...timesAfter(queue, streak, nowMs, random),
    streak,
    works: worksAfter(candidate, false, nowMs),
    checkedMs: nowMs,
    history: withPast(candidate.history, { at, result: reason, attempts }),
  }
}

/** A new address, and what is known of it: its type, when it is due, and what a file or the list says of it. */
type New = Pick<Candidate, 'id' | 'hint' | 'queue' | 'nextAtMs' | 'okAtMs'> & {
  /** A percentage, as of then; `null` unknown. */
  works: number | null
  checkedMs: number | null
}

export const newCandidate = ({ works, checkedMs, ...known }: New, nowMs: number): Candidate => ({
  ...known,
  ...{ idleAtMs: known.nextAtMs, addedMs: nowMs, streak: 0 },
  works: works === null ? null : worksStated(works),
  checkedMs: works === null ? null : checkedMs,
  ...{ measured: null, speedMs: null, servicesMs: null, tlsMs: null, history: [] },
})

/** A row of the list that was checked `ageMs` ago: alive if that is not long ago, else down. */
export function listedCandidate(row: ListedRow, ageMs: number, nowMs: number): Candidate {
  const okAtMs = nowMs - Math.max(0, ageMs)
  const queue = ageMs <= FRESH_MS ? 'living' : 'down'
  const nextAtMs = queue === 'living' ? Math.max(nowMs, okAtMs + LIVING_MS) : nowMs
  const { type: hint, works } = row
  return newCandidate(
    { id: idOf(row), hint, queue, nextAtMs, okAtMs, works, checkedMs: okAtMs },
    nowMs,
  )
}
