/**
 * Owns changes of keys and plans: one after the other on all machines, in numbered steps that their
 * copies follow. What is changed is in `keys.ts` and `plans.ts`.
 */
import type { Connection, Query } from '../connection.ts'
import { onlyRow } from '../rows.ts'

/** What a change made of it; one that changed nothing leaves no number behind. */
export type Outcome<T> = { result: T; isChanged: boolean }

/**
 * Runs `work` in a transaction that has locked keys and plans: what it reads stays so until its end.
 * `version` numbers the change, in the order of commits; rows that it writes carry it.
 */
export type Change = <T>(work: (query: Query, version: number) => Promise<Outcome<T>>) => Promise<T>

/** Takes the next number, and with it the lock that makes changes one after the other. */
export async function nextVersion(query: Query): Promise<number> {
  const { version } = await onlyRow<{ version: number }>(
    query,
    `update proxylist.installation set keys_version = keys_version + 1
     returning keys_version::float8 as version`,
  )
  return version
}

/** Marks a version, and announces it. */
export async function markVersion(query: Query, version: number): Promise<void> {
  await query(
    `with made as (insert into proxylist.keys_versions values ($1::float8, gen_random_uuid()))
     select pg_notify('proxylist', 'keys')`,
    [version],
  )
}

/** Versions that are remembered; a copy that is further back is made again as a whole. */
const VERSIONS_KEPT = 100_000

/** Forgets old versions of keys, and which keys were removed by then. */
export async function pruneKeyVersions({ transaction }: Connection): Promise<void> {
  await transaction(async tx => {
    const { kept } = await onlyRow<{ kept: number }>(
      tx,
      'select (keys_version - $1)::float8 as kept from proxylist.installation',
      [VERSIONS_KEPT],
    )
    // A copy at a version that is not known is made again as a whole.
    await tx('delete from proxylist.keys_versions where version < $1::float8', [kept])
    await tx('delete from proxylist.removed_keys where version <= $1::float8', [kept])
  })
}

/** Ends a transaction that has changed nothing, with its result. */
class Unchanged extends Error {
  readonly result: unknown

  constructor(result: unknown) {
    super('nothing was changed')
    this.result = result
  }
}

export const createChange =
  ({ transaction }: Pick<Connection, 'transaction'>): Change =>
  async <T>(work: (query: Query, version: number) => Promise<Outcome<T>>): Promise<T> => {
    try {
      return await transaction(async query => {
        const version = await nextVersion(query)
        const { result, isChanged } = await work(query, version)
        if (!isChanged) throw new Unchanged(result)
        await markVersion(query, version)
        return result
      })
    } catch (error) {
      if (error instanceof Unchanged) return error.result as T // of this very `work`
      throw error
    }
  }
