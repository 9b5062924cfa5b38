/** Reads and writes keys, plans and usage of a shared database as a whole. */
import type { AccessDump, UsedNetworks } from '../access/dump.ts'
import { BUILT_IN_PLANS, type Plan } from '../access/plan.ts'
import type { Subject, Usage } from '../access/rate-limit.ts'
import { CommandError, orAborted, UnknownOutcome } from '../lib/errors.ts'
import { utcDay } from '../lib/time.ts'
import { nextKeysVersion, storeKeysVersion } from './change-numbers.ts'
import {
  type Connection,
  insertRows,
  onlyRow,
  openConnection,
  type Query,
  SNAPSHOT,
} from './connection.ts'
import { installationOf, migrate, schemaState } from './migrate.ts'
import { insertKeys, PATIENT, readStoredKeys, selectPlans, toPlanRow } from './registry.ts'
import {
  decodeNetworks,
  encodeNetworks,
  LENGTHENED,
  NETWORKS_HEX,
  NETWORKS_SIZE,
  shortened,
} from './usage/networks.ts'

export type DatabaseOrder = {
  url: string
  /** Timeout of quick statements, in milliseconds. */
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

/** The rows of a select as JSON, which keeps large integers exact. */
async function selectJson<R>(query: Query, select: string): Promise<R[]> {
  const rows = await query<{ json: string }>(
    `select row_to_json(r)::text as json from (${select}) r`,
  )
  return rows.map(({ json }) => JSON.parse(json) as R) // the columns of `select`
}

type NetworkRow = Pick<UsedNetworks, 'set' | 'day'> & Subject & { hex: string; others: string[] }

const USAGE =
  'select kind, id, at as admissions, latest as "latestMs", requests from proxylist.usage'
const NETWORKS = `
  select kind, id, network_set as "set", day, ${NETWORKS_HEX} as hex, others
  from proxylist.networks n where ${NETWORKS_SIZE} > 0`

/**
 * Reads a database as of one moment, while nodes use it; `installation` is its id.
 * @throws CommandError when it has no schema, StoreError when it fails.
 */
export const readDump = (
  order: DatabaseOrder,
): Promise<{ dump: AccessDump; installation: string; shown: string }> =>
  connected(order, async (quick, patient) => {
    const { shown } = quick
    if ((await schemaState(quick)) === 'none') {
      throw new CommandError(`the database ${shown} holds nothing of proxylist`)
    }
    await migrate(quick)
    const installation = await installationOf(quick)
    const dump = await patient.transaction(async query => {
      const networks = await selectJson<NetworkRow>(query, NETWORKS)
      return {
        plans: await selectPlans(query),
        keys: await readStoredKeys(query),
        usage: await selectJson<Subject & Usage>(query, USAGE),
        networks: networks.map(({ kind, id, set, day, hex, others }) => ({
          ...{ subject: { kind, id }, set, day },
          networks: decodeNetworks(set, hex, others),
        })),
      }
    }, SNAPSHOT)
    return { dump, installation, shown }
  })

type Counts = { keys: number; subjects: number; proxies: number; plans: number }

/** Rows of a database. Unchanged built-in plans do not count. */
async function countRows(query: Query): Promise<Counts> {
  const counts = await onlyRow<Omit<Counts, 'plans'>>(
    query,
    `select (select count(*) from proxylist.keys)::float8 as keys,
       (select count(*) from proxylist.usage)::float8 as subjects,
       (select rows from proxylist.list)::float8 as proxies`,
  )
  const isBuiltIn = (plan: Plan): boolean => BUILT_IN_PLANS.some(own => Bun.deepEquals(own, plan))
  const plans = (await selectPlans(query)).filter(plan => !isBuiltIn(plan)).length
  return { ...counts, plans }
}

/** @throws CommandError when a database holds anything that a restore would mix with its own. */
async function requireEmpty(query: Query, shown: string): Promise<void> {
  const counts = Object.entries(await countRows(query)).filter(([, rows]) => rows > 0)
  if (counts.length === 0) return
  const found = counts.map(([name, rows]) => `${rows} ${name}`).join(', ')
  throw new CommandError(
    `the database ${shown} is not empty (${found}): give an empty one, ` +
      'or empty it with: drop schema proxylist cascade',
  )
}

/** Removes built-in plans, and traces of earlier data, from an empty database. */
const CLEAR = ['plans', 'old_secrets', 'removed_keys', 'networks', 'days', 'feeds'].map(
  table => `delete from proxylist.${table}`,
)

const INSERT_NETWORKS = `
  insert into proxylist.networks (kind, id, network_set, day, networks, others)
  select kind, id, "set", day, ${LENGTHENED}, others from json_to_recordset($1::text::json)
    as r (kind text, id text, "set" text, day integer, networks text, others text[])`

/** Rows of a statement. */
const SLICE_ROWS = 2_000

async function inSlices<R>(
  rows: readonly R[],
  write: (slice: readonly R[]) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < rows.length; at += SLICE_ROWS) await write(rows.slice(at, at + SLICE_ROWS))
}

async function insertDump(query: Query, dump: AccessDump): Promise<void> {
  const version = await nextKeysVersion(query)
  for (const statement of CLEAR) await query(statement)
  await insertRows(query, 'plans', dump.plans.map(toPlanRow))
  await inSlices(dump.keys, keys => insertKeys(query, keys, version))
  await inSlices(dump.usage, usage =>
    insertRows(
      query,
      'usage',
      usage.map(({ kind, id, admissions: at, latestMs: latest, requests }) => ({
        ...{ kind, id, at, latest, day: utcDay(latest), requests },
      })),
    ),
  )
  await inSlices(dump.networks, networks =>
    query(INSERT_NETWORKS, [
      JSON.stringify(
        networks.map(({ subject, set, day, networks }) => {
          const encoded = encodeNetworks(set, networks)
          return { ...subject, set, day, ...encoded, networks: shortened(encoded.networks) }
        }),
      ),
    ]),
  )
  await storeKeysVersion(query, version)
  // Nodes copy keys and plans as a whole: removals before this version are not known.
  await query('delete from proxylist.keys_versions where version < $1::float8', [version])
}

/**
 * Writes keys, plans and usage into an empty database, in one transaction; makes its schema where there is none.
 * @throws CommandError when it is not empty or a newer program made its schema, StoreError when it fails.
 */
export const writeDump = (order: DatabaseOrder, dump: AccessDump): Promise<void> =>
  connected(order, async (quick, patient) => {
    await migrate(quick)
    await patient
      .transaction(async query => {
        await requireEmpty(query, quick.shown)
        await insertDump(query, dump)
      })
      .catch((error: unknown) => {
        if (!(error instanceof UnknownOutcome)) throw error
        const remedy = 'proxylist keys list shows whether the keys are restored'
        throw new CommandError(`${error.message}; ${remedy}`)
      })
  })
