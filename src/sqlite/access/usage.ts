/**
 * The port `UsageStore` in SQLite. `access/rate-limit.ts` and `access/network-quota.ts` decide;
 * `admission-log.ts`, `networks.ts` and `key-use.ts` store; here are the transactions.
 */
import type { Database } from 'bun:sqlite'
import { keySubject } from '../../access/entitlements.ts'
import { HISTORY_DAYS } from '../../access/history.ts'
import { consume } from '../../access/network-quota.ts'
import { DEMO_PLAN, TEMP_PLAN } from '../../access/plan.ts'
import type { UsageStore } from '../../access/ports.ts'
import { admit, refund, type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { stopwatch } from '../../lib/clock.ts'
import { DAY_MS, HOUR_MS, SECOND_MS, utcDay } from '../../lib/time.ts'
import { isBusy } from '../errors.ts'
import { createAdmissionLog, type SnapshotOptions } from './admission-log.ts'
import { createKeyUse } from './key-use.ts'
import { createNetworkTable } from './networks.ts'

const asleep = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))

/**
 * How a transaction waits for transactions of other processes. It waits for at most `msMax`, because the server
 * answers no request meanwhile; then requests fail with 503.
 */
export const LOCK_WAIT = {
  msMax: 500,
  pause: (): void => void Atomics.wait(asleep, 0, 0, 0.5),
  stopwatch,
}
type LockWait = typeof LOCK_WAIT

/**
 * Takes the write lock. SQLite's busy handler sleeps for up to 100 ms between two attempts, and so often
 * finds the lock taken beside a server that commits all the time. Short pauses find it free.
 * @throws SQLITE_BUSY when it is not free in time.
 */
export function takeLock<T>(begin: () => T, { msMax, pause, stopwatch }: LockWait): T {
  const waitedMs = stopwatch()
  for (;;) {
    try {
      return begin()
    } catch (error) {
      if (!isBusy(error) || waitedMs() >= msMax) throw error
    }
    pause()
  }
}

/** Usage is removed this long after the last admission: longer than any window. */
const KEEP_MS = 2 * DAY_MS
/** Client addresses are removed earlier, unless their plan counts for longer: there are many. */
const KEEP_ADDRESSES_MS = 2 * HOUR_MS

const SELECT_KEEP_ADDRESSES = `
  select max(iif(daily is null, ${2 * SECOND_MS} * coalesce(burst_seconds, 0), ${KEEP_MS})) as ms
  from plans where name in ('${DEMO_PLAN}', '${TEMP_PLAN}')`

/** The usage in an open database. Every method is synchronous. */
export function createUsageStore(
  db: Database,
  options: SnapshotOptions = {},
  lockWait: LockWait = LOCK_WAIT,
) {
  const log = createAdmissionLog(db, options)
  const networks = createNetworkTable(db)
  const keyUse = createKeyUse(db, id => log.read(keySubject(id))?.latestMs ?? 0)
  const tables = { ...log, ...networks }
  const selectKeepAddresses = db.prepare<{ ms: number | null }, []>(SELECT_KEEP_ADDRESSES)
  const removeProbe = db.prepare("delete from networks where subject_kind = 'probe'")
  const writeProbe = db.prepare("insert into networks values ('probe', '', '', 0, '')")
  const begin = db.prepare('begin immediate')
  const lock = (): void => void takeLock(() => begin.run(), lockWait)
  const inTransaction = <T>(work: () => T): T => log.transaction(lock, work)

  function usagesOf(batch: readonly Subject[]): Usage[] {
    log.catchUp()
    return batch.map(subject => log.read(subject) ?? UNUSED)
  }

  return {
    admit(batch) {
      const decisions = inTransaction(() => batch.map(admission => admit(tables, admission)))
      batch.forEach(({ rules }, i) => {
        const decision = decisions[i]
        if (decision?.kind === 'admitted') keyUse.count({ rules, instants: decision.instants }, 1)
      })
      return decisions
    },
    refund(batch) {
      inTransaction(() => batch.forEach(each => void refund(log.refund, each)))
      for (const refunded of batch) keyUse.count(refunded, -1)
    },
    consume: batch => inTransaction(() => batch.map(consumption => consume(tables, consumption))),
    usagesOf,
    peek: (batch, nowMs) => ({ usages: usagesOf(batch), nowMs }),
    removeNetworks: networks.removeOf,
    countNetworks: batch => batch.map(networks.count),
    prune: nowMs =>
      inTransaction(() => {
        const addressMs = Math.max(KEEP_ADDRESSES_MS, selectKeepAddresses.get()?.ms ?? 0)
        const keepMs = { key: KEEP_MS, demo: addressMs, temp: addressMs }
        const { removed, timeMs, mayRemain } = log.prune(nowMs, keepMs)
        const keys = removed.filter(({ kind }) => kind === 'key')
        keyUse.keepSeen(keys)
        keys.forEach(networks.removeOf)
        keyUse.removeBefore(utcDay(timeMs) - HISTORY_DAYS + 1)
        return mayRemain
      }),
    /** Completes the snapshot when a server ends, so that the next one starts sooner. */
    fold(): void {
      log.catchUp()
      for (const chunk of log.chunksBehind()) {
        inTransaction(() => log.saveChunk(chunk))
        lockWait.pause() // lets other processes take the lock
      }
    },
    note: keyUse.note,
    flush: () => keyUse.flush(inTransaction),
    history(ids, fromDay, toDay) {
      log.catchUp()
      return keyUse.read(ids, fromDay, toDay)
    },
    reset: ({ kind, id }, part, nowMs) =>
      inTransaction(() => {
        const known = id === null ? null : log.read({ kind, id })
        if (id !== null && known !== null) keyUse.keepSeen([{ kind, id, latestMs: known.latestMs }])
        log.append(['reset', id ?? '', nowMs, kind, part])
        if (part !== 'window' && id !== null) networks.removeOf({ kind, id })
      }),
    countKeysUsed(day: number): number {
      log.catchUp()
      return log.countKeysUsed(day)
    },
    /** Commits a write that no limit counts. */
    probe: () =>
      inTransaction(() => {
        removeProbe.run() // SQLite would not write a row that exists
        writeProbe.run()
      }),
  } satisfies UsageStore & { [method: string]: unknown }
}
