/**
 * What the results of checks change (contract H3): rows of the list, and what is remembered. What a check did
 * not measure stays as it is remembered, or else as the list has it.
 */
import { toSeconds } from '../lib/time.ts'
import { type IncomingProxy, SERVICES } from '../proxies/proxy.ts'
import { idOf, toAddress } from '../proxies/row.ts'
import type {
  Batch,
  Candidate,
  CheckerList,
  CheckRequest,
  CheckResult,
  ListedRow,
} from './ports.ts'
import { afterFailure, afterSuccess, percentOf, shouldForget } from './schedule.ts'

/** A check that has ended. Instants are of the schedule's clock. */
export type Done = {
  candidate: Candidate
  request: CheckRequest
  beganMs: number
  endedMs: number
  /** When it ended, by the clock of the machine. */
  at: number
  /** How long the program lagged meanwhile, at most. */
  lagMs: number
  result: Exclude<CheckResult, { kind: 'deferred' }>
}

/** A ping that was taken while the program lagged for longer is not written. */
export const PING_LAG_MS_MAX = 50

/** What is remembered of an address after a check. */
export function remembered(
  { candidate, endedMs, at, lagMs, result }: Done,
  random: number,
): Candidate {
  const ended = { nowMs: endedMs, at, attempts: result.attempts }
  if (result.kind === 'dead') return afterFailure(candidate, result.reason, ended, random)
  const measured = lagMs > PING_LAG_MS_MAX ? { ...result.measured, pingMs: null } : result.measured
  return afterSuccess(candidate, measured, ended, random)
}

/** The row of a living proxy; `null` unless it is one. */
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

/** Whether something is to be taken over from its row. */
const isIncomplete = ({ works, measured }: Candidate): boolean =>
  percentOf(works) === null || measured?.speed === undefined || measured.pingMs === null

export function createWriter(
  list: Pick<CheckerList, 'begin' | 'find'>,
  placing: (proxy: IncomingProxy) => IncomingProxy,
  random: () => number,
) {
  /**
   * Writes results to the list in one transaction; returns what is to be remembered. @throws `StoreError` when
   * the list cannot be written, or the reason of `signal`: then nothing has changed.
   */
  return async function write(
    done: readonly Done[],
    signal: AbortSignal,
  ): Promise<Pick<Batch, 'checked' | 'forgotten'>> {
    if (done.length === 0) return { checked: [], forgotten: [] }
    const after = done.map(check => ({ ...check, candidate: remembered(check, random()) }))
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
    // A row stays in the list until it is too old, and is not forgotten before.
    const checked = after.map(
      ({ candidate, result }): Candidate =>
        result.kind === 'dead' && listed.has(candidate.id)
          ? { ...candidate, queue: 'down' }
          : candidate,
    )
    return { checked: checked.filter(({ id }) => !forgotten.includes(id)), forgotten }
  }
}
