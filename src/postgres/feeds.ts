/** The states of feeds in a shared database. */
import {
  type FeedKey,
  type FeedStore,
  newState,
  readState,
  type StoredFeed,
} from '../feeds/store.ts'
import { arrayLiteral, columnsOf } from './arrays.ts'
import type { Connection } from './connection.ts'

const ADD = `insert into proxylist.feeds (id, state)
  select id, state::json from unnest($1::text[], $2::text[]) as given (id, state)
  on conflict do nothing`

const SAVE = `insert into proxylist.feeds (id, state) values ($1, $2::text::json)
  on conflict (id) do update set state = excluded.state`

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
    async save(id, state): Promise<void> {
      await query(SAVE, [id, JSON.stringify(state)])
    },
    keepOnly: (kept: readonly FeedKey[], nowMs): Promise<void> =>
      transaction(async tx => {
        const rows = kept.map(({ id, shown }) => ({
          id,
          state: JSON.stringify(newState(shown, nowMs)),
        }))
        await tx('delete from proxylist.feeds where id <> all($1::text[])', [
          arrayLiteral(kept.map(({ id }) => id)),
        ])
        await tx(ADD, columnsOf(rows, 'id', 'state'))
      }),
    close,
  } satisfies FeedStore & { [member: string]: unknown }
}
