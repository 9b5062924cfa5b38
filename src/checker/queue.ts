/**
 * The addresses that come next: once a second the store is asked who is due, and who may begin without more
 * checks in a network than it should notice gets ready. Who may not comes later, so that it is in nobody's way.
 * No address that is in memory here is taken again.
 */
import { SECOND_MS } from '../lib/time.ts'
import { subnetOf } from '../proxies/row.ts'
import { BEGUN_MAX, createCounts, type createPace, createSlots } from './pace.ts'
import type { Batch, CandidateStore, Postponed } from './ports.ts'
import { createOrder, type Next } from './schedule.ts'

/** How often in a second, and how many addresses at most, to look behind those that must come later. */
const LOOKS = 4
const LOOK_MAX = 2_000
/** An address whose check was put off comes again after this, and after twice as long each time, up to a limit. */
const PUT_OFF_MS = 10 * SECOND_MS
const DOUBLED_MAX = 5

/** So many at most that come later are in memory: until they are stored, or, in a run that ends by itself, all. */
const HELD_MAX = 20_000
/** In such a run, an address is not tried again when its check was put off so often. */
const PUT_OFF_TIMES = 5

export function createLine(
  store: Pick<CandidateStore, 'due' | 'idle'>,
  pace: Pick<ReturnType<typeof createPace>, 'isFull' | 'isHeld'>,
  perSecond: number,
  /** Of a run that ends by itself: its addresses are those that were due then. */
  onceMs: number | null,
) {
  const order = createOrder(store)
  const slots = createSlots()
  const room = Math.ceil(perSecond)
  const busy = new Set<number>()
  let ready: Next[] = []
  /** Those that come later: they are to be stored, or, in a run that ends by itself, stay here. */
  let later: (Next & Postponed)[] = []
  const timesPutOff = new Map<number, number>()

  const postpone = (next: Next, untilMs: number): void =>
    void later.push({ ...next, untilMs, asItIs: next.line === 'idle' })

  /** Who is due, then who may come early; `count` at most. */
  const look = (nowMs: number, count: number): Next[] =>
    order(onceMs ?? nowMs, count, busy, onceMs === null)

  /** Gets these ready as far as there is room; of a network, no more than may begin in a second. */
  function place(found: readonly Next[], nowMs: number): void {
    const inSubnet = createCounts()
    for (const { id } of ready) inSubnet.add(subnetOf(id), 1)
    for (const next of found) {
      if (ready.length >= room) return
      busy.add(next.id)
      const subnet = subnetOf(next.id)
      const isFree = inSubnet.of(subnet) < BEGUN_MAX && !pace.isFull(next.id)
      if (isFree) ready.push(next)
      else postpone(next, slots.take(next, nowMs + SECOND_MS))
      if (isFree) inSubnet.add(subnet, 1)
    }
  }

  /** Those that caps hold after a second make room. */
  function makeRoom(nowMs: number): void {
    const stuck = ready.filter(({ id }) => pace.isHeld(id, nowMs))
    ready = ready.filter(next => !stuck.includes(next))
    for (const next of stuck) postpone(next, slots.take(next, nowMs + SECOND_MS))
  }

  /** In a run that ends by itself, those whose time has come. */
  function recall(nowMs: number): void {
    const due = later.filter(({ untilMs }) => untilMs <= nowMs).slice(0, room - ready.length)
    later = later.filter(next => !due.includes(next))
    place(due, nowMs)
  }

  return {
    /** To be called once a second. */
    refill(nowMs: number): void {
      makeRoom(nowMs)
      if (onceMs !== null) recall(nowMs)
      let count = room - ready.length
      for (let n = 0; n < LOOKS && ready.length < room && later.length < HELD_MAX; n += 1) {
        const found = look(nowMs, count)
        place(found, nowMs)
        if (found.length < count) return
        count = Math.min(count * 4, LOOK_MAX)
      }
    },

    next(nowMs: number): number | null {
      const at = ready.findIndex(({ id }) => !pace.isHeld(id, nowMs))
      return at < 0 ? null : (ready.splice(at, 1)[0]?.id ?? null)
    },

    /** The check of an address has said nothing. */
    putOff(id: number, nowMs: number): void {
      const times = (timesPutOff.get(id) ?? 0) + 1
      timesPutOff.set(id, times)
      const doubled = onceMs === null ? Math.min(times - 1, DOUBLED_MAX) : 0
      if (onceMs !== null && times > PUT_OFF_TIMES) return
      postpone({ id, line: 'raw' }, nowMs + PUT_OFF_MS * 2 ** doubled)
    },

    /** Those that come later, and are to be stored. */
    postponed: (): readonly Postponed[] => (onceMs === null ? later : []),

    /** These are stored: they may be taken again. */
    stored({ checked, forgotten, postponed }: Omit<Batch, 'ledger'>): void {
      for (const { id } of [...checked, ...postponed]) busy.delete(id)
      for (const { id } of checked) timesPutOff.delete(id)
      for (const id of forgotten) busy.delete(id)
      later = later.slice(postponed.length)
    },

    /** Whether nobody is due who is not under way. */
    isEmpty: (nowMs: number): boolean =>
      ready.length + (onceMs === null ? 0 : later.length) === 0 && look(nowMs, 1).length === 0,
  }
}
