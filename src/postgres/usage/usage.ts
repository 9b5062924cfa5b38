/**
 * Usage in PostgreSQL, for all machines together: the port `UsageStore`. The database's clock decides;
 * what a request says of the time counts for nothing.
 */
import { HISTORY_DAYS } from '../../access/history.ts'
import type { UsageStore } from '../../access/ports.ts'
import {
  type Admission,
  type Decision,
  type Subject,
  type SubjectsOfKind,
  UNUSED,
  type Usage,
  type UsagePart,
} from '../../access/rate-limit.ts'
import type { WaitBound } from '../../access/store-timeout.ts'
import { stopwatch } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { DAY_MS, utcDay } from '../../lib/time.ts'
import { createListBatch, createTurnBatch } from '../../lib/turn-batch.ts'
import { columnsOf } from '../arrays.ts'
import {
  availabilityOf,
  type Connection,
  type ConnectionOptions,
  onlyRow,
  openConnection,
  type Query,
  shownDatabase,
} from '../connection.ts'
import { isLockNotFree } from '../errors.ts'
import { createAdmitBatch, createRefund } from './admissions.ts'
import { createKeyUse } from './key-use.ts'
import { createNetworks } from './networks.ts'
import { createDatabaseClock, createRefusalCache } from './refusals.ts'

/** What a subject has used, and the time by the database's clock. */
type Read = { usage: Usage; nowMs: number }
type ReadRow = { nowMs: number; used: string | null }
type UsedJson = { at: number[]; latest: number; requests: number }

const READ = `
  select proxylist.now_ms()::float8 as "nowMs",
    case when u.kind is not null then json_build_object('at', u.at,
      'latest', u.latest, 'requests', u.requests)::text end as used
  from unnest($1::text[], $2::text[]) with ordinality s (kind, id, ordinal)
  left join proxylist.usage u on u.kind = s.kind collate "C" and u.id = s.id collate "C"
  order by s.ordinal`

async function readUsage(
  query: Query,
  subjects: readonly Subject[],
  waitedMs: number,
): Promise<Read[]> {
  const rows = await query<ReadRow>(READ, columnsOf(subjects, 'kind', 'id'), waitedMs)
  return rows.map(({ nowMs, used }) => {
    if (used === null) return { usage: UNUSED, nowMs }
    const { at: admissions, latest: latestMs, requests }: UsedJson = JSON.parse(used)
    return { usage: { admissions, latestMs, requests }, nowMs }
  })
}

/** Subjects that are examined, and rows of networks and days that are removed, at a time. */
const EXAMINE_SLICE = 2_000
const REMOVE_SLICE = 200
/** Networks are kept this long after their day: longer than any window. */
const KEEP_DAYS = 2

/** Ages are measured from the clock or the last admission, whichever is earlier. */
const PRUNE_TIME = `
  select least(proxylist.now_ms(), coalesce(max(latest), 0))::float8 as "timeMs" from proxylist.usage`

const REMOVE_DAYS = `
  delete from proxylist.days where (day, key_id) in (
    select day, key_id from proxylist.days where day < $1
    order by day, key_id limit ${REMOVE_SLICE} for update skip locked)
  returning day`

const REMOVE_NETWORKS = `
  delete from proxylist.networks where (kind, id, network_set, day) in (
    select kind, id, network_set, day from proxylist.networks where day < $1
    limit ${REMOVE_SLICE} for update skip locked)
  returning day`

/** A prune in progress measures ages from `timeMs`, and has examined the subjects up to `after`. */
const NO_SUBJECT = { kind: '', id: '' }
type Round = { timeMs: number; after: { kind: string; id: string } | null }

/** Returns a function that removes a slice of what nothing counts any more, and returns whether more may remain. */
function createPrune(query: Query): () => Promise<boolean> {
  let round: Round | null = null

  const removes = async (text: string, day: number): Promise<boolean> =>
    (await query(text, [day])).length === REMOVE_SLICE

  return async () => {
    round ??= { ...(await onlyRow<{ timeMs: number }>(query, PRUNE_TIME)), after: NO_SUBJECT }
    const { timeMs, after } = round
    if (after !== null) {
      const [last] = await query<{ kind: string | null; id: string }>(
        'select kind, id from proxylist.prune_usage($1::bigint, $2, $3, $4)',
        [String(timeMs), after.kind, after.id, EXAMINE_SLICE],
      )
      round.after = last?.kind == null ? null : { kind: last.kind, id: last.id }
      return true
    }
    const mayRemain =
      (await removes(REMOVE_NETWORKS, utcDay(timeMs - KEEP_DAYS * DAY_MS))) ||
      (await removes(REMOVE_DAYS, utcDay(timeMs) - HISTORY_DAYS + 1))
    if (!mayRemain) round = null
    return mayRemain
  }
}

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
}

/** Commits a write that no limit counts, and calls with nothing what requests need, rights included. */
const PROBE = `select proxylist.probe(),
  proxylist.admit('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', false),
  proxylist.consume('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  proxylist.give_back('{}', '{}', '{}'), proxylist.add_days('{}', '{}', '{}', '{}', '{}')`

/**
 * How long a batch of admissions waits for a lock: other nodes hold one for milliseconds, but a session
 * of a person may hold it for minutes.
 */
const LOCK_MS_MAX = 250

/** Whose requests a failure concerns: all that count, or only those of a key or an address. */
export type FailedRequests = 'of all' | 'of a subject'
type OnFailure = (failure: unknown, whose: FailedRequests) => void

export type Usages = ReturnType<typeof createUsageStore>

/**
 * The usage in a database, whose schema exists. Connections are opened when they are first used.
 * `elapsedMs` is the stopwatch of this machine, for refusals without a round trip; `onFailure` is called
 * with each failure of a statement.
 */
export function createUsageStore(
  options: ConnectionOptions,
  elapsedMs = stopwatch(),
  onFailure: OnFailure = () => {},
) {
  const { url, timeoutMs } = options
  const shown = shownDatabase(url)
  const lockMs = timeoutMs === null ? 0 : Math.min(LOCK_MS_MAX, Math.ceil(timeoutMs / 4))
  const session = { ...options.session, ...BY_PRIMARY_KEY }
  const availability = availabilityOf(options)
  const connections = {
    admissions: openConnection(
      { ...options, session: { ...session, lock_timeout: lockMs } },
      availability,
    ),
    networks: openConnection({ ...options, session }, availability),
    others: openConnection(options, availability),
  }
  const reporting =
    ({ query }: Connection): Query =>
    (...statement) =>
      query<never>(...statement).catch(failure => {
        if (!isLockNotFree(failure)) onFailure(failure, 'of all') // else it is tried again
        throw failure
      })
  const queryAdmissions = reporting(connections.admissions)
  const queryNetworks = reporting(connections.networks)
  const queryOthers = reporting(connections.others)
  const failed = (what: string, whose: FailedRequests) => (): Error => {
    const failure = new StoreError(what)
    onFailure(failure, whose)
    return failure
  }
  const failure = failed(`the database ${shown} took too long for a request`, 'of all')
  const bound: WaitBound | null =
    timeoutMs === null ? null : { msMax: timeoutMs, elapsedMs, failure }

  const clock = createDatabaseClock(elapsedMs)
  const refusals = createRefusalCache(clock)
  const networks = createNetworks(
    queryNetworks,
    async subject => (await readUsage(queryNetworks, [subject], 0))[0]?.usage ?? UNUSED,
    clock,
  )
  const keyUse = createKeyUse(queryOthers)
  const read = createListBatch<Subject, Read>((subjects, waited) =>
    readUsage(queryOthers, subjects, waited()),
  )
  const probe = createTurnBatch<null, null>(async (calls, waited) => {
    await queryOthers(PROBE, [], waited?.())
    return calls
  })

  /** Forgets what is known of a subject, or of all of its kind when `id` is null. */
  function forget(subject: SubjectsOfKind): void {
    refusals.forget(subject)
    networks.forget(subject)
  }

  async function close(): Promise<void> {
    availability.close()
    for (const { close } of Object.values(connections)) await close()
  }

  return {
    ...(bound && { bound }),
    admit: createAdmitBatch(queryAdmissions, refusals, clock, {
      ...{ msMax: timeoutMs, tryMs: lockMs },
      late: failed(
        `in the database ${shown}, a row of table usage stays locked: by another session, or commits are slow`,
        'of a subject',
      ),
    }),
    refuse: ({ rules }: Admission): Decision | null => refusals.refuse(rules),

    refund: createRefund(queryAdmissions, refusals),
    consume: networks.consume,
    countNetworks: networks.count,

    async peek(batch: readonly Subject[]) {
      const found = await read(batch)
      return { usages: found.map(({ usage }) => usage), nowMs: found[0]?.nowMs ?? 0 }
    },

    note: keyUse.note,
    flush: keyUse.flush,
    history: keyUse.history,
    prune: createPrune(queryOthers),
    forget,

    async reset(subject: SubjectsOfKind, part: UsagePart): Promise<void> {
      try {
        const { kind, id } = subject
        await queryOthers('select proxylist.reset_usage($1, $2, $3)', [kind, id, part])
      } finally {
        forget(subject)
      }
    },

    async probe(): Promise<void> {
      await probe(null)
    },

    close,
    [Symbol.asyncDispose]: close,
  } satisfies UsageStore & { [method: string]: unknown }
}
