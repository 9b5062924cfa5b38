/** The states of feeds in a shared database. */
import {
  type FeedKey,
  type FeedStore,
  newState,
  readState,
  type StoredFeed,
} from '../feeds/store.ts'
import { arrayLiteral } from './arrays.ts'
import { type Connection, insertRows } from './connection.ts'

export function createFeedStore({ query, transaction, close }: Connection) {
  /** The state of one feed, or the states of all (`null`) in the order of their sources. */
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
    save: (id, state): Promise<void> =>
      insertRows(
        query,
        'feeds',
        [{ id, state }],
        'on conflict (id) do update set state = excluded.state',
      ),
    keepOnly: (kept: readonly FeedKey[], nowMs): Promise<void> =>
      transaction(async tx => {
        const rows = kept.map(({ id, shown }) => ({ id, state: newState(shown, nowMs) }))
        await tx('delete from proxylist.feeds where id <> all($1::text[])', [
          arrayLiteral(kept.map(({ id }) => id)),
        ])
        await insertRows(tx, 'feeds', rows, 'on conflict do nothing')
      }),
    close,
  } satisfies FeedStore & { [member: string]: unknown }
}
