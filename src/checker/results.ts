/**
 * Writes the results of checks, in a batch a second: first to the list, then to the memory of the checker (contract H3,
 * H5). Counts checks for the status.
 */
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import { RECENT_MS } from '../proxies/freshness.ts'
import { type IncomingProxy, SERVICES } from '../proxies/proxy.ts'
import { toAddress } from '../proxies/row.ts'
import { afterFailure, afterSuccess, percentOf, shouldForget } from './candidate.ts'
import type {
  Batch,
  Candidate,
  CandidateStore,
  CheckerList,
  CheckerStatus,
  CheckRequest,
  CheckResult,
  Ledger,
  Measured,
  Postponed,
  Reason,
} from './ports.ts'
import { neededRate } from './queue.ts'

/** A check that has ended. Instants are of the schedule's clock. */
export type FinishedCheck = {
  candidate: Candidate
  request: CheckRequest
  startedMs: number
  endedMs: number
  /** When it ended, by the clock of the machine. */
  at: number
  /** The longest lag of the program meanwhile. */
  lagMs: number
  result: Exclude<CheckResult, { kind: 'deferred' }>
}

/** A ping measured while the program lagged for longer is not written. */
export const PING_LAG_MS_MAX = 50
/** Writing so many results takes some 20 ms; the program must not lag. */
const BATCH_MAX = 500
/** The rate in the status is the average of so many seconds. */
const RATE_SECONDS = 60

/** The candidate after a check; `random` is from 0 up to 1. */
export function candidateAfter(
  { candidate, endedMs, at, lagMs, result }: FinishedCheck,
  random: number,
): Candidate {
  const ended = { nowMs: endedMs, at, attempts: result.attempts }
  if (result.kind === 'dead') return afterFailure(candidate, result.reason, ended, random)
  const measured = lagMs > PING_LAG_MS_MAX ? { ...result.measured, pingMs: null } : result.measured
  return afterSuccess(candidate, measured, ended, random)
}

/** The row of a living proxy. The list keeps its values where these are unknown. */
function rowOf({ id, works }: Candidate, measured: Measured, at: number): IncomingProxy {
  const { type, anon, ipOut, pingMs, speed = null, services = {} } = measured
  const stated = SERVICES.filter(service => services[service] !== undefined)
  return {
    ...toAddress(id),
    ...{ type, anon, ipOut, pingMs, speed },
    checkedAt: toSeconds(at),
    works: percentOf(works),
    ...{ country: '', city: '', cityEn: '' },
    services: new Set(stated.filter(service => services[service])),
    servicesStated: new Set(stated),
  }
}

type ResultsOptions = {
  store: Pick<CandidateStore, 'save' | 'counts' | 'freshSince' | 'lagMs'>
  list: Pick<CheckerList, 'begin'>
  /** Called when an import has locked the list. */
  onWait: () => void
  placing: (proxy: IncomingProxy) => IncomingProxy
  /** From 0 up to 1. */
  random: () => number
  perSecond: number
}

export function createResults(options: ResultsOptions) {
  const { store, list, onWait, placing, random, perSecond } = options
  let finished: FinishedCheck[] = []
  /** Addresses that this run must not check, but an earlier one could. */
  let unwanted: number[] = []

  const total = { checked: 0, alive: 0, deferred: 0, bytes: 0 }
  const failures: { [reason in Reason]?: number } = {}
  /** Checks started in each of the last seconds, the latest last. */
  const starts = [0]

  /** Writes results to the list in one transaction; `checks` have their candidates as they are afterwards. */
  async function writeToList(checks: readonly FinishedCheck[], signal?: AbortSignal) {
    const importTx = list.begin('set', onWait)
    try {
      await importTx.lock(signal)
      for (const { candidate, result, at } of checks) {
        const works = percentOf(candidate.works)
        const measured = result.kind === 'alive' ? candidate.measured : null
        if (measured !== null) importTx.add(placing(rowOf(candidate, measured, at)))
        else if (works !== null) importTx.lower(toAddress(candidate.id), works)
      }
      await importTx.commit()
    } catch (error) {
      await importTx.rollback()
      throw error
    }
  }

  return {
    started(): void {
      total.checked += 1
      starts[starts.length - 1] = (starts.at(-1) ?? 0) + 1
    },
    ended({ kind, bytes }: CheckResult): void {
      total.bytes += bytes
      if (kind === 'alive') total.alive += 1
    },
    deferred(): void {
      total.deferred += 1
    },
    /** A second is over. */
    nextSecond(): void {
      if (starts.push(0) > RATE_SECONDS + 1) starts.shift()
    },

    /** Adds results that count. */
    add: (...checks: FinishedCheck[]): void => void finished.push(...checks),
    forget: (id: number): void => void unwanted.push(id),
    /** How many results are to be written. */
    waiting: (): number => finished.length + unwanted.length,

    /**
     * Writes results. Returns the saved batch, or `null` when there was nothing to save. @throws `StoreError`, or
     * the reason of `signal`. The results then stay for the next call, which may write rows to the list again.
     */
    async write(
      postponed: readonly Postponed[],
      ledger: Ledger,
      signal?: AbortSignal,
    ): Promise<Batch | null> {
      const checks = finished
        .slice(0, Math.max(BATCH_MAX, 2 * perSecond))
        .map(check => ({ ...check, candidate: candidateAfter(check, random()) }))
      const refused = [...unwanted]
      if (checks.length + postponed.length + refused.length === 0) return null
      if (checks.length > 0) await writeToList(checks, signal)
      const isForgotten = ({ candidate, endedMs, result }: FinishedCheck): boolean =>
        result.kind === 'dead' && shouldForget(candidate, endedMs)
      const [kept, forgotten] = [
        checks.filter(check => !isForgotten(check)),
        checks.filter(isForgotten),
      ]
      const batch = {
        checked: kept.map(({ candidate }) => candidate),
        forgotten: [...forgotten.map(({ candidate }) => candidate.id), ...refused],
        postponed,
        ledger,
      }
      store.save(batch)
      finished = finished.slice(checks.length)
      unwanted = unwanted.slice(refused.length)
      for (const { result } of checks) {
        if (result.kind === 'dead') failures[result.reason] = (failures[result.reason] ?? 0) + 1
      }
      return batch
    },

    status(
      nowMs: number,
      rest: Pick<CheckerStatus, 'at' | 'startedMs' | 'once' | 'judgeProblem'>,
    ): CheckerStatus {
      const queues = store.counts()
      const whole = starts.slice(0, -1)
      const sum = whole.reduce((before, count) => before + count, 0)
      return {
        ...rest,
        queues,
        ...total,
        failures: { ...failures },
        rate: whole.length === 0 ? 0 : Math.round((100 * sum) / whole.length) / 100,
        coverage: queues.living === 0 ? null : store.freshSince(nowMs - RECENT_MS) / queues.living,
        lagSeconds: Math.round(store.lagMs(nowMs) / SECOND_MS),
        neededRate: neededRate(queues.living, perSecond),
      }
    },
  }
}
