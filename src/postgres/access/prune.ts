/** Owns removing what no limit and no history counts any more from PostgreSQL, slice by slice. */
import { HISTORY_DAYS } from '../../access/history.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'
import type { Query } from '../connection.ts'

/** Subjects that are examined, and rows of networks and days that are removed, at a time. */
const EXAMINE_SLICE = 2_000
const REMOVE_SLICE = 200
/** Networks are kept this long after their day: longer than any window. */
const KEEP_DAYS = 2
/** The newest days with use before today, which are kept however old they are. */
const KEPT_DAYS = HISTORY_DAYS - 1

/**
 * The time that ages are measured from: that of the latest admission when the clock is ahead of it,
 * because it may step back, and used quota must not be lost then.
 */
const TIME = `
  select least(proxylist.now_ms(), (select coalesce(max(latest), 0) from proxylist.usage))::float8 as time`

/** Removes a slice of the days before one, but none of the newest before today. */
const REMOVE_DAYS = `
  with recursive newest (day, nth) as (
    select (select max(day) from proxylist.days where day < $1), 1
    union all
    select (select max(d.day) from proxylist.days d where d.day < newest.day), nth + 1 from newest
    where day is not null and nth < ${KEPT_DAYS}
  )
  delete from proxylist.days where (day, key_id) in (
    select day, key_id from proxylist.days
    where day < least($1 - ${HISTORY_DAYS - 1}, (select min(day) from newest))
    order by day, key_id limit ${REMOVE_SLICE} for update skip locked)
  returning day`

const REMOVE_NETWORKS = `
  delete from proxylist.networks where (kind, id, network_set, day) in (
    select kind, id, network_set, day from proxylist.networks where day < $1
    limit ${REMOVE_SLICE} for update skip locked)
  returning day`

/** A prune in progress: ages are measured from `timeMs`, the subjects up to `after` were examined. */
type Round = { timeMs: number; after: { kind: string; id: string } | null }

/** Returns a function that removes a slice, and returns whether more may remain. */
export function createPrune(query: Query): () => Promise<boolean> {
  let round: Round | null = null

  /** Examines the next subjects; returns whether there may be more. */
  async function examine({ timeMs, after }: Round): Promise<Round['after']> {
    const [last] = await query<{ kind: string | null; id: string | null }>(
      'select kind, id from proxylist.prune_usage($1::bigint, $2, $3, $4)',
      [String(timeMs), after?.kind ?? '', after?.id ?? '', EXAMINE_SLICE],
    )
    return last?.kind != null && last.id != null ? { kind: last.kind, id: last.id } : null
  }

  const removes = async (text: string, day: number): Promise<boolean> =>
    (await query(text, [day])).length === REMOVE_SLICE

  return async () => {
    if (round === null) {
      const [row] = await query<{ time: number | null }>(TIME)
      round = { timeMs: row?.time ?? 0, after: { kind: '', id: '' } }
    }
    const { timeMs, after } = round
    if (after !== null) {
      round.after = await examine(round)
      return true
    }
    const mayRemain =
      (await removes(REMOVE_NETWORKS, utcDay(timeMs - KEEP_DAYS * DAY_MS))) ||
      (await removes(REMOVE_DAYS, utcDay(timeMs)))
    if (!mayRemain) round = null
    return mayRemain
  }
}
