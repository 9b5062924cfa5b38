/**
 * Owns usage in PostgreSQL, for all machines together: the port `UsageStore`. The database's clock
 * decides; what a request says of the time counts for nothing.
 */
import type { Subject, Usage, UsagePart } from '../../access/rate-limit.ts'
import { UNUSED } from '../../access/rate-limit.ts'
import type { UsageStore, Used } from '../../access/store.ts'
import { stopwatch } from '../../lib/clock.ts'
import { arrayLiteral } from '../arrays.ts'
import { type ConnectionOptions, openConnection, type Query } from '../connection.ts'
import { createAdmissions } from './admissions.ts'
import { createDatabaseClock } from './clock.ts'
import { createKeyUse } from './key-use.ts'
import { createKnownUsage, type Subjects } from './known.ts'
import { createNetworks } from './networks.ts'
import { createPrune } from './prune.ts'

export type Usages = ReturnType<typeof createUsageStore>

/**
 * Settings of the connections that decide: their statements find rows by primary key, with plans that
 * are made once.
 */
const BY_PRIMARY_KEY = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
  jit: 'off',
}

/** Usage of subjects as JSON, by one statement. */
type UsageRow = { now_ms: number; found: string | null }
type FoundUsage = { at: number[]; latest: number; day: number; requests: number } | null

const PEEK = `
  select proxylist.now_ms()::float8 as now_ms, (
    select json_agg(case when u.kind is not null then json_build_object('at', u.at,
        'latest', u.latest, 'day', u.day, 'requests', u.requests) end order by s.place)::text
    from unnest($1::text[], $2::text[]) with ordinality s (kind, id, place)
    left join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
  ) as found`

const toUsage = (found: FoundUsage): Usage =>
  found === null
    ? UNUSED
    : {
        ...{ admissions: found.at, latestMs: found.latest },
        ...{ day: found.day, requests: found.requests },
      }

async function peek(query: Query, batch: readonly Subject[]): Promise<Used> {
  const [row] = await query<UsageRow>(PEEK, [
    arrayLiteral(batch.map(({ kind }) => kind)),
    arrayLiteral(batch.map(({ id }) => id)),
  ])
  const found: FoundUsage[] = JSON.parse(row?.found ?? '[]')
  return { usages: found.map(toUsage), nowMs: row?.now_ms ?? 0 }
}

/**
 * The usage in a database, whose schema exists. Connections are opened when they are first used.
 * `elapsedMs` is the stopwatch of this machine, for refusals without a round trip.
 */
export function createUsageStore(options: ConnectionOptions, elapsedMs = stopwatch()) {
  const decides = { ...options, session: { ...options.session, ...BY_PRIMARY_KEY } }
  const connections = {
    admissions: openConnection(decides),
    networks: openConnection(decides),
    others: openConnection(options),
  }
  const { query } = connections.others
  const clock = createDatabaseClock(elapsedMs)
  const known = createKnownUsage(clock)
  const admissions = createAdmissions(connections.admissions.query, known, clock)
  const networks = createNetworks(
    connections.networks.query,
    async subject => (await peek(connections.networks.query, [subject])).usages[0] ?? UNUSED,
    clock,
  )
  const keyUse = createKeyUse(query)
  const prune = createPrune(query)

  /** Forgets what is known of a subject, or of all of its kind when `id` is null. */
  function forget(subject: Subjects): void {
    known.forget(subject)
    networks.known.forget(subject)
  }

  return {
    ...admissions,
    consume: networks.consume,
    countNetworks: networks.count,
    peek: (batch: readonly Subject[]): Promise<Used> => peek(query, batch),
    note: keyUse.note,
    flush: keyUse.flush,
    history: keyUse.history,
    prune,
    forget,

    async reset(subject: Subjects, part: UsagePart): Promise<void> {
      try {
        const { kind, id } = subject
        await query('select proxylist.reset_usage($1, $2, $3)', [kind, id, part])
      } finally {
        forget(subject)
      }
    },

    /** How many keys have sent requests on a UTC day or later. */
    async countUsed(day: number): Promise<number> {
      const [row] = await query<{ n: number }>(
        `select count(*)::int as n from proxylist.usage
         where kind = 'key' and day >= $1 and requests > 0`,
        [day],
      )
      return row?.n ?? 0
    },

    /** Subjects with an admission that lies after `timeMs`. */
    after: (timeMs: number): Promise<Subject[]> =>
      query<Subject>(
        'select kind, id from proxylist.usage where latest > $1::bigint order by kind, id',
        [String(timeMs)],
      ),

    /** Commits a write that no limit counts. */
    async probe(): Promise<void> {
      await query('select proxylist.probe()')
    },

    async close(): Promise<void> {
      for (const { close } of Object.values(connections)) await close()
    },
  } satisfies UsageStore & { [method: string]: unknown }
}
