/** Where candidates come from: files, and the list, which is read again for rows that others wrote (contract H1). */
import type { CandidateRow } from '../feeds/candidates.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../lib/time.ts'
import type { Address } from '../proxies/proxy.ts'
import { idOf } from '../proxies/row.ts'
import { createSlots } from './pace.ts'
import type { Candidate, CandidateStore, CheckerList, ListedRow } from './ports.ts'
import { listedCandidate, newCandidate } from './schedule.ts'

/** The list is read again so often, if it has changed. */
const READ_MS = MINUTE_MS
/** All addresses of a run that ends by itself are due since long ago. */
const LONG_AGO_MS = 366 * DAY_MS

export type Times = {
  now: () => number
  /** An instant of the clock of the machine, as one of the schedule's clock. */
  toOurs: (ms: number) => number
}

export function createIntake(
  store: Pick<CandidateStore, 'add'>,
  list: Pick<CheckerList, 'version' | 'page'>,
  { now, toOurs }: Times,
  once: boolean,
  accepts: (address: Address) => boolean,
) {
  const slots = createSlots()
  let version: string | null = null
  /** Where the reading of the list is; `null` when it is over. */
  let afterId: number | null = null
  let isBusy = false
  let nextReadMs = Number.NEGATIVE_INFINITY
  let hasRead = false

  /** Adds those that are new; who is due gets a place in the line of its network. */
  function add(candidates: readonly Candidate[], nowMs: number): number {
    const fromMs = once ? nowMs - LONG_AGO_MS : nowMs
    return store.add(
      candidates.map(candidate => {
        if (candidate.nextAtMs > nowMs) return candidate
        const nextAtMs = slots.take({ id: candidate.id, line: candidate.queue }, fromMs)
        return { ...candidate, nextAtMs, idleAtMs: nextAtMs }
      }),
    )
  }

  /** Where to go on reading; `null` when the list is as it was read. */
  async function begin(nowMs: number): Promise<number | null> {
    nextReadMs = nowMs + READ_MS
    const found = await list.version()
    if (found === version) return null
    version = found
    return -1
  }

  return {
    /** Adds addresses that were never checked; returns how many were not known. */
    add(known: readonly CandidateRow[]): number {
      const nowMs = now()
      const raw = known.filter(accepts).map(({ type: hint, works, checkedAt, ...address }) => {
        const times = { nextAtMs: nowMs, okAtMs: null, checkedMs: toOurs(checkedAt * SECOND_MS) }
        return newCandidate({ id: idOf(address), hint, queue: 'raw', works, ...times }, nowMs)
      })
      return add(raw, nowMs)
    },

    /** Reads the next page of the list, if it is time to. */
    async read(): Promise<void> {
      const nowMs = now()
      if (isBusy || (afterId === null && nowMs < nextReadMs)) return
      isBusy = true
      try {
        afterId ??= await begin(nowMs)
        const rows = afterId === null ? [] : await list.page(afterId)
        const ageOf = ({ checkedAt }: ListedRow): number => nowMs - toOurs(checkedAt * SECOND_MS)
        add(
          rows.filter(accepts).map(row => listedCandidate(row, ageOf(row), nowMs)),
          nowMs,
        )
        const last = rows.at(-1)
        afterId = last === undefined ? null : idOf(last)
        hasRead ||= afterId === null
      } catch (error) {
        version = null
        afterId = null
        throw error
      } finally {
        isBusy = false
      }
    },

    /** Whether the list was read to its end. */
    hasRead: (): boolean => hasRead,
  }
}
