/**
 * What is checked next, and how fast (contract H3, H4). Once a second the queue takes the addresses that are due from
 * the store. Those within the limits get ready; the queue postpones the others, so that they don't block the rest.
 */
import type { CandidateRow } from '../feeds/candidates.ts'
import type { Clock } from '../lib/clock.ts'
import { nextTurn } from '../lib/errors.ts'
import { MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Address } from '../proxies/proxy.ts'
import { idOf, ipBits, subnetOf } from '../proxies/row.ts'
import { LIVING_MS, listedCandidate, newCandidate } from './candidate.ts'
import {
  type Batch,
  type Candidate,
  type CandidateStore,
  type CheckerList,
  type Postponed,
  QUEUES,
  type Queue,
} from './ports.ts'

// -----------------------------------------------------------------------------------------------
// The order

/** Of the checks that the living leave, at least this share goes to addresses that were never seen alive. */
const RAW_SHARE = 1 / 4

/** An address, and the queue that it is taken from; `idle`: it is not due yet. */
export type Next = { id: number; source: Queue | 'idle' }

/** Returns a function that finds the next addresses: see `CandidateStore` for its arguments. */
export function createOrder(store: Pick<CandidateStore, 'due' | 'idle'>) {
  let rawShare = 0 // a fraction of an address is carried over to the next call
  return function next(
    nowMs: number,
    count: number,
    excluded: ReadonlySet<number>,
    withIdle: boolean,
  ): Next[] {
    const due = (source: Queue, most: number): Next[] =>
      store.due(source, nowMs, most, excluded).map(id => ({ id, source }))
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
    return [...next, ...idle.map(id => ({ id, source: 'idle' as const }))]
  }
}

/** The rate that keeps the living fresh and leaves a quarter for others; `null` when `rate` is enough. */
export function neededRate(living: number, rate: number): number | null {
  const least = (living * SECOND_MS) / LIVING_MS
  return least <= rate ? null : Math.ceil(least / (1 - RAW_SHARE))
}

// -----------------------------------------------------------------------------------------------
// The limits: in all, at an address, and in a /16, whose owner should not notice the checks

const PER_ADDRESS_MAX = 2
const PER_SUBNET_MAX = 8
/** Checks that start within a second in a /16. */
const SUBNET_STARTS_MAX = 2
const SLOT_MS = SECOND_MS / SUBNET_STARTS_MAX
/** After a pause of the program, it catches up with at most this much of a second at once. */
const BURST_SHARE = 0.25
/** The number of /16 networks. */
const SUBNETS = 65_536

function createCounts() {
  const counts = new Map<number, number>()
  return {
    of: (key: number): number => counts.get(key) ?? 0,
    add(key: number, by: number): void {
      const count = (counts.get(key) ?? 0) + by
      if (count === 0) counts.delete(key)
      else counts.set(key, count)
    },
  }
}

const SOURCES = [...QUEUES, 'idle'] as const

/** Gives each address of a /16 its own time. A large network takes hours, and must not be due all at once. */
export function createSlots() {
  const free = new Float64Array(SUBNETS * SOURCES.length)
  return {
    /** The next free time for an address, `fromMs` or later. */
    take({ id, source }: Next, fromMs: number): number {
      const key = subnetOf(id) * SOURCES.length + SOURCES.indexOf(source)
      const atMs = Math.max(fromMs, free[key] ?? 0)
      free[key] = atMs + SLOT_MS
      return atMs
    },
  }
}

function createLimits(perSecond: number, inFlightMax: number) {
  let credit = 0
  let inFlight = 0
  const addresses = createCounts()
  const subnets = createCounts()
  /** When the last check in a /16 started, and the one before. */
  const last = new Float64Array(SUBNETS).fill(Number.NEGATIVE_INFINITY)
  const before = last.slice()

  /** Whether the checks in flight leave no room for this address. */
  const isFull = (id: number): boolean =>
    subnets.of(subnetOf(id)) >= PER_SUBNET_MAX || addresses.of(ipBits(id)) >= PER_ADDRESS_MAX

  return {
    isFull,
    pass(ms: number): void {
      credit = Math.min(credit + (perSecond * ms) / SECOND_MS, 1 + perSecond * BURST_SHARE)
    },
    isOpen: (): boolean => credit >= 1 && inFlight < inFlightMax,
    /** Whether this address must wait. */
    isHeld: (id: number, nowMs: number): boolean =>
      nowMs - (before[subnetOf(id)] ?? 0) < SECOND_MS || isFull(id),
    start(id: number, nowMs: number): void {
      const subnet = subnetOf(id)
      before[subnet] = last[subnet] ?? 0
      last[subnet] = nowMs
      credit -= 1
      inFlight += 1
      addresses.add(ipBits(id), 1)
      subnets.add(subnet, 1)
    },
    end(id: number): void {
      inFlight -= 1
      addresses.add(ipBits(id), -1)
      subnets.add(subnetOf(id), -1)
    },
  }
}

// -----------------------------------------------------------------------------------------------
// The queue

/** How often in a second, and for how many addresses, the queue looks past those that it must postpone. */
const LOOKS = 4
const LOOK_MAX = 2_000
/** The pause after a deferred check; it doubles each time, up to a limit. */
const DEFER_MS = 10 * SECOND_MS
const DOUBLINGS_MAX = 5
/** A run with `--once` gives up an address after so many deferred checks. */
const ONCE_DEFERRALS_MAX = 3
/** Most postponed addresses in memory. */
const POSTPONED_MAX = 20_000
/** How often the list is read again, if it has changed. */
const READ_MS = MINUTE_MS

type QueueOptions = {
  store: Pick<CandidateStore, 'add' | 'due' | 'idle'>
  list: Pick<CheckerList, 'version' | 'page'>
  /** The schedule's clock. */
  now: Clock
  perSecond: number
  inFlightMax: number
  /** Only check the addresses that are due at the start. */
  once: boolean
  accepts: (address: Address) => boolean
}

export function createQueue(options: QueueOptions) {
  const { store, list, now, perSecond, inFlightMax, once, accepts } = options
  const startMs = now()
  const limits = createLimits(perSecond, inFlightMax)
  const order = createOrder(store)
  const slots = createSlots()
  const room = Math.ceil(perSecond)
  /** Addresses in memory: ready, in flight, postponed or not saved yet. The store must not return them. */
  const busy = new Set<number>()
  let ready: Next[] = []
  /** To be saved; with `--once` they stay here until their time comes. */
  let postponed: (Next & Postponed)[] = []
  const deferrals = new Map<number, number>()

  const postpone = (next: Next, untilMs: number): void =>
    void postponed.push({ ...next, untilMs, asItIs: next.source === 'idle' })

  const find = (nowMs: number, count: number): Next[] =>
    order(once ? startMs : nowMs, count, busy, !once)

  /** Gets addresses ready while there is room, and postpones those that exceed a limit. */
  function place(found: readonly Next[], nowMs: number): void {
    const inSubnet = createCounts()
    for (const { id } of ready) inSubnet.add(subnetOf(id), 1)
    for (const next of found) {
      if (ready.length >= room) return
      busy.add(next.id)
      const subnet = subnetOf(next.id)
      if (inSubnet.of(subnet) < SUBNET_STARTS_MAX && !limits.isFull(next.id)) {
        ready.push(next)
        inSubnet.add(subnet, 1)
      } else postpone(next, slots.take(next, nowMs + SECOND_MS))
    }
  }

  /** Postpones ready addresses that are still held after a second. */
  function postponeHeld(nowMs: number): void {
    const held = ready.filter(({ id }) => limits.isHeld(id, nowMs))
    ready = ready.filter(next => !held.includes(next))
    for (const next of held) postpone(next, slots.take(next, nowMs + SECOND_MS))
  }

  /** With `--once`: takes postponed addresses back when their time has come. */
  function recall(nowMs: number): void {
    const due = postponed.filter(({ untilMs }) => untilMs <= nowMs).slice(0, room - ready.length)
    postponed = postponed.filter(next => !due.includes(next))
    place(due, nowMs)
  }

  // Candidates come from files, feeds and the list.

  function addCandidates(candidates: readonly Candidate[], nowMs: number): number {
    return store.add(
      candidates.map(candidate => {
        if (candidate.nextAtMs > nowMs) return candidate
        const next = { id: candidate.id, source: candidate.queue }
        const nextAtMs = once ? startMs : slots.take(next, nowMs)
        return { ...candidate, nextAtMs, idleAtMs: nextAtMs }
      }),
    )
  }

  let version: string | null = null
  let isReading = false
  let nextReadMs = Number.NEGATIVE_INFINITY

  return {
    /** Adds addresses that were never checked; returns how many are new. */
    add(rows: readonly CandidateRow[]): number {
      const nowMs = now()
      const raw = rows.filter(accepts).map(row => {
        const times = { nextAtMs: nowMs, okAtMs: null, checkedMs: row.checkedAt * SECOND_MS }
        const { type: hint, works } = row
        return newCandidate({ id: idOf(row), hint, queue: 'raw', works, ...times }, nowMs)
      })
      return addCandidates(raw, nowMs)
    },

    /** Adds the rows of the list when it has changed; at most once a minute. */
    async readList(signal: AbortSignal): Promise<void> {
      if (isReading || now() < nextReadMs) return
      isReading = true
      nextReadMs = now() + READ_MS
      try {
        const found = await list.version()
        let rows = found === version ? [] : await list.page(-1)
        while (rows.length > 0) {
          const nowMs = now()
          const candidates = rows.filter(accepts)
          addCandidates(
            candidates.map(row => listedCandidate(row, nowMs)),
            nowMs,
          )
          await nextTurn(signal)
          const last = rows.at(-1)
          rows = last === undefined ? [] : await list.page(idOf(last))
        }
        version = found
      } finally {
        isReading = false
      }
    },
    isListRead: (): boolean => version !== null,

    /** Time passes: more checks may start. */
    pass: limits.pass,
    start: limits.start,
    end: limits.end,

    /** Gets the next addresses ready. Called once a second. */
    refill(nowMs: number): void {
      postponeHeld(nowMs)
      if (once) recall(nowMs)
      let count = room - ready.length
      for (
        let n = 0;
        n < LOOKS && ready.length < room && postponed.length < POSTPONED_MAX;
        n += 1
      ) {
        const found = find(nowMs, count)
        place(found, nowMs)
        if (found.length < count) return
        count = Math.min(count * 4, LOOK_MAX)
      }
    },

    /** Removes and returns the next address that may be checked now. */
    next(nowMs: number): number | null {
      if (!limits.isOpen()) return null
      const at = ready.findIndex(({ id }) => !limits.isHeld(id, nowMs))
      return at < 0 ? null : (ready.splice(at, 1)[0]?.id ?? null)
    },

    /** Postpones an address whose check said nothing about it. */
    defer(id: number): void {
      const times = deferrals.get(id) ?? 0
      deferrals.set(id, times + 1)
      if (once && times >= ONCE_DEFERRALS_MAX) return
      const pauseMs = DEFER_MS * 2 ** Math.min(times, DOUBLINGS_MAX)
      postpone({ id, source: 'raw' }, now() + pauseMs)
    },

    /** Postponed addresses that must be saved. */
    postponed: (): readonly Postponed[] => (once ? [] : postponed),

    /** A batch is saved: the store may return its addresses again. */
    saved(batch: Pick<Batch, 'checked' | 'forgotten' | 'postponed'>): void {
      for (const { id } of [...batch.checked, ...batch.postponed]) busy.delete(id)
      for (const { id } of batch.checked) deferrals.delete(id)
      for (const id of batch.forgotten) busy.delete(id)
      postponed = postponed.slice(batch.postponed.length)
    },

    /** Whether no address is due, except those in flight. */
    isEmpty: (nowMs: number): boolean =>
      ready.length + (once ? postponed.length : 0) === 0 && find(nowMs, 1).length === 0,
  }
}
