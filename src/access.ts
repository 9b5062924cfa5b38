/**
 * Owns who may ask how often: kinds of key, plans, and the exact windows (contract B1–B6).
 * The judgement is pure; what it needs to remember is read and written through `UsageStore`.
 */
import { createTurnBatch } from './batch.ts'
import { ApiError, type ErrorCode } from './error.ts'
import { clientBucket, clientNetwork } from './ip.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, utcDay } from './time.ts'

/** What a plan grants; `null` is unlimited. */
export type Plan = {
  name: string
  /** At most `requests` in every interval of `seconds`. */
  burst: { requests: number; seconds: number } | null
  /** Requests per UTC day. */
  daily: number | null
  /** Unique /16 networks of the proxies served per UTC day. */
  subnets: number | null
  /** Unique networks of the callers per UTC day. */
  clients: number | null
  /** Most records in one answer. */
  count: number | null
}

/** The plans every installation starts with (contract B2). */
export const BUILT_IN_PLANS: readonly Plan[] = [
  {
    name: 'standard',
    burst: { requests: 5, seconds: 5 },
    daily: 34_560,
    subnets: null,
    clients: null,
    count: null,
  },
  {
    name: 'classic',
    burst: { requests: 2, seconds: 5 },
    daily: 34_560,
    subnets: 10,
    clients: null,
    count: null,
  },
]

export const DEMO_KEY = 'demo'
export const TEMP_PREFIX = 'temp_'
export const REGULAR_PREFIX = 'pl_'

/** A key as it is stored. Times are Unix milliseconds; a temporary key has no plan. */
export type KeyRecord = {
  id: string
  plan: Plan | null
  expiresAt: number | null
  revokedAt: number | null
}

/** Who is asking, once the key has proved right. */
export type Caller =
  | { kind: 'regular'; id: string; plan: Plan }
  | { kind: 'temp'; id: string }
  | { kind: 'demo'; id: 'demo' }

/** What the kind of key does to a request (spec 8). */
export type Terms = { countMax: number | null; worksDefault: number | null; masked: boolean }

/** What one subject has used: its last admissions, oldest first, and its requests of one UTC day. */
export type Usage = { admissions: number[]; day: number; requests: number }

/** A subject (a key, or a client address) and what it is held to. */
export type Meter = {
  subject: string
  window: { name: string; limit: number; ms: number } | null
  daily: number | null
}

/** How full one limit is, for the RateLimit header fields. `resetSeconds`: until it has more. */
export type Gauge = {
  name: string
  quota: number
  windowSeconds: number
  remaining: number
  resetSeconds: number
}

export type Verdict = {
  refused: 'window' | 'daily' | null
  /** The smallest whole number of seconds after which the same request is admitted, at least 1. */
  retryAfterSeconds: number
  gauges: Gauge[]
  /** The instant the admission counts at (see B3 on clocks that step back). */
  atMs: number
}

export interface UsageStore {
  /** Runs `work` in one immediate transaction; what it wrote is durable once this returns. */
  transaction<T>(work: () => T): T
  read(subject: string): Usage | null
  write(subject: string, usage: Usage): void
  /** The networks `subject` has used on `day`. */
  networks(subject: string, day: number): ReadonlySet<string>
  addNetworks(subject: string, day: number, networks: Iterable<string>): void
}

const DEMO_WINDOW = { name: 'demo', limit: 2, ms: MINUTE_MS }
const TEMP_WINDOW = { limit: 2, ms: HOUR_MS }
const NOTHING: Usage = { admissions: [], day: 0, requests: 0 }

/** The subject that a regular or temporary key is counted under. */
export const keySubject = (id: string): string => `key:${id}`

export function termsOf(caller: Caller): Terms {
  if (caller.kind === 'demo') return { countMax: 50, worksDefault: 90, masked: true }
  if (caller.kind === 'temp') return { countMax: 30, worksDefault: null, masked: false }
  return { countMax: caller.plan.count, worksDefault: null, masked: false }
}

/** Everything a request of `caller` from address `ip` is held to. */
export function metersOf(caller: Caller, ip: string): Meter[] {
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
  const { burst, daily } = caller.plan
  const window = burst && { name: 'burst', limit: burst.requests, ms: burst.seconds * SECOND_MS }
  return [{ subject: keySubject(caller.id), window, daily }]
}

/** Whole seconds to wait for a moment that lies `ms` ahead. */
const wholeSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / SECOND_MS))

/**
 * Judges one meter. Time is the later of the clock and the last admission, so that a clock that
 * steps back never admits more; waits are counted on the clock itself (contract B3).
 */
function judge(meter: Meter, usage: Usage, nowMs: number) {
  const { window, daily } = meter
  const atMs = Math.max(nowMs, usage.admissions.at(-1) ?? nowMs)
  const counted = window
    ? usage.admissions.filter(admission => admission > atMs - window.ms).slice(-window.limit)
    : []
  const today = utcDay(atMs)
  const requests = usage.day === today ? usage.requests : 0
  const windowFull = window !== null && counted.length >= window.limit
  const dayFull = daily !== null && requests >= daily
  const windowOpensAtMs = window ? (counted[0] ?? atMs - window.ms) + window.ms : nowMs
  const midnightMs = (today + 1) * DAY_MS
  const waitMs = Math.max(
    windowFull ? windowOpensAtMs - nowMs : 0,
    dayFull ? midnightMs - nowMs : 0,
  )
  return { windowFull, dayFull, waitMs, atMs, counted, today, requests }
}

function gaugesOf({ window, daily }: Meter, usage: Usage, nowMs: number): Gauge[] {
  const { counted, requests, today } = judge({ subject: '', window, daily }, usage, nowMs)
  const gauges: Gauge[] = []
  if (window) {
    const oldest = counted[0]
    gauges.push({
      name: window.name,
      quota: window.limit,
      windowSeconds: window.ms / SECOND_MS,
      remaining: window.limit - counted.length,
      resetSeconds: oldest === undefined ? 0 : wholeSeconds(oldest + window.ms - nowMs),
    })
  }
  if (daily !== null) {
    gauges.push({
      name: 'daily',
      quota: daily,
      windowSeconds: DAY_MS / SECOND_MS,
      remaining: Math.max(0, daily - requests),
      resetSeconds: wholeSeconds((today + 1) * DAY_MS - nowMs),
    })
  }
  return gauges
}

/**
 * Judges a request against all its meters and, when every one admits it, records it in all
 * (all or nothing). Call inside `store.transaction`.
 */
export function admitOne(store: UsageStore, meters: readonly Meter[], nowMs: number): Verdict {
  const states = meters.map(meter => {
    const usage = store.read(meter.subject) ?? NOTHING
    return { meter, usage, ...judge(meter, usage, nowMs) }
  })
  const refused = states.some(({ windowFull }) => windowFull)
    ? 'window'
    : states.some(({ dayFull }) => dayFull)
      ? 'daily'
      : null
  const after = states.map(state => (refused ? state.usage : record(state)))
  if (!refused) {
    for (const [i, { meter }] of states.entries()) store.write(meter.subject, after[i] ?? NOTHING)
  }
  return {
    refused,
    retryAfterSeconds: wholeSeconds(Math.max(...states.map(({ waitMs }) => waitMs))),
    gauges: states.flatMap(({ meter }, i) => gaugesOf(meter, after[i] ?? NOTHING, nowMs)),
    atMs: Math.max(...states.map(({ atMs }) => atMs)),
  }
}

/** A usage after one more admission: the log keeps no more than the window can ask for. */
function record(state: { meter: Meter; usage: Usage } & ReturnType<typeof judge>): Usage {
  const keep = state.meter.window?.limit ?? 1
  return {
    admissions: [...state.usage.admissions, state.atMs].slice(-keep),
    day: state.today,
    requests: state.requests + 1,
  }
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
    const waitMs = Math.max((day + 1) * DAY_MS - nowMs, burstWaitMs(store, caller, ip, nowMs))
    const retryAfterSeconds = wholeSeconds(waitMs)
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

/** How long the burst window alone would still refuse the caller. */
function burstWaitMs(store: UsageStore, caller: Caller, ip: string, nowMs: number): number {
  const waits = metersOf(caller, ip).map(
    meter => judge({ ...meter, daily: null }, store.read(meter.subject) ?? NOTHING, nowMs).waitMs,
  )
  return Math.max(0, ...waits)
}

export type Access = ReturnType<typeof createAccess>

/** Joins the judgement to a store of keys and a store of usage. */
export function createAccess(findKey: (key: string) => KeyRecord | null, store: UsageStore) {
  type Admission = { meters: Meter[]; nowMs: number }
  type Charging = { charge: Charge; nowMs: number }
  const admissions = createTurnBatch((batch: readonly Admission[]) =>
    store.transaction(() => batch.map(({ meters, nowMs }) => admitOne(store, meters, nowMs))),
  )
  const charges = createTurnBatch((batch: readonly Charging[]) =>
    store.transaction(() => batch.map(({ charge, nowMs }) => chargeOne(store, charge, nowMs))),
  )

  return {
    /** @throws ApiError INVALID_KEY or TEMP_KEY_INVALID for a key that is not in force. */
    authenticate(key: string, nowMs: number): Caller {
      if (key === DEMO_KEY) return { kind: 'demo', id: 'demo' }
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
      return found.plan
        ? { kind: 'regular', id: found.id, plan: found.plan }
        : { kind: 'temp', id: found.id }
    },

    /** Admits a request or says when to retry; resolves once the admission is durable. */
    admit: (caller: Caller, ip: string, nowMs: number): Promise<Verdict> =>
      admissions({ meters: metersOf(caller, ip), nowMs }),

    /** Draws an answer's networks from the day's quota. @throws ApiError SUBNET_LIMIT_REACHED. */
    async charge(charge: Charge, nowMs: number): Promise<void> {
      const { caller } = charge
      if (caller.kind !== 'regular') return
      if (caller.plan.subnets === null && caller.plan.clients === null) return
      const refusal = await charges({ charge, nowMs })
      if (refusal) throw refusal
    },

    /** How full the caller's limits are, without using them. */
    gauges: (caller: Caller, ip: string, nowMs: number): Gauge[] =>
      metersOf(caller, ip).flatMap(meter =>
        gaugesOf(meter, store.read(meter.subject) ?? NOTHING, nowMs),
      ),
  }
}
