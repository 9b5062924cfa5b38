/**
 * Usage in SQLite: its transactions, and the sets of networks. Admissions are in
 * `admission-log.ts`; the decisions are made in `access/rate-limit.ts` and `access/network-quota.ts`.
 */
import type { Database } from 'bun:sqlite'
import { HISTORY_DAYS } from '../../access/history.ts'
import { consume, type NetworkSet, type NetworkTable } from '../../access/network-quota.ts'
import { createPassedTime } from '../../access/passed-time.ts'
import { DEMO_PLAN, TEMP_PLAN } from '../../access/plan.ts'
import type { UsageStore } from '../../access/ports.ts'
import { admit, giveBack, type Subject, UNUSED, type Usage } from '../../access/rate-limit.ts'
import { createBoundedMap } from '../../lib/bounded-map.ts'
import { stopwatch } from '../../lib/clock.ts'
import { SECOND_MS, utcDay } from '../../lib/time.ts'
import { dataVersionOf } from '../database.ts'
import { isBusy } from '../errors.ts'
import { createAdmissionLog, type SnapshotOptions } from './admission-log.ts'
import { createKeyUse } from './key-use.ts'
import { KEEP_ADDRESSES_MS, KEEP_MS, type KeepMs } from './subjects.ts'

const asleep = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))

/**
 * How a transaction waits for those of other processes: at most `msMax`, because no request is answered
 * meanwhile (so it soon answers 503 instead), and with a pause between two attempts.
 */
export const LOCK_WAIT = {
  msMax: 500,
  pause: (): void => void Atomics.wait(asleep, 0, 0, 0.5),
  stopwatch,
}
type LockWait = typeof LOCK_WAIT

/**
 * Takes the lock for writing. SQLite itself pauses longer after each attempt, up to 100 ms, so that
 * it makes twelve attempts in 250 ms; beside a server that commits one transaction after the other,
 * all of them often find the lock taken. Attempts at short intervals find it free between two.
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

/** Networks that a prune looks at in one go: requests wait for it. */
const REMOVE_SLICE = 2_000

/** Chunks that are written at a time when a server ends: requests to other servers wait for it. */
const FOLD_SLICE = 2

/** So many networks are read in the time in which one is looked up. */
const READ_AT_ONCE = 8
/** Counts of networks in memory. */
const COUNTS_MAX = 10_000

/**
 * The table of networks. To count a set of tens of thousands takes a millisecond, to read it twenty, and requests may
 * come in any number: counts are kept until another connection commits, and a set is read only for answers of many.
 */
function createNetworkTable(db: Database) {
  const ofSet =
    'from networks where subject_kind = ?1 and subject_id = ?2 and network_set = ?3 and day = ?4'
  type OfSet = [kind: string, id: string, set: string, day: number]
  type Row = [...OfSet, network: string]
  const select = db.prepare<{ network: string }, OfSet>(`select network ${ofSet}`)
  const selectOne = db.prepare<{ network: string }, Row>(`select network ${ofSet} and network = ?5`)
  const selectCount = db.prepare<{ n: number }, OfSet>(`select count(*) as n ${ofSet}`)
  const insert = db.prepare<never, Row>('insert or ignore into networks values (?, ?, ?, ?, ?)')
  const columns = 'subject_kind, subject_id, network_set, day, network'
  const selectEnd = db.prepare<never, Row>(
    `select ${columns} from networks where (${columns}) > (?, ?, ?, ?, ?)
     order by ${columns} limit 1 offset ${REMOVE_SLICE - 1}`,
  )
  const remove = db.prepare<never, [...Row, ...Row, number]>(
    `delete from networks where (${columns}) > (?, ?, ?, ?, ?) and (${columns}) <= (?, ?, ?, ?, ?)
     and day < ?`,
  )
  const removeOf = db.prepare<never, [string, string]>(
    'delete from networks where subject_kind = ? and subject_id = ?',
  )
  let round: { day: number; after: Row | null } = { day: 0, after: null }
  const version = dataVersionOf(db) // of what other connections commit
  const counts = createBoundedMap<string, { [S in NetworkSet]: number }>(COUNTS_MAX)
  let seenVersion = version()
  function count({ subject: { kind, id }, day }: { subject: Subject; day: number }) {
    const current = version()
    if (current !== seenVersion) counts.clear()
    seenVersion = current
    const name = `${day} ${kind} ${id}`
    const countOf = (set: NetworkSet): number => selectCount.get(kind, id, set, day)?.n ?? 0
    const known = counts.get(name) ?? { served: countOf('served'), callers: countOf('callers') }
    counts.set(name, known)
    return known
  }
  return {
    count,
    forgetCounts: (): void => counts.clear(),
    compare({ kind, id }, set, day, networks) {
      const used = count({ subject: { kind, id }, day })[set]
      const readAll = () => new Set(select.all(kind, id, set, day).map(({ network }) => network))
      const lookUp = { has: (each: string) => selectOne.get(kind, id, set, day, each) !== null }
      const known = used > READ_AT_ONCE * networks.length ? lookUp : readAll()
      return { used, lacking: new Set(networks.filter(each => !known.has(each))) }
    },
    addNetworks({ kind, id }, set, day, networks) {
      const known = count({ subject: { kind, id }, day })
      for (const each of networks) known[set] += insert.run(kind, id, set, day, each).changes
    },
    removeOf({ kind, id }: Subject): void {
      counts.clear()
      removeOf.run(kind, id)
    },
    /** Removes the networks of earlier days from a slice of all; returns whether more may remain. */
    removeBefore(day: number): boolean {
      if (day !== round.day) round = { day, after: ['', '', '', 0, ''] }
      if (round.after === null) return false
      counts.clear()
      const [end = null] = selectEnd.values(...round.after) as Row[]
      remove.run(...round.after, ...(end ?? (['~', '', '', 0, ''] as Row)), day)
      round.after = end
      return end !== null
    },
  } satisfies NetworkTable & { [method: string]: unknown }
}

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

/** Returns a function that runs work in one transaction; what it wrote is durable when it returns. */
function createTransaction(
  db: Database,
  admissions: ReturnType<typeof createAdmissionLog>,
  lockWait: LockWait,
  onRollback: () => void,
) {
  const begin = db.prepare('begin immediate')
  const commit = db.prepare('commit')
  const rollback = db.prepare('rollback')
  return function inTransaction<T>(work: () => T): T {
    admissions.catchUp() // not under the lock, where others would wait
    takeLock(() => begin.run(), lockWait)
    try {
      admissions.catchUp()
      const result = work()
      admissions.write()
      commit.run()
      return result
    } catch (error) {
      admissions.reset()
      onRollback()
      if (db.inTransaction) rollback.run()
      throw error
    }
  }
}

/** The usage of an open database. Every method is synchronous. */
export function createUsageStore(
  db: Database,
  options: Partial<SnapshotOptions> = {},
  lockWait: LockWait = LOCK_WAIT,
  passedTime = createPassedTime(),
) {
  const admissions = createAdmissionLog(db, options)
  const networks = createNetworkTable(db)
  const keepMs = createKeepMs(db)
  const keyUse = createKeyUse(db, admissions)
  const tables = { ...admissions, ...networks }
  const removeProbe = db.prepare("delete from networks where subject_kind = 'probe'")
  const writeProbe = db.prepare("insert into networks values ('probe', '', '', 0, '')")

  const selectPassed = db.prepare<{ at: number }, []>('select at from passed')
  const writePassed = db.prepare<never, [number]>('insert or replace into passed values (1, ?)')
  let firstMs: number | null = null // of a file without: nothing is older

  const inTransaction = createTransaction(db, admissions, lockWait, networks.forgetCounts)
  const caughtUp = () => {
    admissions.catchUp()
    return admissions
  }
  /** What subjects have used, in order. */
  const usagesOf = (batch: readonly Subject[]): Usage[] => {
    const { read } = caughtUp()
    return batch.map(subject => read(subject) ?? UNUSED)
  }

  return {
    admit: batch => inTransaction(() => batch.map(admission => admit(tables, admission))),
    giveBack: batch =>
      inTransaction(() => batch.forEach(each => void giveBack(admissions.giveBack, each))),
    consume: batch => inTransaction(() => batch.map(consumption => consume(tables, consumption))),
    usagesOf,
    peek: (batch, nowMs) => ({ usages: usagesOf(batch), nowMs }),
    removeNetworks: networks.removeOf,
    countNetworks: batch => batch.map(networks.count),
    prune: nowMs =>
      inTransaction(() => {
        firstMs ??= admissions.oldest(nowMs)
        const passed = passedTime(nowMs, selectPassed.get()?.at ?? firstMs)
        if (passed.isNew) writePassed.run(passed.timeMs)
        const mayMove = keyUse.moveDays(admissions.timeOf(passed.timeMs))
        admissions.write() // before chunks that include it
        const { mayRemain, timeMs } = admissions.prune(passed.timeMs, keepMs())
        return (
          mayMove ||
          mayRemain ||
          networks.removeBefore(utcDay(timeMs - KEEP_MS)) ||
          keyUse.removeBefore(utcDay(timeMs) - HISTORY_DAYS + 1)
        )
      }),
    /**
     * Writes the chunks that are far behind, when a server ends: a batch takes longer to read than what
     * it adds to a chunk, so the next server starts sooner.
     */
    fold(): void {
      const behind = admissions.behind()
      for (let at = 0; at < behind.length; at += FOLD_SLICE) {
        inTransaction(() => behind.slice(at, at + FOLD_SLICE).forEach(admissions.saveChunk))
        lockWait.pause() // others that wait for the lock get it
      }
    },
    note: keyUse.note,
    flush: keys => keyUse.flush(keys, inTransaction),
    history: keyUse.history,
    reset: ({ kind, id }, part, nowMs) =>
      inTransaction(() => {
        admissions.append(['reset', id ?? '', nowMs, kind, part])
        if (part !== 'window' && id !== null) networks.removeOf({ kind, id })
      }),
    /** The keys that have sent requests on a UTC day or later, and how many those are. */
    usedOn: (day: number) => caughtUp().usedOn(day),
    /** Subjects with an admission that lies after `timeMs`. */
    after: (timeMs: number): Subject[] => caughtUp().after(timeMs),
    /** Commits a write that no limit counts. */
    probe: () =>
      inTransaction(() => {
        removeProbe.run() // a row that is there already would not be written
        writeProbe.run()
      }),
  } satisfies UsageStore & { [method: string]: unknown }
}
