/**
 * Owns reading all of a database, as the values that are moved to another store
 * (`move/contents.ts`). Everything within one transaction of the caller.
 */
import type { NetworkSet } from '../../access/network-quota.ts'
import type { Subject } from '../../access/rate-limit.ts'
import { type Contents, type Counts, isBuiltIn, type Reader } from '../../move/contents.ts'
import { readStored } from '../access/key-dump.ts'
import { select as selectPlans } from '../access/plans.ts'
import type { Query } from '../connection.ts'
import type { Value } from '../proxies/binary-copy.ts'
import { toRow } from '../proxies/read.ts'
import { onlyRow } from '../rows.ts'
import { decodeNetworks, NETWORKS_HEX, NETWORKS_SIZE } from '../usage/networks.ts'

/** Rows of a page. */
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

/** The same for rows with names. */
const objectsOf = <T>(query: Query, select: string): AsyncGenerator<T[]> =>
  rowsOf<T>(query, `select row_to_json(r)::text as json from (${select}) r`)

async function* mapped<A, B>(pages: AsyncIterable<A[]>, map: (row: A) => B): AsyncGenerator<B[]> {
  for await (const page of pages) yield page.map(map)
}

async function* onePage<T>(read: () => Promise<T[]>): AsyncGenerator<T[]> {
  const page = await read()
  if (page.length > 0) yield page
}

/** The use of keys by day: what is in `days`, and what subjects still have of a day. */
const DAYS = `
  select key_id as "keyId", day, sum(requests) as requests, sum(records) as records,
    sum(refused) as refused, proxylist.sum_hours(hours) as hours
  from (
    select key_id, day, requests, records, refused, hours from proxylist.days
    union all
    select id, day, proxylist.total(hours), 0, 0, hours from (
      select case when kind = 'demo' then 'demo' else id end as id, hour / 24 as day,
        proxylist.add_hours(hours, proxylist.one_hour(hour, hour_requests)) as hours
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

const FEEDS = `
  select id, source, last_success_at as "lastSuccessAt", rows, rejected, error, failures,
    next_try_at as "nextTryAt", attempts, options,
    json_build_object('etag', etag, 'lastModified', last_modified, 'digest', digest) as validators
  from proxylist.feeds`

type NetworkRow = { kind: Subject['kind']; id: string; set: NetworkSet; day: number } & {
  hex: string
  others: string[]
}

export const createReader = (query: Query): Reader => ({
  plans: () => onePage(() => selectPlans(query, null)),
  keys: () => onePage(() => readStored(query, -1)),
  seen: () => objectsOf<Contents['seen']>(query, SEEN),
  usage: () =>
    objectsOf<Contents['usage']>(
      query,
      `select kind, id, at as admissions, latest as "latestMs", day, requests from proxylist.usage`,
    ),
  networks: () =>
    mapped(
      objectsOf<NetworkRow>(
        query,
        `select kind, id, network_set as "set", day, ${NETWORKS_HEX} as hex, others
         from proxylist.networks n where ${NETWORKS_SIZE} > 0`,
      ),
      ({ kind, id, set, day, hex, others }) => ({
        ...{ subject: { kind, id }, set, day },
        networks: decodeNetworks(set, hex, others),
      }),
    ),
  days: () => objectsOf<Contents['days']>(query, DAYS),
  cities: () =>
    objectsOf<Contents['cities']>(
      query,
      'select id, name, name_en as "nameEn" from proxylist.cities',
    ),
  proxies: () =>
    mapped(
      rowsOf<Value[]>(
        query,
        `select json_build_array(id, checked_at, ping_ms, type, anon, works, speed, services,
           country, city, ip_out)::text as json from proxylist.proxies`,
      ),
      toRow,
    ),
  feeds: () => objectsOf<Contents['feeds']>(query, FEEDS),
})

/** How many rows there are of each part; of plans, those that are not as at the start. */
export async function countRows(query: Query): Promise<Counts> {
  const counts = await onlyRow<Counts>(
    query,
    `select (select count(*) from proxylist.keys)::float8 as keys, 0 as seen,
       (select count(*) from proxylist.usage)::float8 as usage,
       (select count(*) from proxylist.networks)::float8 as networks,
       (select count(*) from proxylist.days)::float8 as days,
       (select count(*) from proxylist.cities)::float8 as cities,
       (select count(*) from proxylist.proxies)::float8 as proxies,
       (select count(*) from proxylist.feeds)::float8 as feeds`,
  )
  const plans = (await selectPlans(query, null)).filter(plan => !isBuiltIn(plan)).length
  return { ...counts, plans }
}
