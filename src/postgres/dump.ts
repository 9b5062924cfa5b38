/** Reads and writes keys, plans and usage of a shared database as a whole. */
import type { AccessDump, UsedNetworks } from '../access/dump.ts'
import type { Subject, Usage } from '../access/rate-limit.ts'
import { CommandError, orAborted } from '../lib/errors.ts'
import { utcDay } from '../lib/time.ts'
import type { IncomingProxy } from '../proxies/proxy.ts'
import {
  type Connection,
  insertRows,
  openConnection,
  type Query,
  SNAPSHOT,
  selectJson,
} from './connection.ts'
import { queueList } from './imports.ts'
import { installationOf, migrate, schemaState } from './migrate.ts'
import { insertAllKeys, PATIENT, readStoredKeys, selectPlans, toPlanRow } from './registry.ts'

export type DatabaseOrder = {
  url: string
  timeoutMs: number
  signal: AbortSignal
}

/** Opens connections, works with them, and closes them, which ends statements under way. */
async function connected<T>(
  { url, timeoutMs, signal }: DatabaseOrder,
  work: (quick: Connection, patient: Connection) => Promise<T>,
): Promise<T> {
  const name = 'proxylist command'
  await using quick = openConnection({ url, timeoutMs, name })
  await using patient = openConnection({ url, ...PATIENT, name })
  return await orAborted(work(quick, patient), signal)
}

const USAGE =
  'select kind, id, at as admissions, latest as "latestMs", requests from proxylist.usage'
const NETWORKS = `
  select kind, id, network_set as "set", day, array_agg(network) as networks
  from proxylist.networks group by kind, id, network_set, day`

/** Reads a database as of one moment; `installation` is its id. @throws CommandError without a schema. */
export const readDump = (
  order: DatabaseOrder,
): Promise<{ dump: AccessDump; installation: string; shown: string }> =>
  connected(order, async (quick, patient) => {
    const { shown } = quick
    if ((await schemaState(quick)) === 'none') {
      throw new CommandError(`the database ${shown} holds nothing of proxylist`)
    }
    await migrate(quick)
    const installation = await installationOf(quick.query)
    const dump = await patient.transaction(async query => {
      const networks = await selectJson<Subject & Omit<UsedNetworks, 'subject'>>(query, NETWORKS)
      return {
        plans: await selectPlans(query),
        keys: await readStoredKeys(query),
        usage: await selectJson<Subject & Usage>(query, USAGE),
        networks: networks.map(({ kind, id, ...used }) => ({ subject: { kind, id }, ...used })),
      }
    }, SNAPSHOT)
    return { dump, installation, shown }
  })

/** @throws CommandError when a database holds anything that a restore would mix with its own. */
async function requireEmpty(query: Query, shown: string): Promise<void> {
  const found = await query(
    ['keys', 'usage', 'list_log', 'imports']
      .map(table => `(select from proxylist.${table} limit 1)`)
      .join(' union all '),
  )
  if (found.length === 0) return
  throw new CommandError(
    `the database ${shown} is not empty: give an empty one, or empty it with: ` +
      'drop schema proxylist cascade',
  )
}

/** Other tables may hold rows: built-in plans, and what removed keys left. */
const CLEAR = ['plans', 'networks', 'days', 'feeds'].map(table => `delete from proxylist.${table}`)

async function insertDump(query: Query, { plans, keys, usage, networks }: AccessDump) {
  for (const statement of CLEAR) await query(statement)
  await insertRows(query, 'plans', plans.map(toPlanRow))
  await insertAllKeys(query, keys)
  await insertRows(
    query,
    'usage',
    usage.map(({ kind, id, admissions: at, latestMs: latest, requests }) => ({
      ...{ kind, id, at, latest, day: utcDay(latest), requests },
    })),
  )
  await insertRows(
    query,
    'networks',
    networks.flatMap(({ subject, set: network_set, day, networks: names }) =>
      names.map(network => ({ ...subject, network_set, day, network })),
    ),
  )
}

/**
 * Writes keys, plans and usage into an empty database, and queues the list for the leader, in one transaction; makes
 * its schema where there is none.
 * @throws CommandError when it is not empty or a newer program made its schema, StoreError when it fails.
 */
export const writeDump = (
  order: DatabaseOrder,
  dump: AccessDump,
  list: Iterable<IncomingProxy>,
): Promise<void> =>
  connected(order, async (quick, patient) => {
    await migrate(quick)
    await patient.transaction(async query => {
      await requireEmpty(query, quick.shown)
      await insertDump(query, dump)
      await queueList(query, list)
    })
  })
