/** The port `UsageStore` in PostgreSQL, for all machines together. Only the clock of the database decides. */
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
import { stopwatch, timerLater } from '../../lib/clock.ts'
import { StoreError } from '../../lib/errors.ts'
import { createTurnBatch } from '../../lib/turn-batch.ts'
import { columnsOf } from '../arrays.ts'
import {
  type Connection,
  type ConnectionOptions,
  onlyRow,
  openConnection,
  type Query,
  shownDatabase,
} from '../connection.ts'
import { isUnreachable } from '../errors.ts'
import { createAdmitBatch, createRefund } from './admissions.ts'
import { createKeyUse } from './key-use.ts'
import { createNetworks } from './networks.ts'
import { createRefusalCache } from './refusals.ts'

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

async function readUsage(query: Query, subjects: readonly Subject[]): Promise<Read[]> {
  const rows = await query<ReadRow>(READ, columnsOf(subjects, 'kind', 'id'))
  return rows.map(({ nowMs, used }) => {
    if (used === null) return { usage: UNUSED, nowMs }
    const { at: admissions, latest: latestMs, requests }: UsedJson = JSON.parse(used)
    return { usage: { admissions, latestMs, requests }, nowMs }
  })
}

const REMOVE_SLICE = 2_000

/** Their statements find rows by primary key, with plans that are made once. */
const BY_PRIMARY_KEY = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_bitmapscan: 'off',
}

/** How long a batch waits for a lock: other nodes hold one for milliseconds, but a person may hold one for minutes. */
const LOCK_MS_MAX = 250

export type Usages = ReturnType<typeof createUsageStore>

/**
 * The usage in a database, whose schema exists. Connections are opened when they are first used.
 * `elapsedMs` is the stopwatch of this machine, for refusals without a round trip; `onFailure` is called
 * with each failure of a statement, `onSilence` when the database seems to be away, see `open`.
 */
export function createUsageStore(
  options: ConnectionOptions,
  elapsedMs = stopwatch(),
  onFailure: (failure: unknown) => void = () => {},
  onSilence: () => void = () => {},
) {
  const { url, timeoutMs } = options
  const lockMs = Math.min(LOCK_MS_MAX, Math.ceil(timeoutMs / 4))
  const locking = { lock_timeout: lockMs, ...options.session }
  const deciding = { ...locking, ...BY_PRIMARY_KEY }
  const connections: Connection[] = []
  /** `slow` is called when a statement has taken half of its time. */
  function open(session: NonNullable<ConnectionOptions['session']>, slow = () => {}): Query {
    const connection = openConnection({ ...options, session })
    connections.push(connection)
    return (...statement) => {
      const cancel = timerLater(slow, timeoutMs / 2)
      const sent = connection.query<never>(...statement).catch(failure => {
        onFailure(failure)
        if (isUnreachable(failure)) onSilence()
        throw failure
      })
      return sent.finally(cancel)
    }
  }
  const queryAdmissions = open(deciding, onSilence)
  const queryNetworks = open(deciding, onSilence)
  const queryOthers = open(locking)
  const bound: WaitBound = {
    ...{ msMax: timeoutMs, elapsedMs },
    failure() {
      const late = new StoreError(`the database ${shownDatabase(url)} took too long for a request`)
      onFailure(late)
      return late
    },
  }

  const refusals = createRefusalCache(elapsedMs)
  const networks = createNetworks(
    queryNetworks,
    async subject => (await readUsage(queryNetworks, [subject]))[0]?.usage ?? UNUSED,
  )
  const keyUse = createKeyUse(queryOthers)
  const probe = createTurnBatch<null, null>(async calls => {
    await queryOthers('update proxylist.probes set n = n + 1')
    return calls
  })

  async function close(): Promise<void> {
    for (const { close } of connections) await close()
  }

  return {
    bound,
    admit: createAdmitBatch(queryAdmissions, refusals, admitted => keyUse.count(admitted, 1)),
    refuse: ({ rules }: Admission): Decision | null => refusals.refuse(rules),

    refund: createRefund(queryAdmissions, refusals, admitted => keyUse.count(admitted, -1)),
    ...networks,

    async peek(batch: readonly Subject[]) {
      const found = await readUsage(queryOthers, batch)
      return { usages: found.map(({ usage }) => usage), nowMs: found[0]?.nowMs ?? 0 }
    },

    note: keyUse.note,
    flush: keyUse.flush,
    history: keyUse.history,
    async prune(): Promise<boolean> {
      const { mayRemain } = await onlyRow<{ mayRemain: boolean }>(
        queryOthers,
        'select proxylist.prune_usage($1, $2) as "mayRemain"',
        [REMOVE_SLICE, HISTORY_DAYS],
      )
      return mayRemain
    },
    forgetRefusals: refusals.forget,

    async reset(subject: SubjectsOfKind, part: UsagePart): Promise<void> {
      try {
        const { kind, id } = subject
        await queryOthers('select proxylist.reset_usage($1, $2, $3)', [kind, id, part])
      } finally {
        refusals.forget()
      }
    },

    async probe(): Promise<void> {
      await probe(null)
    },

    close,
    [Symbol.asyncDispose]: close,
  } satisfies UsageStore & { [method: string]: unknown }
}
