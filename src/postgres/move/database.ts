/**
 * Owns the transactions in which a database is read and written as a whole, when its contents are
 * moved: as of one moment, and all or nothing.
 */
import { CommandError, orAborted } from '../../lib/errors.ts'
import type { Counts, Reader, Writer } from '../../move/contents.ts'
import type { Versions } from '../../node/ports.ts'
import { markVersion, nextVersion } from '../access/changes.ts'
import { versions } from '../change-source.ts'
import { type Connection, openConnection, type Query, SNAPSHOT } from '../connection.ts'
import { LOCK_NOT_FREE, stateOf } from '../errors.ts'
import { createNodes } from '../nodes.ts'
import { type ListState, lockList, storeVersion } from '../proxies/version.ts'
import { onlyRow } from '../rows.ts'
import { migrate, schemaState } from '../schema.ts'
import { countRows, createReader } from './reader.ts'
import { createWriter } from './writer.ts'

export type DatabaseOrder = {
  url: string
  /** The longest that is waited for a statement that is quick, in milliseconds. */
  timeoutMs: number
  /** Ends it early, with its reason; the database stays as it was. */
  signal: AbortSignal
}

/** A node that said so within this time runs; each says it every second. */
const RUNNING_SECONDS = 5

/** All that is moved. `installation` comes first, as in every change of keys and plans. */
const TABLES = ['installation', 'plans', 'keys', 'old_secrets', 'removed_keys', 'usage', 'networks']
  .concat(['days', 'list', 'cities', 'proxies', 'removed', 'feeds'])
  .map(table => `proxylist.${table}`)
  .join(', ')

/** How long is waited for what others have under way, such as an import. */
const LOCK_WAIT_SECONDS = 60

/** Keeps out all who write. @throws CommandError when what others have under way takes too long. */
async function lockTables(query: Query, mode: 'share' | 'exclusive'): Promise<void> {
  await query(`set local lock_timeout = '${LOCK_WAIT_SECONDS}s'`)
  try {
    await query(`lock table ${TABLES} in ${mode} mode`)
  } catch (failure) {
    if (stateOf(failure) !== LOCK_NOT_FREE) throw failure
    throw new CommandError(
      `something else has been using the database for ${LOCK_WAIT_SECONDS} s: an import, a ` +
        'dump, or a commit that waits for a standby (see: proxylist doctor)',
    )
  }
  await query('set local lock_timeout = 0')
}

/** `quick` gives up what hangs; `patient` waits as long as a move takes. */
type Connections = { quick: Connection; patient: Connection }

/** Works with connections, which are closed at the end: that ends what they have under way. */
async function connected<T>(
  { url, timeoutMs, signal }: DatabaseOrder,
  work: (connections: Connections) => Promise<T>,
): Promise<T> {
  const name = 'proxylist move'
  const quick = openConnection({ url, timeoutMs, name })
  const patient = openConnection({ url, timeoutMs: null, name })
  try {
    return await orAborted(work({ quick, patient }), signal)
  } finally {
    for (const { close } of [quick, patient]) await close().catch(() => {})
  }
}

/** @throws CommandError when the database holds nothing of this program, or of another version. */
async function requireSchema(connection: Connection): Promise<void> {
  const { shown } = connection
  if ((await schemaState(connection)) === 'none') {
    throw new CommandError(`the database ${shown} holds nothing of proxylist`)
  }
  await migrate(connection)
}

/** @throws CommandError when machines serve from the database. */
async function requireRest(connection: Connection): Promise<void> {
  const nodes = await createNodes(connection).list()
  const running = nodes.filter(({ silentSeconds }) => silentSeconds < RUNNING_SECONDS)
  if (running.length === 0) return
  const names = running.map(({ node, address }) => `${node} (${address})`).join(', ')
  throw new CommandError(
    `the database ${connection.shown} is in use by ${names}; stop all nodes first, because what they admit meanwhile would be lost`,
  )
}

/** A database that is read as of one moment; `id` is that of its installation. */
export type ReadDatabase = { reader: Reader; counts: Counts; id: string; shown: string }

/**
 * Reads a database, as of one moment, while machines use it.
 * @throws CommandError when it holds nothing, StoreError when it fails.
 */
export const readDatabase = <T>(
  order: DatabaseOrder,
  work: (database: ReadDatabase) => Promise<T>,
): Promise<T> =>
  connected(order, async ({ quick, patient }) => {
    await requireSchema(quick)
    return patient.transaction(query => readIn(query, quick.shown, work), SNAPSHOT)
  })

/** The same for a database that is moved away from: no node may run, and nobody can write meanwhile. */
export const readRestingDatabase = <T>(
  order: DatabaseOrder,
  work: (database: ReadDatabase) => Promise<T>,
): Promise<T> =>
  connected(order, async ({ quick, patient }) => {
    await requireSchema(quick)
    await requireRest(quick)
    return patient.transaction(async query => {
      await lockTables(query, 'share') // before the moment that is read
      await requireRest(quick) // a node that was started since then
      return readIn(query, quick.shown, work)
    }, 'isolation level repeatable read')
  })

async function readIn<T>(
  query: Query,
  shown: string,
  work: (database: ReadDatabase) => Promise<T>,
): Promise<T> {
  const { list } = await versions({ query, shown })
  return work({
    ...{ reader: createReader(query), counts: await countRows(query) },
    ...{ id: list.database, shown },
  })
}

/** A database that is written; nothing is visible before the end. */
export type WrittenDatabase = {
  reader: Reader
  /** What it holds now; what other machines write waits. */
  counts: Counts
  shown: string
  /** Where it stands now. */
  versions: () => Promise<Versions>
  /** Prepares it, without data, for what `writer` writes; the versions that it has then. */
  begin: () => Promise<Writer>
  /** Ends the writing. */
  finish: () => Promise<Versions>
}

/** What is there is no data: the plans of a start, and traces of earlier data. */
const CLEAR = ['plans', 'old_secrets', 'removed_keys', 'cities', 'removed'].map(
  table => `delete from proxylist.${table}`,
)

const EXTENT = `select count(*)::float8 as rows, max(checked_at)::float8 as newest,
  min(checked_at)::float8 as oldest from proxylist.proxies`

const written = (query: Query, shown: string, counts: Counts): WrittenDatabase => {
  const began = { keys: 0, list: 0 }
  return {
    ...{ reader: createReader(query), counts, shown },
    versions: () => versions({ query, shown }),
    async begin() {
      for (const statement of CLEAR) await query(statement)
      began.keys = await nextVersion(query)
      began.list = (await lockList(query)).version + 1
      return createWriter(query, began)
    },
    async finish() {
      await markVersion(query, began.keys)
      const extent = await onlyRow<Omit<ListState, 'version'>>(query, EXTENT)
      await storeVersion(query, { ...extent, version: began.list })
      // Copies of what was there before are made again as a whole.
      await query('update proxylist.list set removed_before = version')
      await query('delete from proxylist.list_versions where version < $1::float8', [began.list])
      await query('delete from proxylist.keys_versions where version < $1::float8', [began.keys])
      return versions({ query, shown })
    },
  }
}

/**
 * Writes a database in one transaction; its schema is made when there is none. Others wait until its
 * end. A signal that comes during the commit is ignored: nobody would know whether that was made.
 * @throws CommandError when a newer program made the schema, StoreError when the database fails.
 */
export async function writeDatabase<T>(
  order: DatabaseOrder,
  work: (database: WrittenDatabase) => Promise<T>,
): Promise<T> {
  const { signal } = order
  const ending = new AbortController()
  const end = (): void => ending.abort(signal.reason)
  signal.addEventListener('abort', end)
  return connected({ ...order, signal: ending.signal }, async ({ quick, patient }) => {
    signal.throwIfAborted()
    await migrate(quick)
    return patient.transaction(async query => {
      await lockTables(query, 'exclusive')
      const result = await work(written(query, quick.shown, await countRows(query)))
      signal.throwIfAborted()
      signal.removeEventListener('abort', end)
      return result
    })
  }).finally(() => signal.removeEventListener('abort', end))
}
