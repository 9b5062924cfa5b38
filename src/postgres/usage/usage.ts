/**
 * Owns usage in PostgreSQL, for all machines together: the port `UsageStore`. The database's clock
 * decides; what a request says of the time counts for nothing.
 */
import type { WaitBound } from '../../access/patience.ts'
import type { UsageStore } from '../../access/ports.ts'
import {
  type Admission,
  type Decision,
  type Subject,
  type SubjectsOfKind,
  UNUSED,
  type UsagePart,
} from '../../access/rate-limit.ts'
import { stopwatch } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { createTurnBatch } from '../../lib/turn-batch.ts'
import {
  availabilityOf,
  type Connection,
  type ConnectionOptions,
  openConnection,
  type Query,
  shownDatabase,
} from '../connection.ts'
import { isLockNotFree } from '../errors.ts'
import { createAdmissions } from './admissions.ts'
import { createDatabaseClock } from './clock.ts'
import { createGiveBack } from './give-back.ts'
import { createKeyUse } from './key-use.ts'
import { createKnownUsage } from './known.ts'
import { createNetworks } from './networks.ts'
import { after, countUsed, createPeek, peek } from './peek.ts'
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
}

/** Commits a write that no limit counts, and calls with nothing what requests need, rights included. */
const PROBE = `select proxylist.probe(),
  proxylist.admit('{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  proxylist.admit_together('{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  proxylist.consume('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
  proxylist.give_back('{}', '{}', '{}'), proxylist.add_days('{}', '{}', '{}', '{}', '{}')`

/** Returns a function that finds out whether requests can be counted, once for all calls of a turn. */
const createProbe = (query: Query) =>
  createTurnBatch<null, null>(async (calls, waited) => {
    await query(PROBE, [], waited?.())
    return calls
  })

/**
 * How long a batch of admissions waits for a lock: other nodes hold one for milliseconds, but a session
 * of a person may hold it for minutes.
 */
const LOCK_MS_MAX = 250
const lockMsOf = ({ timeoutMs }: ConnectionOptions): number =>
  timeoutMs === null ? 0 : Math.min(LOCK_MS_MAX, Math.ceil(timeoutMs / 4))

/** Whose requests a failure concerns: all that count, or only those of a key or an address. */
export type FailedRequests = 'of all' | 'of a subject'
type OnFailure = (failure: unknown, whose: FailedRequests) => void

/** The connections, opened when they are first used; `onFailure` is called with each failure of a statement. */
function openConnections(options: ConnectionOptions, onFailure: OnFailure) {
  const decides = { ...options, session: { ...options.session, ...BY_PRIMARY_KEY } }
  const admits = { ...decides, session: { ...decides.session, lock_timeout: lockMsOf(options) } }
  const availability = availabilityOf(options)
  const connections = {
    admissions: openConnection(admits, availability),
    locked: openConnection(admits, availability),
    networks: openConnection(decides, availability),
    others: openConnection(options, availability),
  }
  const reporting =
    ({ query }: Connection): Query =>
    (...statement) =>
      query<never>(...statement).catch(failure => {
        if (!isLockNotFree(failure)) onFailure(failure, 'of all') // else it is tried again
        throw failure
      })
  return {
    decide: reporting(connections.admissions),
    decideLocked: reporting(connections.locked),
    countNetworks: reporting(connections.networks),
    query: reporting(connections.others),
    async close(): Promise<void> {
      availability.close()
      for (const { close } of Object.values(connections)) await close()
    },
  }
}

/** How long one request waits, where a statement may not take any time. */
function boundOf(
  { timeoutMs: msMax }: ConnectionOptions,
  elapsedMs: () => number,
  failure: () => Error,
): { bound?: WaitBound } {
  return msMax === null ? {} : { bound: { msMax, elapsedMs, failure } }
}

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
  const { decide, decideLocked, countNetworks, query, close } = openConnections(options, onFailure)
  const shown = shownDatabase(options.url)
  const failed = (what: string, whose: FailedRequests) => (): Error => {
    const failure = new StoreError(what)
    onFailure(failure, whose)
    return failure
  }
  const clock = createDatabaseClock(elapsedMs)
  const known = createKnownUsage(clock)
  const networks = createNetworks(
    countNetworks,
    async subject => (await peek(countNetworks, [subject])).usages[0] ?? UNUSED,
    clock,
  )
  const keyUse = createKeyUse(query)
  const prune = createPrune(query)
  const probe = createProbe(query)

  /** Forgets what is known of a subject, or of all of its kind when `id` is null. */
  function forget(subject: SubjectsOfKind): void {
    known.forget(subject)
    networks.known.forget(subject)
  }

  return {
    ...boundOf(
      options,
      elapsedMs,
      failed(`the database ${shown} took too long for a request`, 'of all'),
    ),
    admit: createAdmissions(decide, decideLocked, known, clock, {
      lockMs: lockMsOf(options),
      msMax: options.timeoutMs,
      late: failed(
        `in the database ${shown}, a row of table usage stays locked: by another session, or commits are slow`,
        'of a subject',
      ),
    }),
    refuse: ({ rules }: Admission): Decision | null => known.refuse(rules),
    giveBack: createGiveBack(decide, known),
    consume: networks.consume,
    countNetworks: networks.count,
    peek: createPeek(query),
    note: keyUse.note,
    flush: keyUse.flush,
    history: keyUse.history,
    prune,
    forget,

    async reset(subject: SubjectsOfKind, part: UsagePart): Promise<void> {
      try {
        const { kind, id } = subject
        await query('select proxylist.reset_usage($1, $2, $3)', [kind, id, part])
      } finally {
        forget(subject)
      }
    },

    countUsed: (day: number): Promise<number> => countUsed(query, day),
    after: (timeMs: number): Promise<Subject[]> => after(query, timeMs),

    async probe(): Promise<void> {
      await probe(null)
    },

    close,
  } satisfies UsageStore & { [method: string]: unknown }
}
