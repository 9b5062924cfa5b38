/** The port of feeds in a database that machines share. Knows nothing of fetching. */
import type { FeedKey, FeedState, FeedStore } from '../feeds/store.ts'
import { arrayLiteral } from './arrays.ts'
import { type Connection, onlyRow } from './connection.ts'
import { FEED_LOCK_CLASS } from './schema.ts'

type StateRow = Omit<FeedState, 'validators'> & FeedState['validators']

const COLUMNS = `source, last_success_at::float8 as "lastSuccessAt", rows, rejected, error, failures,
  next_try_at::float8 as "nextTryAt", attempts, etag, last_modified as "lastModified", digest, options`

const toState = ({ etag, lastModified, digest, ...state }: StateRow): FeedState => ({
  ...state,
  validators: { etag, lastModified, digest },
})

/** What is new is due at $3. */
const INSERT = `insert into proxylist.feeds (id, source, next_try_at)
  select id, source, $3 from unnest($1::text[], $2::text[]) as given (id, source)
  on conflict do nothing`

/**
 * Locks a feed for as long as the connection lasts. A second lock of the same connection would have
 * to be released twice.
 */
const LEASE = `select exists (
    select from pg_catalog.pg_locks
      where locktype = 'advisory' and granted and pid = pg_backend_pid() and objsubid = 2
        and classid = ${FEED_LOCK_CLASS} and objid = hashtext($1)::oid
  ) or pg_try_advisory_lock(${FEED_LOCK_CLASS}, hashtext($1)) as ok`

const RELEASE = `select pg_advisory_unlock(${FEED_LOCK_CLASS}, hashtext($1))`

const SAVE = `insert into proxylist.feeds (id, source, last_success_at, rows, rejected, error,
    failures, next_try_at, attempts, etag, last_modified, digest, options)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
  on conflict (id) do update set (source, last_success_at, rows, rejected, error, failures,
    next_try_at, attempts, etag, last_modified, digest, options) = (excluded.source,
    excluded.last_success_at, excluded.rows, excluded.rejected, excluded.error, excluded.failures,
    excluded.next_try_at, excluded.attempts, excluded.etag, excluded.last_modified,
    excluded.digest, excluded.options)`

/**
 * The states of the feeds. A lease is a lock of the connection: it ends when it is released, or with
 * the process that has it.
 */
export function createFeedStore({ query, transaction, close }: Connection) {
  return {
    async find(id): Promise<FeedState | null> {
      const [row] = await query<StateRow>(`select ${COLUMNS} from proxylist.feeds where id = $1`, [
        id,
      ])
      return row === undefined ? null : toState(row)
    },
    async list(): Promise<FeedState[]> {
      const order = 'order by source collate "C", id'
      return (await query<StateRow>(`select ${COLUMNS} from proxylist.feeds ${order}`)).map(toState)
    },
    async lease({ id, shown }, nowMs): Promise<boolean> {
      const { ok } = await onlyRow<{ ok: boolean }>(query, LEASE, [id])
      if (ok) await query(INSERT, [arrayLiteral([id]), arrayLiteral([shown]), nowMs])
      return ok
    },
    async save(id, { validators: { etag, lastModified, digest }, ...state }): Promise<void> {
      await query(SAVE, [
        ...[id, state.source, state.lastSuccessAt, state.rows, state.rejected, state.error],
        ...[state.failures, state.nextTryAt, state.attempts, etag, lastModified, digest],
        state.options,
      ])
    },
    async release(id): Promise<void> {
      await query(RELEASE, [id])
    },
    keepOnly: (kept: readonly FeedKey[], nowMs): Promise<void> =>
      transaction(async tx => {
        const ids = arrayLiteral(kept.map(({ id }) => id))
        await tx('delete from proxylist.feeds where id <> all($1::text[])', [ids])
        await tx(INSERT, [ids, arrayLiteral(kept.map(({ shown }) => shown)), nowMs])
      }),
    close,
  } satisfies FeedStore & { [member: string]: unknown }
}
