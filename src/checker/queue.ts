/**
 * Chooses the next address to check, and limits how fast checks start (contract H3, H4). Once a second the queue takes
 * due addresses from the store. Those within the limits get ready; it postpones the others, so that none blocks the rest.
 */
import type { Clock } from '../lib/clock.ts'
import { nextTurn } from '../lib/errors.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Address, CandidateRow } from '../proxies/proxy.ts'
import { idOf, ipBits, subnetOf } from '../proxies/row.ts'
import { LIVING_MS, newCandidate } from './candidate.ts'
import {
  type Batch,
  type CandidateStore,
  type CheckerList,
  type Postponed,
  QUEUES,
  type Queue,
} from './ports.ts'

/** The least share of the remaining checks, after the living, for addresses that were never seen alive. */
const RAW_SHARE = 1 / 4

/** The rate that keeps the living fresh and leaves a quarter for others; `null` when `rate` is enough. */
export function neededRate(living: number, rate: number): number | null {
  const least = (living * SECOND_MS) / LIVING_MS
  return least <= rate ? null : Math.ceil(least / (1 - RAW_SHARE))
}

// -----------------------------------------------------------------------------------------------
// The limits: of all checks, of an IP address, and of a /16, so that its owner does not notice the checks

const PER_IP_MAX = 2
const PER_SUBNET_MAX = 8
/** Checks that start within a second in a /16. */
const SUBNET_STARTS_MAX = 2
/** After a pause of the program, it catches up with at most this much of a second at once. */
const BURST_SHARE = 0.25
const SUBNETS = 65_536

type Counts = Map<number, number>
function addTo(counts: Counts, key: number, by: number): void {
  const count = (counts.get(key) ?? 0) + by
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}

function createLimits(perSecond: number, inFlightMax: number) {
  let credit = 0
  let inFlight = 0
  const byIp: Counts = new Map()
  const bySubnet: Counts = new Map()
  /** When the last check in a /16 started, and the one before. */
  const last = new Float64Array(SUBNETS).fill(Number.NEGATIVE_INFINITY)
  const before = last.slice()

  /** Whether the checks in flight leave no room for this address. */
  const isNetworkBusy = (id: number): boolean =>
    (bySubnet.get(subnetOf(id)) ?? 0) >= PER_SUBNET_MAX || (byIp.get(ipBits(id)) ?? 0) >= PER_IP_MAX

  return {
    isNetworkBusy,
    addCredit(ms: number): void {
      credit = Math.min(credit + (perSecond * ms) / SECOND_MS, 1 + perSecond * BURST_SHARE)
    },
    hasCapacity: (): boolean => credit >= 1 && inFlight < inFlightMax,
    mustWait: (id: number, nowMs: number): boolean =>
      nowMs - (before[subnetOf(id)] ?? 0) < SECOND_MS || isNetworkBusy(id),
    start(id: number, nowMs: number): void {
      const subnet = subnetOf(id)
      before[subnet] = last[subnet] ?? 0
      last[subnet] = nowMs
      credit -= 1
      inFlight += 1
      addTo(byIp, ipBits(id), 1)
      addTo(bySubnet, subnet, 1)
    },
    end(id: number): void {
      inFlight -= 1
      addTo(byIp, ipBits(id), -1)
      addTo(bySubnet, subnetOf(id), -1)
    },
  }
}

// -----------------------------------------------------------------------------------------------
// The queue

/** Most addresses that the queue postpones in a second, and most that wait to be saved. */
const POSTPONED_A_SECOND = 2_000
const POSTPONED_MAX = 20_000
/** The pause after a deferred check; it doubles each time, up to a limit. */
const DEFER_MS = 10 * SECOND_MS
const DOUBLINGS_MAX = 5
/** A run with `--once` gives up an address after so many deferred checks. */
const ONCE_DEFERRALS_MAX = 3
const READ_MS = MINUTE_MS

type QueueOptions = {
  store: Pick<CandidateStore, 'add' | 'due' | 'idle'>
  list: Pick<CheckerList, 'version' | 'page'>
  now: Clock
  perSecond: number
  inFlightMax: number
  /** Check only the addresses that are due at the start. */
  once: boolean
  accepts: (address: Address) => boolean
}

/** An address, and the queue that it was taken from; `idle`: it is not due yet. */
type Next = { id: number; source: Queue | 'idle' }
const SOURCES = [...QUEUES, 'idle'] as const

export function createQueue(options: QueueOptions) {
  const { store, list, now, perSecond, inFlightMax, once, accepts } = options
  const startMs = now()
  const dueMs = (): number => (once ? startMs : now())
  const limits = createLimits(perSecond, inFlightMax)
  const readyTarget = Math.ceil(perSecond)
  /** Addresses that are ready, in flight, postponed or not saved yet. The store still returns them as due. */
  const busy = new Set<number>()
  let ready: Next[] = []
  /** Ready addresses by /16. */
  const readyIn: Counts = new Map()
  /** Addresses to be saved next; with `--once`, they are tried again from here. */
  let postponed: Postponed[] = []
  const deferrals = new Map<number, number>()
  /** How many raw addresses to take before the down ones. The fraction carries over to the next second. */
  let rawShare = 0
  /** The next free time in each /16, by source: many raw addresses must not delay the living. */
  const freeMs = new Float64Array(SUBNETS * SOURCES.length)

  /** Postpones an address to the next free time of its /16, so that a large network is not due all at once. */
  function postponeInTurn({ id, source }: Next, nowMs: number): void {
    const key = subnetOf(id) * SOURCES.length + SOURCES.indexOf(source)
    const untilMs = Math.max(nowMs + SECOND_MS, freeMs[key] ?? 0)
    freeMs[key] = untilMs + SECOND_MS / SUBNET_STARTS_MAX
    postponed.push({ id, untilMs })
  }

  /** Gets an address ready, or postpones it if its network has enough checks. */
  function place(next: Next, nowMs: number): void {
    busy.add(next.id)
    const subnet = subnetOf(next.id)
    const isCrowded =
      (readyIn.get(subnet) ?? 0) >= SUBNET_STARTS_MAX || limits.isNetworkBusy(next.id)
    if (isCrowded) return postponeInTurn(next, nowMs)
    ready.push(next)
    addTo(readyIn, subnet, 1)
  }

  /** Places due addresses of a queue until `readyMax` are ready. */
  function fill(source: Queue, readyMax: number, postponedMax: number): void {
    const nowMs = now()
    const isFilled = (): boolean => ready.length >= readyMax || postponed.length >= postponedMax
    if (isFilled()) return
    store.due(source, dueMs(), id => {
      if (!busy.has(id)) place({ id, source }, nowMs)
      return !isFilled()
    })
  }

  function fillIdle(): void {
    const nowMs = now()
    const count = readyTarget - ready.length
    if (count <= 0) return
    for (const id of store.idle(nowMs, count, busy)) place({ id, source: 'idle' }, nowMs)
  }

  function takePostponed(nowMs: number): void {
    const due = postponed
      .filter(({ untilMs }) => untilMs <= nowMs)
      .slice(0, readyTarget - ready.length)
    postponed = postponed.filter(each => !due.includes(each))
    for (const { id } of due) place({ id, source: 'raw' }, nowMs)
  }

  let version: string | null = null
  let nextReadMs = Number.NEGATIVE_INFINITY

  return {
    /** Adds addresses that were never checked; returns how many are new. */
    add(rows: readonly CandidateRow[]): number {
      const nowMs = dueMs()
      return store.add(rows.filter(accepts).map(row => newCandidate(row, nowMs, false)))
    },

    /** Adds the rows of the list when it has changed; at most once a minute. */
    async readList(signal: AbortSignal): Promise<void> {
      if (now() < nextReadMs) return
      nextReadMs = Number.POSITIVE_INFINITY // while it reads
      try {
        const found = await list.version()
        let rows = found === version ? [] : await list.page(-1)
        for (let last = rows.at(-1); last !== undefined; last = rows.at(-1)) {
          store.add(rows.filter(accepts).map(row => newCandidate(row, dueMs(), true)))
          await nextTurn(signal)
          rows = await list.page(idOf(last))
        }
        version = found
      } finally {
        nextReadMs = now() + READ_MS
      }
    },
    isListRead: (): boolean => version !== null,

    addCredit: limits.addCredit,
    start: limits.start,
    end: limits.end,

    /** Gets the next addresses ready. Called once a second. */
    refill(nowMs: number): void {
      const waiting = ready
      ready = []
      readyIn.clear()
      for (const next of waiting) place(next, nowMs)
      if (once) takePostponed(nowMs)
      const postponedMax = Math.min(postponed.length + POSTPONED_A_SECOND, POSTPONED_MAX)
      fill('living', readyTarget, postponedMax)
      rawShare = (rawShare % 1) + (readyTarget - ready.length) * RAW_SHARE
      fill('raw', ready.length + Math.floor(rawShare), postponedMax)
      fill('down', readyTarget, postponedMax)
      fill('raw', readyTarget, postponedMax)
      if (!once) fillIdle()
    },

    /** Removes and returns the next address that may be checked now. */
    next(nowMs: number): number | null {
      if (!limits.hasCapacity()) return null
      const at = ready.findIndex(({ id }) => !limits.mustWait(id, nowMs))
      return at < 0 ? null : (ready.splice(at, 1)[0]?.id ?? null)
    },

    /** Saves when to repeat a check whose failure is not confirmed yet, in case the checker is killed. */
    repeatAt(id: number, untilMs: number): void {
      if (!once) postponed.push({ id, untilMs })
    },

    /** Postpones an address whose check failed because of this machine or the judge. */
    defer(id: number): void {
      const times = deferrals.get(id) ?? 0
      deferrals.set(id, times + 1)
      if (once && times >= ONCE_DEFERRALS_MAX) return
      postponed.push({ id, untilMs: now() + DEFER_MS * 2 ** Math.min(times, DOUBLINGS_MAX) })
    },

    /** Postponed addresses that must be saved. */
    postponed: (): Postponed[] => (once ? [] : postponed.slice()),

    /** A batch is saved: the store knows when its addresses are due. */
    saved(batch: Pick<Batch, 'checked' | 'forgotten' | 'postponed'>): void {
      for (const { id } of batch.postponed) busy.delete(id)
      for (const id of [...batch.checked.map(candidate => candidate.id), ...batch.forgotten]) {
        busy.delete(id)
        deferrals.delete(id)
      }
      postponed = postponed.slice(batch.postponed.length)
    },

    /** Whether no address is due, except those in flight. */
    isEmpty(): boolean {
      let isEmpty = ready.length + (once ? postponed.length : 0) === 0
      for (const queue of QUEUES) {
        if (isEmpty) store.due(queue, dueMs(), id => (isEmpty = busy.has(id)))
      }
      return isEmpty
    },
  }
}
