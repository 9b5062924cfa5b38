/**
 * Owns who may ask, and what each kind of key is held to (contract B1–B6): authenticate, admit,
 * charge. How a window is judged is in `limits.ts`.
 */

import { ApiError, type ErrorCode } from '../api/errors.ts'
import { clientBucket, clientNetwork } from '../lib/ip.ts'
import { memoized } from '../lib/memo.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, utcDay } from '../lib/time.ts'
import { createTurnBatch } from '../lib/turn-batch.ts'
import type { Plan } from './plan.ts'
import {
  admitOne,
  type Gauge,
  gaugesOf,
  type Meter,
  NOTHING,
  type UsageStore,
  type Verdict,
  wholeSeconds,
  windowWaitMs,
} from './rate-limit.ts'

export const DEMO_KEY = 'demo'
export const TEMP_PREFIX = 'temp_'
export const REGULAR_PREFIX = 'pl_'

/** Who is asking, once the key has proved right. */
export type Caller =
  | { kind: 'regular'; id: string; plan: Plan }
  | { kind: 'temp'; id: string }
  | { kind: 'demo'; id: 'demo' }

/** A key as it is stored, and who asks with it. Times are Unix milliseconds. */
export type KeyRecord = { caller: Caller; expiresAt: number | null; revokedAt: number | null }

const DEMO: Caller = { kind: 'demo', id: 'demo' }

/** What the kind of key does to a request (spec 8). */
export type Terms = { countMax: number | null; worksDefault: number | null; masked: boolean }

const DEMO_WINDOW = { name: 'demo', limit: 2, ms: MINUTE_MS }
const TEMP_WINDOW = { limit: 2, ms: HOUR_MS }
/** The subject that a regular or temporary key is counted under. */
export const keySubject = (id: string): string => `key:${id}`

const DEMO_TERMS: Terms = { countMax: 50, worksDefault: 90, masked: true }
const TEMP_TERMS: Terms = { countMax: 30, worksDefault: null, masked: false }
/** The same terms are one object: few plans, many keys. */
const PLAN_TERMS = new Map<number | null, Terms>()

export function termsOf(caller: Caller): Terms {
  if (caller.kind === 'demo') return DEMO_TERMS
  if (caller.kind === 'temp') return TEMP_TERMS
  const { count: countMax } = caller.plan
  const known = PLAN_TERMS.get(countMax)
  if (known) return known
  const terms = { countMax, worksDefault: null, masked: false }
  PLAN_TERMS.set(countMax, terms)
  return terms
}

type Regular = Extract<Caller, { kind: 'regular' }>
const metersOfRegular = memoized(({ id, plan: { burst, daily } }: Regular): readonly Meter[] => {
  const window = burst && { name: 'burst', limit: burst.requests, ms: burst.seconds * SECOND_MS }
  return [{ subject: keySubject(id), window, daily }]
})

/** Everything a request of `caller` from address `ip` is held to. */
export function metersOf(caller: Caller, ip: string): readonly Meter[] {
  if (caller.kind === 'demo') {
    return [{ subject: `demo:${clientBucket(ip)}`, window: DEMO_WINDOW, daily: null }]
  }
  if (caller.kind === 'temp') {
    const subjects = [
      { name: 'key', subject: keySubject(caller.id) },
      { name: 'address', subject: `temp:${clientBucket(ip)}` },
    ]
    return subjects.map(({ name, subject }) => ({
      subject,
      window: { name, ...TEMP_WINDOW },
      daily: null,
    }))
  }
  return metersOfRegular(caller)
}

const REFUSALS: { [kind in Caller['kind']]: { window: ErrorCode; message: string } } = {
  regular: { window: 'RATE_LIMIT_EXCEEDED', message: 'too many requests' },
  demo: { window: 'DEMO_LIMIT_REACHED', message: 'the demo key allows 2 requests a minute' },
  temp: {
    window: 'TEMP_LIMIT_REACHED',
    message: 'a temporary key allows 2 requests an hour, for the key and for the address',
  },
}

/** The 429 that a refusing verdict becomes. */
export function refusalOf(caller: Caller, { refused, retryAfterSeconds }: Verdict): ApiError {
  const wait = `; retry after ${retryAfterSeconds} s`
  if (refused === 'daily' && caller.kind === 'regular') {
    const dailyLimit = caller.plan.daily ?? 0
    const message = `the plan's ${dailyLimit} requests of this day are used up${wait}`
    return new ApiError('DAILY_LIMIT_REACHED', message, { retryAfterSeconds, dailyLimit })
  }
  const { window, message } = REFUSALS[caller.kind]
  return new ApiError(window, message + wait, { retryAfterSeconds })
}

/** What an answer draws on: the networks it shows and the network that asked for it. */
export type Charge = { caller: Caller; ip: string; subnets: Iterable<number>; verdict: Verdict }

/**
 * Adds an answer's /16 networks, and the caller's network, to the day's sets, or refuses the
 * answer whole and adds nothing (contract B2, B6). Call inside `store.transaction`.
 */
export function chargeOne(store: UsageStore, charge: Charge, nowMs: number): ApiError | null {
  const { caller, ip, verdict } = charge
  if (caller.kind !== 'regular') return null
  const day = utcDay(verdict.atMs)
  const [meter] = metersOf(caller, ip)
  const subject = keySubject(caller.id)
  const sets = [
    { quota: caller.plan.subnets, what: 'served', networks: [...charge.subnets].map(String) },
    { quota: caller.plan.clients, what: 'callers', networks: [clientNetwork(ip)] },
  ].filter(({ quota }) => quota !== null)
  const states = sets.map(set => {
    const used = store.networks(`${subject}:${set.what}`, day)
    const added = new Set(set.networks.filter(network => !used.has(network)))
    return { ...set, used, added }
  })
  for (const { quota, what, used, added } of states) {
    if (quota === null || used.size + added.size <= quota) continue
    const burstWaitMs = meter ? windowWaitMs(store, meter, nowMs) : 0
    const retryAfterSeconds = wholeSeconds(Math.max((day + 1) * DAY_MS - nowMs, burstWaitMs))
    const message =
      what === 'served'
        ? `this answer needs ${added.size} more /16 subnets; ${used.size} of the ${quota} a day ` +
          'are used: narrow the filter or lower count'
        : `${used.size} of the ${quota} client networks a day are used`
    const usedSubnets = used.size
    return new ApiError('SUBNET_LIMIT_REACHED', message, { retryAfterSeconds, usedSubnets })
  }
  for (const { what, added } of states) store.addNetworks(`${subject}:${what}`, day, added)
  return null
}

const countsNetworks = (caller: Caller): boolean =>
  caller.kind === 'regular' && (caller.plan.subnets !== null || caller.plan.clients !== null)

export type Access = ReturnType<typeof createAccess>

/** Joins the judgement to a store of keys and a store of usage. */
export function createAccess(
  findKey: (key: string) => KeyRecord | null,
  usage: Pick<UsageStore, 'transaction' | 'read'>,
) {
  type Admission = { meters: readonly Meter[]; nowMs: number }
  type Charging = { charge: Charge; nowMs: number }
  const admissions = createTurnBatch((batch: readonly Admission[]) =>
    usage.transaction(store => batch.map(({ meters, nowMs }) => admitOne(store, meters, nowMs))),
  )
  const charges = createTurnBatch((batch: readonly Charging[]) =>
    usage.transaction(store => batch.map(({ charge, nowMs }) => chargeOne(store, charge, nowMs))),
  )

  return {
    /** @throws ApiError INVALID_KEY or TEMP_KEY_INVALID for a key that is not in force. */
    authenticate(key: string, nowMs: number): Caller {
      if (key === DEMO_KEY) return DEMO
      const isTemp = key.startsWith(TEMP_PREFIX)
      const found = findKey(key)
      const inForce =
        found !== null &&
        found.revokedAt === null &&
        (found.expiresAt === null || nowMs < found.expiresAt)
      if (!inForce) {
        throw isTemp
          ? new ApiError('TEMP_KEY_INVALID', 'the temporary key is expired or not active')
          : new ApiError('INVALID_KEY', 'the key is invalid or expired')
      }
      return found.caller
    },

    /** Admits a request or says when to retry; resolves once the admission is durable. */
    admit: (caller: Caller, ip: string, nowMs: number): Promise<Verdict> =>
      admissions({ meters: metersOf(caller, ip), nowMs }),

    /** Whether the networks of the caller's answers are drawn from a quota. */
    countsNetworks,

    /** Draws an answer's networks from the day's quota. @throws ApiError SUBNET_LIMIT_REACHED. */
    async charge(charge: Charge, nowMs: number): Promise<void> {
      if (!countsNetworks(charge.caller)) return
      const refusal = await charges({ charge, nowMs })
      if (refusal) throw refusal
    },

    /** How full the caller's limits are, without using them. */
    gauges: (caller: Caller, ip: string, nowMs: number): Gauge[] =>
      metersOf(caller, ip).flatMap(meter =>
        gaugesOf(meter, usage.read(meter.subject) ?? NOTHING, nowMs),
      ),
  }
}
