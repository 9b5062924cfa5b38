/**
 * What becomes of the results of checks (contract H3, H5): first the list, then the memory of the checker, in a batch
 * a second; and the counters for the status. A value that a check did not measure stays.
 */
import { SECOND_MS, toSeconds } from '../lib/time.ts'
import { type IncomingProxy, SERVICES } from '../proxies/proxy.ts'
import { idOf, toAddress } from '../proxies/row.ts'
import { afterFailure, afterSuccess, FRESH_MS, percentOf, shouldForget } from './candidate.ts'
import type {
  Batch,
  Candidate,
  CandidateStore,
  CheckerList,
  CheckerStatus,
  CheckRequest,
  CheckResult,
  Ledger,
  ListedRow,
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
export const BATCH_MAX = 500
/** The rate in the status is the average of so many seconds. */
const RATE_SECONDS = 60

function candidateAfter(
  { candidate, endedMs, at, lagMs, result }: FinishedCheck,
  random: number,
): Candidate {
  const ended = { nowMs: endedMs, at, attempts: result.attempts }
  if (result.kind === 'dead') return afterFailure(candidate, result.reason, ended, random)
  const measured = lagMs > PING_LAG_MS_MAX ? { ...result.measured, pingMs: null } : result.measured
  return afterSuccess(candidate, measured, ended, random)
}

/** The row of a living proxy; `null` when it was never measured. */
function rowOf(
  { id, works, measured }: Candidate,
  at: number,
  listed?: ListedRow,
): IncomingProxy | null {
  if (measured === null) return null
  const { type, anon, ipOut, pingMs, speed, services = {} } = measured
  const stated = SERVICES.filter(service => services[service] !== undefined)
  return {
    ...toAddress(id),
    ...{ type, anon, ipOut },
    checkedAt: toSeconds(at),
    speed: speed ?? listed?.speed ?? null,
    pingMs: pingMs ?? listed?.pingMs ?? null,
    works: percentOf(works) ?? listed?.works ?? null,
    ...{ country: '', city: '', cityEn: '' },
    services: new Set(stated.filter(service => services[service])),
    servicesStated: new Set(stated),
  }
}

/** Whether a row needs values that the list has already. */
const isIncomplete = ({ works, measured }: Candidate): boolean =>
  percentOf(works) === null || measured?.speed === undefined || measured.pingMs === null

type ResultsOptions = {
  store: Pick<CandidateStore, 'save' | 'counts' | 'freshSince' | 'lagMs'>
  list: Pick<CheckerList, 'begin' | 'find'>
  placing: (proxy: IncomingProxy) => IncomingProxy
  /** From 0 up to 1. */
  random: () => number
  perSecond: number
}

export function createResults({ store, list, placing, random, perSecond }: ResultsOptions) {
  let finished: FinishedCheck[] = []
  /** Failures that wait for the judge: a checker that is killed must not repeat them at once. */
  let awaitingConfirmation: Postponed[] = []
  /** Addresses that this run must not check, but an earlier one could. */
  let unwanted: number[] = []

  const total = { checked: 0, alive: 0, deferred: 0, bytes: 0 }
  const failures: { [reason in Reason]?: number } = {}
  /** Checks started in each of the last seconds, the latest last. */
  const starts = [0]

  /** Writes results to the list in one transaction; returns the candidates to save, and those to forget. */
  async function writeToList(checks: readonly FinishedCheck[], signal: AbortSignal) {
    if (checks.length === 0) return { checked: [], forgotten: [] }
    const after = checks.map(check => ({ ...check, candidate: candidateAfter(check, random()) }))
    const asked = after.filter(({ candidate, result, endedMs }) =>
      result.kind === 'alive' ? isIncomplete(candidate) : shouldForget(candidate, endedMs),
    )
    const found =
      asked.length === 0 ? [] : await list.find(asked.map(({ candidate }) => candidate.id))
    const listed = new Map(found.map(row => [idOf(row), row]))

    const importTx = list.begin('set')
    try {
      await importTx.lock(signal)
      for (const { candidate, result, at } of after) {
        const works = percentOf(candidate.works)
        const row = result.kind === 'alive' && rowOf(candidate, at, listed.get(candidate.id))
        if (row) importTx.add(placing(row))
        else if (works !== null) importTx.lower(toAddress(candidate.id), works)
      }
      await importTx.commit()
    } catch (error) {
      await importTx.rollback()
      throw error
    }

    const forgotten = asked.flatMap(({ candidate: { id }, result }) =>
      result.kind === 'dead' && !listed.has(id) ? [id] : [],
    )
    // A candidate in the list is not forgotten before its row is too old.
    const checked = after.map(
      ({ candidate, result }): Candidate =>
        result.kind === 'dead' && listed.has(candidate.id)
          ? { ...candidate, queue: 'down' }
          : candidate,
    )
    return { checked: checked.filter(({ id }) => !forgotten.includes(id)), forgotten }
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
    /** Saves the next check time now, so that a killed checker does not repeat the check at once. */
    postponeUnconfirmed(check: FinishedCheck): void {
      const untilMs = candidateAfter(check, 0).nextAtMs
      awaitingConfirmation.push({ id: check.candidate.id, untilMs, asItIs: false })
    },
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
      signal: AbortSignal,
    ): Promise<Batch | null> {
      const checks = finished.slice(0, Math.max(BATCH_MAX, 2 * perSecond))
      const [later, waiting, refused] = [
        postponed.slice(),
        [...awaitingConfirmation],
        [...unwanted],
      ]
      if (checks.length + later.length + waiting.length + refused.length === 0) return null
      const { checked, forgotten } = await writeToList(checks, signal)
      const batch = { checked, forgotten: [...forgotten, ...refused], ledger }
      store.save({ ...batch, postponed: [...waiting, ...later] })
      finished = finished.slice(checks.length)
      awaitingConfirmation = awaitingConfirmation.slice(waiting.length)
      unwanted = unwanted.slice(refused.length)
      for (const { result } of checks) {
        if (result.kind === 'dead') failures[result.reason] = (failures[result.reason] ?? 0) + 1
      }
      return { ...batch, postponed: later }
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
        coverage: queues.living === 0 ? null : store.freshSince(nowMs - FRESH_MS) / queues.living,
        lagSeconds: Math.round(store.lagMs(nowMs) / SECOND_MS),
        neededRate: neededRate(queues.living, perSecond),
      }
    },
  }
}
