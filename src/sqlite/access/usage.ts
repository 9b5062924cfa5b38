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
import { admit, giveBack, type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { stopwatch } from '../../lib/clock.ts'
import { SECOND_MS, utcDay } from '../../lib/time.ts'
import { isBusy } from '../errors.ts'
import { createAdmissionLog, type SnapshotOptions } from './admission-log.ts'
import { createKeyUse } from './key-use.ts'
import { createNetworkTable } from './networks.ts'
import { KEEP_ADDRESSES_MS, KEEP_MS, type KeepMs } from './subjects.ts'

const asleep = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))

/**
 * How a transaction waits for those of other processes. It waits for at most `msMax`, because the server
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

/** Chunks that `fold` writes at a time, because requests to other servers wait. */
const FOLD_SLICE = 2

/** Returns a function that reads how long usage is kept: longer than its plan counts it. */
function createKeepMs(db: Database): () => KeepMs {
  const select = db.prepare<{ name: string; seconds: number | null; daily: number | null }, []>(
    `select name, burst_seconds as seconds, daily from plans
     where name in ('${DEMO_PLAN}', '${TEMP_PLAN}')`,
  )
  return () => {
    const keepMs = { key: KEEP_MS, demo: KEEP_ADDRESSES_MS, temp: KEEP_ADDRESSES_MS }
    for (const { name, seconds, daily } of select.all()) {
      const windowMs = 2 * SECOND_MS * (seconds ?? 0)
      const ms = daily === null ? Math.max(KEEP_ADDRESSES_MS, windowMs) : KEEP_MS
      keepMs[name === DEMO_PLAN ? 'demo' : 'temp'] = ms
    }
    return keepMs
  }
}

/** The usage in an open database. Every method is synchronous. */
export function createUsageStore(
  db: Database,
  options: Partial<SnapshotOptions> = {},
  lockWait: LockWait = LOCK_WAIT,
) {
  const log = createAdmissionLog(db, options)
  const networks = createNetworkTable(db)
  const keepMs = createKeepMs(db)
  const keyUse = createKeyUse(db, id => log.read(keySubject(id))?.latestMs ?? 0)
  const tables = { ...log, ...networks }
  const removeProbe = db.prepare("delete from networks where subject_kind = 'probe'")
  const writeProbe = db.prepare("insert into networks values ('probe', '', '', 0, '')")
  const begin = db.prepare('begin immediate')
  const commit = db.prepare('commit')
  const rollback = db.prepare('rollback')

  /** Runs work in one transaction, which is durable when this returns. */
  function inTransaction<T>(work: () => T): T {
    log.catchUp() // before taking the lock, because others wait for it
    takeLock(() => begin.run(), lockWait)
    try {
      log.catchUp()
      const result = work()
      log.write()
      commit.run()
      log.committed()
      return result
    } catch (error) {
      log.rollBack()
      networks.forgetCounts()
      if (db.inTransaction) rollback.run()
      throw error
    }
  }

  const caughtUp = () => {
    log.catchUp()
    return log
  }
  /** The usage of subjects, in order. */
  const usagesOf = (batch: readonly Subject[]): Usage[] => {
    const { read } = caughtUp()
    return batch.map(subject => read(subject) ?? UNUSED)
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
    giveBack(batch) {
      inTransaction(() => batch.forEach(each => void giveBack(log.refund, each)))
      for (const refunded of batch) keyUse.count(refunded, -1)
    },
    consume: batch => inTransaction(() => batch.map(consumption => consume(tables, consumption))),
    usagesOf,
    peek: (batch, nowMs) => ({ usages: usagesOf(batch), nowMs }),
    removeNetworks: networks.removeOf,
    countNetworks: batch => batch.map(networks.count),
    prune: nowMs =>
      inTransaction(() => {
        const { removed, timeMs, mayRemain } = log.prune(nowMs, keepMs())
        keyUse.keepSeen(removed)
        return (
          mayRemain ||
          networks.removeBefore(utcDay(timeMs - KEEP_MS)) ||
          keyUse.removeBefore(utcDay(timeMs) - HISTORY_DAYS + 1)
        )
      }),
    /** Writes the chunks that are far behind the log when a server ends: the next one starts sooner. */
    fold(): void {
      const behind = log.behind()
      for (let at = 0; at < behind.length; at += FOLD_SLICE) {
        inTransaction(() => behind.slice(at, at + FOLD_SLICE).forEach(log.saveChunk))
        lockWait.pause() // lets other processes take the lock
      }
    },
    note: keyUse.note,
    flush: keys => keyUse.flush(keys, inTransaction),
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
    /** The keys with requests on a UTC day or later, and their number. */
    usedOn: (day: number) => caughtUp().usedOn(day),
    /** Commits a write that no limit counts. */
    probe: () =>
      inTransaction(() => {
        removeProbe.run() // SQLite would not write a row that exists
        writeProbe.run()
      }),
  } satisfies UsageStore & { [method: string]: unknown }
}
