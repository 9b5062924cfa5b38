/**
 * Owns what has been used: the logs of admissions and the sets of networks, in access.db.
 * What they mean is in `access.ts`.
 */
import type { Database } from 'bun:sqlite'
import type { Usage, UsageStore } from '../limits.ts'
import { DAY_MS, utcDay } from '../time.ts'
import schema from './access.sql' with { type: 'text' }
import { openDatabase } from './open.ts'

type UsageRow = { admissions: Uint8Array; day: number; requests: number }

/** Rows removed at a time, so that no request waits long for it. */
const REMOVE_SLICE = 2_000
/** Usage is forgotten this long after the last admission: longer than any window. */
const KEEP_MS = 2 * DAY_MS

export const openAccessFile = (file: string, serving = false): Database =>
  openDatabase(file, { holds: 'access', schema: [schema], serving })

const encode = (admissions: readonly number[]): Uint8Array =>
  new Uint8Array(new Float64Array(admissions).buffer)
const decode = (bytes: Uint8Array): number[] => [...new Float64Array(bytes.slice().buffer)]

export type UsageFile = ReturnType<typeof createUsageStore>

export function createUsageStore(db: Database) {
  const read = db.prepare<UsageRow, [string]>(
    'select admissions, day, requests from usage where subject = ?',
  )
  const write = db.prepare<never, [string, number, number, number, Uint8Array]>(
    `insert into usage (subject, last_at, day, requests, admissions) values (?, ?, ?, ?, ?)
     on conflict (subject) do update set last_at = excluded.last_at, day = excluded.day,
       requests = excluded.requests, admissions = excluded.admissions`,
  )
  const networks = db.prepare<{ network: string }, [string, number]>(
    'select network from networks where subject = ? and day = ?',
  )
  const addNetwork = db.prepare<never, [string, number, string]>(
    'insert or ignore into networks (subject, day, network) values (?, ?, ?)',
  )
  const removals = [
    db.prepare<never, [number, number]>(
      'delete from usage where subject in (select subject from usage where last_at < ? limit ?)',
    ),
    db.prepare<never, [number, number]>(
      `delete from networks where (subject, day, network) in
         (select subject, day, network from networks where day < ? limit ?)`,
    ),
  ] as const

  const store: UsageStore = {
    transaction: work => db.transaction(work).immediate(),
    read(subject): Usage | null {
      const row = read.get(subject)
      if (row === null) return null
      return { admissions: decode(row.admissions), day: row.day, requests: row.requests }
    },
    write(subject, { admissions, day, requests }): void {
      write.run(subject, admissions.at(-1) ?? 0, day, requests, encode(admissions))
    },
    networks: (subject, day) => new Set(networks.all(subject, day).map(({ network }) => network)),
    addNetworks(subject, day, added): void {
      for (const network of added) addNetwork.run(subject, day, network)
    },
  }

  return {
    ...store,
    /** Forgets up to a slice of what no limit looks at any more; says whether more may remain. */
    removeStale(nowMs: number): boolean {
      const cutoffMs = nowMs - KEEP_MS
      const [usage, old] = removals
      const removed = [
        usage.run(cutoffMs, REMOVE_SLICE).changes,
        old.run(utcDay(cutoffMs), REMOVE_SLICE).changes,
      ]
      return removed.includes(REMOVE_SLICE)
    },
    /** Commits a write that changes nothing that counts. @throws when usage cannot be written. */
    probe(): void {
      db.transaction(() => write.run('probe', 0, 0, 0, encode([]))).immediate()
    },
  }
}
