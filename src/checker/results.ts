/** Writes the results of checks, in a batch a second: first to the list, then to the candidates (contract H3, H5). */
import { toSeconds } from '../lib/time.ts'
import { type IncomingProxy, SERVICES } from '../proxies/proxy.ts'
import { toAddress } from '../proxies/row.ts'
import { afterFailure, afterSuccess, percentOf, shouldForget, typesIn } from './candidate.ts'
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

export type RunningCheck = {
  candidate: Candidate
  request: CheckRequest
  startedMs: number
  /** The longest lag of this program meanwhile. */
  lagMs: number
}
/** Instants are of the schedule's clock, but `at` is the end by the clock of the machine. */
export type FinishedCheck = RunningCheck & {
  endedMs: number
  at: number
  result: Exclude<CheckResult, { kind: 'deferred' }>
}

/** A ping is not written if the program lagged for longer during the check. */
export const PING_LAG_MS_MAX = 50
/** The program must not lag: writing so many results takes about 20 ms. */
const BATCH_MAX = 500

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
  const { anon, ipOut, pingMs, speed = null, services = {} } = measured
  const stated = SERVICES.filter(service => services[service] !== undefined)
  return {
    ...toAddress(id),
    ...{ types: typesIn(measured), anon, ipOut, pingMs, speed },
    checkedAt: toSeconds(at),
    works: percentOf(works),
    ...{ country: '', city: '', cityEn: '' },
    services: new Set(stated.filter(service => services[service])),
    servicesStated: new Set(stated),
  }
}

type ResultsOptions = {
  store: Pick<CandidateStore, 'save'>
  list: Pick<CheckerList, 'begin'>
  onWait: () => void
  placing: (proxy: IncomingProxy) => IncomingProxy
  random: () => number
  perSecond: number
}

export function createResults(options: ResultsOptions) {
  const { store, list, onWait, placing, random, perSecond } = options
  let finished: FinishedCheck[] = []
  /** Addresses that an earlier run could check, but this one must not. */
  let unwanted: number[] = []
  const failures: { [reason in Reason]?: number } = {}

  /** Writes results to the list in one transaction. The candidates are those after the checks. */
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
    /** Written failures by reason. */
    failures: failures as CheckerStatus['failures'],
    add: (check: FinishedCheck): void => void finished.push(check),
    forget: (id: number): void => void unwanted.push(id),
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
      const forgotten = new Set(refused)
      for (const { candidate, endedMs, result } of checks) {
        if (result.kind === 'alive') continue
        failures[result.reason] = (failures[result.reason] ?? 0) + 1
        if (shouldForget(candidate, endedMs)) forgotten.add(candidate.id)
      }
      const candidates = checks.map(({ candidate }) => candidate)
      const batch = {
        checked: candidates.filter(({ id }) => !forgotten.has(id)),
        ...{ forgotten: [...forgotten], postponed, ledger },
      }
      store.save(batch)
      finished = finished.slice(checks.length)
      unwanted = unwanted.slice(refused.length)
      return batch
    },
  }
}
