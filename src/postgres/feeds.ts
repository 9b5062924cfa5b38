/** The port of feeds in a database that machines share. Knows nothing of fetching. */
import {
  type FeedKey,
  type FeedLines,
  type FeedStore,
  newState,
  readState,
  type StoredFeed,
} from '../feeds/store.ts'
import { arrayLiteral, columnsOf } from './arrays.ts'
import { type Connection, onlyRow, type Query } from './connection.ts'
import { FEED_LOCK_CLASS } from './migrate.ts'

/** The ids and the states of new feeds, due now. */
function added(feeds: readonly FeedKey[], nowMs: number): string[] {
  const rows = feeds.map(({ id, shown }) => ({ id, state: JSON.stringify(newState(shown, nowMs)) }))
  return columnsOf(rows, 'id', 'state')
}
const INSERT = `insert into proxylist.feeds (id, state)
  select id, state::json from unnest($1::text[], $2::text[]) as given (id, state)
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

const SAVE = `insert into proxylist.feeds (id, state) values ($1, $2::text::json)
  on conflict (id) do update set state = excluded.state`

/** The feeds of the console, as the text of a feeds file. */
export const readLines = async (query: Query): Promise<string> =>
  (await onlyRow<{ lines: string }>(query, 'select lines from proxylist.feed_lines')).lines

/**
 * The states of the feeds. A lease is a lock of the session in which `lock` asks: it ends with that, or is released.
 */
export function createFeedStore({ query, transaction, close }: Connection, lock = query) {
  /** The states of all feeds in the order of their sources, or that of one. */
  const read = async (id: string | null): Promise<StoredFeed[]> => {
    const rows = await query<{ id: string; state: string }>(
      `select id, state::text as state from proxylist.feeds where $1::text is null or id = $1
        order by state ->> 'source' collate "C", id`,
      [id],
    )
    return rows.map(row => ({ id: row.id, ...readState(row.state) }))
  }
  return {
    find: async id => (await read(id)).map(({ id: _, ...state }) => state)[0] ?? null,
    list: () => read(null),
    async lease(feed, nowMs): Promise<boolean> {
      const { ok } = await onlyRow<{ ok: boolean }>(lock, LEASE, [feed.id])
      if (ok) await query(INSERT, added([feed], nowMs))
      return ok
    },
    async save(id, state): Promise<void> {
      await query(SAVE, [id, JSON.stringify(state)])
    },
    async release(id): Promise<void> {
      await lock(`select pg_advisory_unlock(${FEED_LOCK_CLASS}, hashtext($1))`, [id])
    },
    keepOnly: (kept: readonly FeedKey[], nowMs): Promise<void> =>
      transaction(async tx => {
        const ids = arrayLiteral(kept.map(({ id }) => id))
        await tx('delete from proxylist.feeds where id <> all($1::text[])', [ids])
        await tx(INSERT, added(kept, nowMs))
      }),
    readLines: () => readLines(query),
    async replaceLines(before, after): Promise<boolean> {
      const text = 'update proxylist.feed_lines set lines = $2 where lines = $1 returning true'
      return (await query(text, [before, after])).length > 0
    },
    close,
  } satisfies FeedStore & FeedLines & { [member: string]: unknown }
}
