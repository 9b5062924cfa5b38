/**
 * Reading and writing all of a database, as the values that are moved to another store
 * (`move/contents.ts`): as of one moment, and all or nothing.
 */
import type { NetworkSet } from '../access/network-quota.ts'
import type { Subject } from '../access/rate-limit.ts'
import type { FeedState } from '../feeds/store.ts'
import { timerLater } from '../lib/clock.ts'
import { CommandError, orAborted } from '../lib/errors.ts'
import {
  type Contents,
  type Counts,
  isBuiltIn,
  linesOf,
  type Reader,
  textOf,
  type Writer,
} from '../move/contents.ts'
import type { Versions } from '../node/ports.ts'
import { ROW_COLUMNS, type Row } from '../proxies/row.ts'
import { arrayLiteral } from './arrays.ts'
import {
  type ListState,
  lockList,
  nextKeysVersion,
  storeKeysVersion,
  storeListVersion,
} from './change-numbers.ts'
import { toRow, versions } from './changes.ts'
import {
  type Connection,
  insertRows,
  noAnswer,
  onlyRow,
  openConnection,
  type Query,
  SNAPSHOT,
} from './connection.ts'
import { LOCK_NOT_FREE, stateOf } from './errors.ts'
import { readLines } from './feeds.ts'
import { migrate, schemaState } from './migrate.ts'
import { createNodes } from './nodes.ts'
import { insertKeys, PATIENT, readStoredKeys, selectPlans, toPlanRow } from './registry.ts'
import {
  decodeNetworks,
  encodeNetworks,
  LENGTHENED,
  NETWORKS_HEX,
  NETWORKS_SIZE,
  shortened,
} from './usage/networks.ts'

const PAGE_ROWS = 2_000

let cursors = 0

/** The rows of a select, as JSON, through a cursor: so none of them waits in memory. */
async function* rowsOf<T>(query: Query, select: string): AsyncGenerator<T[]> {
  cursors += 1
  const cursor = `moved_${cursors}`
  await query(`declare ${cursor} no scroll cursor for ${select}`)
  for (;;) {
    const page = await query<{ json: string }>(`fetch ${PAGE_ROWS} from ${cursor}`)
    if (page.length > 0) yield page.map(({ json }) => JSON.parse(json) as T) // as the select has it
    if (page.length < PAGE_ROWS) break
  }
  await query(`close ${cursor}`)
}

const objectsOf = <T>(query: Query, select: string): AsyncGenerator<T[]> =>
  rowsOf<T>(query, `select row_to_json(r)::text as json from (${select}) r`)

/**
 * The use of keys by day: what is in `days`, and what subjects still have of a day. Hours are added only where
 * there are two of a day: to call that function for each row takes ten times as long as all else here.
 */
const DAYS = `
  select key_id as "keyId", day, sum(requests) as requests, sum(records) as records,
    sum(refused) as refused, case count(*) when 1 then min(hours) else
      (select proxylist.sum_hours(each::integer[]) from unnest(array_agg(hours::text)) each) end as hours
  from (
    select key_id, day, requests, records, refused, hours from proxylist.days
    union all
    select id, day, (select sum(n) from unnest(hours) n), 0, 0, hours from (
      select case when kind = 'demo' then 'demo' else id end as id, hour / 24 as day,
        case cardinality(hours) when 0 then proxylist.one_hour(hour, hour_requests)
          else proxylist.add_hours(hours, proxylist.one_hour(hour, hour_requests)) end as hours
      from proxylist.usage
      where kind <> 'temp' and (hour_requests <> 0 or cardinality(hours) > 0)
    ) u
  ) d
  where key_id = 'demo' or exists (select from proxylist.keys k where k.id = d.key_id)
  group by key_id, day`

const SEEN = `
  select k.id as "keyId", greatest(k.last_seen, u.latest) as "lastSeenMs"
  from proxylist.keys k left join proxylist.usage u on u.kind = 'key' and u.id = k.id
  where greatest(k.last_seen, u.latest) > 0`

type NetworkRow = { kind: Subject['kind']; id: string; set: NetworkSet; day: number } & {
  hex: string
  others: string[]
}

const createReader = (query: Query): Reader => ({
  async *plans() {
    yield await selectPlans(query)
  },
  async *keys() {
    yield await readStoredKeys(query)
  },
  seen: () => objectsOf<Contents['seen']>(query, SEEN),
  usage: () =>
    objectsOf<Contents['usage']>(
      query,
      `select kind, id, at as admissions, latest as "latestMs", day, requests from proxylist.usage`,
    ),
  async *networks() {
    const pages = objectsOf<NetworkRow>(
      query,
      `select kind, id, network_set as "set", day, ${NETWORKS_HEX} as hex, others
       from proxylist.networks n where ${NETWORKS_SIZE} > 0`,
    )
    for await (const page of pages) {
      yield page.map(({ kind, id, set, day, hex, others }) => ({
        ...{ subject: { kind, id }, set, day },
        networks: decodeNetworks(set, hex, others),
      }))
    }
  },
  days: () => objectsOf<Contents['days']>(query, DAYS),
  cities: () =>
    objectsOf<Contents['cities']>(
      query,
      'select id, name, name_en as "nameEn" from proxylist.cities',
    ),
  async *proxies() {
    const select = `select json_build_array(${ROW_COLUMNS.join(', ')})::text as json
      from proxylist.proxies`
    for await (const page of rowsOf<(number | string)[]>(query, select)) yield page.map(toRow)
  },
  async *feeds() {
    type FeedRow = { id: string; state: FeedState }
    const pages = objectsOf<FeedRow>(query, 'select id, state from proxylist.feeds')
    for await (const page of pages) yield page.map(({ id, state }) => ({ id, ...state }))
  },
  async *feedLines() {
    yield linesOf(await readLines(query))
  },
})

/** How many rows there are of each part; of plans, those that are not as at the start. */
async function countRows(query: Query): Promise<Counts> {
  const tables = ['keys', 'usage', 'networks', 'days', 'cities', 'proxies', 'feeds']
  const columns = tables.map(name => `(select count(*) from proxylist.${name})::float8 as ${name}`)
  const feedLines = linesOf(await readLines(query)).length
  const counts = await onlyRow<Counts>(query, `select 0 as seen, ${columns.join(', ')}`)
  const plans = (await selectPlans(query)).filter(plan => !isBuiltIn(plan)).length
  return { ...counts, plans, feedLines }
}

const INSERT_PROXIES = `insert into proxylist.proxies (${ROW_COLUMNS.join(', ')}, version)
  select *, $${ROW_COLUMNS.length + 1}::bigint from unnest(${ROW_COLUMNS.map(
    (column, i) => `$${i + 1}::${column === 'ip_out' ? 'text' : 'bigint'}[]`,
  ).join(', ')})`

/** A list has a million rows: as arrays they take half the time that JSON takes. */
async function insertProxies(query: Query, page: readonly Row[], version: number): Promise<void> {
  const columns = ROW_COLUMNS.map((column, i) =>
    arrayLiteral(page.map(row => (column === 'ip_out' ? String(row[i]) : (row[i] ?? null)))),
  )
  await query(INSERT_PROXIES, [...columns, String(version)])
}

const INSERT_NETWORKS = `insert into proxylist.networks (kind, id, network_set, day, networks, others)
  select kind, id, "set", day, ${LENGTHENED}, others from json_to_recordset($1::text::json)
    as r (kind text, id text, "set" text, day integer, networks text, others text[])`

async function insertNetworks(query: Query, page: readonly Contents['networks'][]): Promise<void> {
  const rows = page.map(({ subject, set, day, networks }) => {
    const encoded = encodeNetworks(set, networks)
    return { ...subject, set, day, ...encoded, networks: shortened(encoded.networks) }
  })
  await query(INSERT_NETWORKS, [JSON.stringify(rows)])
}

/** Writes into a database without data. `began` are the numbers of the changes of keys and list. */
function createWriter(query: Query, began: { keys: number; list: number }): Writer {
  /** What inserts pages into a table; `columnsOf` are those of a row. */
  const into =
    <R>(table: string, columnsOf: (row: R) => { readonly [column: string]: unknown }) =>
    (page: readonly R[]): Promise<void> =>
      insertRows(query, table, page.map(columnsOf))
  return {
    plans: into('plans', toPlanRow),
    keys: page => insertKeys(query, page, began.keys),
    async seen(page) {
      await query(
        `update proxylist.keys k set last_seen = s."lastSeenMs"
         from json_to_recordset($1::text::json) as s ("keyId" text, "lastSeenMs" bigint)
         where k.id = s."keyId"`,
        [JSON.stringify(page)],
      )
    },
    usage: into('usage', ({ kind, id, admissions: at, latestMs: latest, day, requests }) => ({
      ...{ kind, id, at, latest, day, requests },
    })),
    networks: page => insertNetworks(query, page),
    days: into('days', ({ keyId, day, requests, records, refused, hours }) => ({
      ...{ key_id: keyId, day, requests, records, refused, hours },
    })),
    cities: into('cities', ({ id, name, nameEn }) => ({
      ...{ id, name, name_en: nameEn, version: began.list },
    })),
    proxies: page => insertProxies(query, page, began.list),
    feeds: into('feeds', ({ id, ...state }) => ({ id, state })),
    async feedLines(page) {
      await query('update proxylist.feed_lines set lines = lines || $1', [textOf(page)])
    },
  }
}

export type DatabaseOrder = {
  url: string
  /** The longest that is waited for a statement that is quick, in milliseconds. */
  timeoutMs: number
  /** Ends it early, with its reason; the database stays as it was. */
  signal: AbortSignal
  /** The longest that is waited for any answer: on a link that went silent none comes. */
  answerMsMax?: number
}

/** A node that said so within this time runs; each says it every second. */
const RUNNING_SECONDS = 5

/** All that is moved. `installation` comes first, as in every change of keys and plans. */
const TABLES = ['installation', 'plans', 'keys', 'old_secrets', 'removed_keys', 'usage', 'networks']
  .concat(['days', 'list', 'cities', 'proxies', 'removed', 'feeds', 'feed_lines'])
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

/**
 * Works with connections, which are closed at the end: that ends what they have under way. `quick` gives
 * up what hangs; `transaction` takes as long as a move does, unless an answer in it takes too long.
 */
async function connected<T>(
  { url, timeoutMs, signal, answerMsMax = PATIENT.timeoutMs }: DatabaseOrder,
  work: (connected: Pick<Connection, 'transaction'> & { quick: Connection }) => Promise<T>,
): Promise<T> {
  const name = 'proxylist move'
  const quick = openConnection({ url, timeoutMs, name })
  const patient = openConnection({ url, timeoutMs: null, name })
  const silent = new AbortController()
  const ask = () => timerLater(() => silent.abort(noAnswer(quick.shown)), answerMsMax)
  const transaction: Connection['transaction'] = (work, mode) => {
    let answered = ask()
    const bounded = async (query: Query) => {
      answered()
      const each: Query = (text, values) => query<never>(text, values).finally(ask())
      return work(each).finally(() => (answered = ask())) // to its commit, or what undoes it
    }
    return patient.transaction(bounded, mode).finally(() => answered())
  }
  try {
    return await orAborted(work({ quick, transaction }), AbortSignal.any([signal, silent.signal]))
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

/** A database that is read as of one moment. */
export type ReadDatabase = Awaited<ReturnType<typeof readIn>>

/**
 * Reads a database, as of one moment. One that `mustRest` is moved away from: no node may run, and nobody can
 * write meanwhile. @throws CommandError when it holds nothing, or is in use; StoreError when it fails.
 */
export const readDatabase = <T>(
  order: DatabaseOrder,
  mustRest: boolean,
  work: (database: ReadDatabase) => Promise<T>,
): Promise<T> =>
  connected(order, async ({ quick, transaction }) => {
    await requireSchema(quick)
    if (mustRest) await requireRest(quick)
    return transaction(async query => {
      if (mustRest) await lockTables(query, 'share') // before the moment that is read
      if (mustRest) await requireRest(quick) // a node that was started since then
      return work(await readIn(query, quick.shown))
    }, SNAPSHOT)
  })

/** `id` is that of its installation. */
async function readIn(query: Query, shown: string) {
  const { list } = await versions({ query, shown })
  return { reader: createReader(query), counts: await countRows(query), id: list.database, shown }
}

/** What is there is no data: the plans of a start, and traces of earlier data. */
const CLEAR = ['plans', 'old_secrets', 'removed_keys', 'cities', 'removed'].map(
  table => `delete from proxylist.${table}`,
)

const EXTENT = `select count(*)::float8 as rows, max(checked_at)::float8 as newest,
  min(checked_at)::float8 as oldest from proxylist.proxies`

export type WrittenDatabase = ReturnType<typeof written>

/** A database that is written; nothing is visible before the end. `counts`: what it holds at first. */
function written(query: Query, shown: string, counts: Counts) {
  const began = { keys: 0, list: 0 }
  return {
    ...{ reader: createReader(query), counts, shown },
    /** Where it stands now. */
    versions: (): Promise<Versions> => versions({ query, shown }),
    /** Removes what is no data, and returns what writes into it. */
    async begin(): Promise<Writer> {
      for (const statement of CLEAR) await query(statement)
      began.keys = await nextKeysVersion(query)
      began.list = (await lockList(query)).version + 1
      return createWriter(query, began)
    },
    /** Ends the writing; returns the versions that it has then. */
    async finish(): Promise<Versions> {
      await storeKeysVersion(query, began.keys)
      const extent = await onlyRow<Omit<ListState, 'version'>>(query, EXTENT)
      await storeListVersion(query, { ...extent, version: began.list })
      // Copies of what was there before are made again as a whole.
      await query('update proxylist.list set removed_before = version')
      for (const of of ['list', 'keys'] as const) {
        await query(`delete from proxylist.${of}_versions where version < $1::float8`, [began[of]])
      }
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
  return connected({ ...order, signal: ending.signal }, async ({ quick, transaction }) => {
    signal.throwIfAborted()
    await migrate(quick)
    return transaction(async query => {
      await lockTables(query, 'exclusive')
      const result = await work(written(query, quick.shown, await countRows(query)))
      signal.throwIfAborted()
      signal.removeEventListener('abort', end)
      return result
    })
  }).finally(() => signal.removeEventListener('abort', end))
}
