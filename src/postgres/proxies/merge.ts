/**
 * Owns how rows of an import become rows of the list (contract D2), as statements: each column of a
 * row `i` of the import is merged with the stored row `s`, which may be missing (all NULL).
 */
import { ROW_COLUMNS, UNKNOWN, UNKNOWN_PING } from '../../proxies/row.ts'
import type { ImportMode } from '../../proxies/store.ts'

/** A column and its merged value; an unknown one keeps what is stored. */
const known = (column: string, unknown: string): [string, string] => [
  column,
  `case when i.${column} = ${unknown} then coalesce(s.${column}, ${unknown}) else i.${column} end`,
]

/**
 * A city that has both names, or meets none, is taken. A name that is already shown changes nothing; a
 * new one replaces both names; an English one alone is added to the stored default one.
 */
const city = (version: number): string => `case
      when i.city = 0 then coalesce(s.city, 0)
      when coalesce(s.city, 0) = 0 or i.city_name <> '' and i.city_name_en <> '' then i.city
      when i.city_name_en = '' then
        case when i.city_name in (s.city_name, s.city_name_en) then s.city else i.city end
      when i.city_name_en = s.city_name_en then s.city
      else proxylist.city_id(s.city_name, i.city_name_en, ${version}) end`

/** Each column besides id and checked_at, with its value after an update. */
const mergeOf = (version: number): readonly (readonly [column: string, merged: string])[] => [
  known('ping_ms', String(UNKNOWN_PING)),
  ['type', 'i.type'],
  known('anon', '0'),
  known('works', String(UNKNOWN)),
  known('speed', String(UNKNOWN)),
  ['services', '(coalesce(s.services, 0) & ~i.stated) | i.services'],
  known('country', '0'),
  ['city', city(version)],
  known('ip_out', "''"),
]

const COLUMNS = ROW_COLUMNS.join(', ')
const VALUES = ROW_COLUMNS.slice(1)
const list = (alias: string, columns: readonly string[]): string =>
  columns.map(column => `${alias}.${column}`).join(', ')

/** A table for the rows as they come; `position` is their order, `stated` the services they state. */
export const STAGE = `
  drop table if exists pg_temp.incoming;
  create temporary table incoming (
    position integer not null, id bigint not null, checked_at bigint not null,
    ping_ms bigint not null, type smallint not null, anon smallint not null,
    works smallint not null, speed bigint not null, services integer not null,
    country integer not null, city integer not null, ip_out text not null, stated integer not null)`
export const FILL = `copy pg_temp.incoming from stdin`
/** The newest check of the list, which reads all rows. */
export const NEWEST = 'select max(checked_at)::float8 as newest from proxylist.proxies'
export const UNSTAGE = 'drop table if exists pg_temp.incoming'

type MergeOrder = {
  mode: ImportMode
  /** A stored check after this (Unix seconds) is no check: it was written while a clock was ahead. */
  latest: number
  /** The version of the list that the import makes. */
  version: number
}

/** Resolves the cities of the rows: `$1` are their default names, `$2` their English ones. */
const citiesOf = ({ version }: MergeOrder): string => `
  create temporary table incoming_cities on commit drop as
  select position, name, name_en,
      coalesce(c.id, proxylist.city_id(name, name_en, ${version})) as id
    from unnest($1::text[], $2::text[]) with ordinality as given (name, name_en, position)
    left join proxylist.cities c using (name, name_en)`

/** The rows of the import with their cities, those with an address of their own or the others. */
const incoming = (isRepeated: boolean): string => `
  select ${ROW_COLUMNS.map(column => (column === 'city' ? 'c.id as city' : `r.${column}`)).join(', ')},
      r.stated, r.position, c.name as city_name, c.name_en as city_name_en
    from pg_temp.incoming r join pg_temp.incoming_cities c on c.position = r.city
    where ${isRepeated ? '' : 'not '}exists (select from pg_temp.repeated d where d.id = r.id)`

/** Stored rows with their cities; a replacement compares with none. */
const storedRows = ({ mode }: MergeOrder): string => `
  select ${list('p', ROW_COLUMNS)}, c.name as city_name, c.name_en as city_name_en
    from proxylist.proxies p left join proxylist.cities c on c.id = p.city
    where ${mode === 'merge'}`

/** Whether row `i` has an effect: its check is not older, and something differs. */
const hasEffect = (merge: ReturnType<typeof mergeOf>, latest: number): string => `
      s.id is null or i.checked_at > s.checked_at or s.checked_at > ${latest} or
      i.checked_at = s.checked_at and (${merge.map(([column]) => `s.${column}`).join(', ')})
        is distinct from (${merge.map(([, merged]) => merged).join(', ')})`

/**
 * What rows that are alone with their address write. `writes` counts what they do to a row, `is_new` is
 * whether it was merged with none.
 */
const mergeSingle = (order: MergeOrder): string => {
  const merge = mergeOf(order.version)
  const merged = new Map([['id', 'i.id'], ['checked_at', 'i.checked_at'], ...merge])
  return `
  create temporary table merged on commit drop as
  select ${ROW_COLUMNS.map(column => `${merged.get(column)} as ${column}`).join(',\n    ')},
      1 as writes, s.id is null as is_new
    from (${incoming(false)}) i left join (${storedRows(order)}) s on s.id = i.id
    where ${hasEffect(merge, order.latest)}`
}

/**
 * What several rows of one address write, each after the other. One pass in the order of rows, for a
 * file may repeat an address a million times.
 */
const mergeRepeated = (order: MergeOrder): string => {
  const merge = mergeOf(order.version)
  const write = `if writes > 0 then
          insert into pg_temp.merged values (${list('s', ROW_COLUMNS)}, writes, is_new);
        end if;`
  return `
  do $$
  declare
    i record;
    s record;
    address bigint;
    writes integer := 0;
    is_new boolean;
  begin
    for i in ${incoming(true)} order by r.id, r.position loop
      if address is distinct from i.id then
        ${write}
        address := i.id;
        writes := 0;
        select * into s from (${storedRows(order)}) stored where stored.id = i.id;
        is_new := s.id is null;
      end if;
      if ${hasEffect(merge, order.latest)} then
        s.id := i.id;
        s.checked_at := i.checked_at;
        ${merge.map(([column, merged]) => `s.${column} := ${merged};`).join('\n        ')}
        select name, name_en into s.city_name, s.city_name_en
          from proxylist.cities where id = s.city;
        writes := writes + 1;
      end if;
    end loop;
    ${write}
  end $$`
}

const REPEATED = `
  create temporary table repeated on commit drop as
  select id from pg_temp.incoming group by id having count(*) > 1`

/**
 * The statements of a merge, in their order. Its result is in a temporary table before anything is
 * written, because a replacement has to be approved.
 */
export function mergeSql(order: MergeOrder) {
  const { mode, version } = order
  const isMerge = mode === 'merge'
  return {
    analyze: 'analyze pg_temp.incoming (id)',
    cities: citiesOf(order),
    repeated: REPEATED,
    single: mergeSingle(order),
    each: mergeRepeated(order),
    analyzeMerged: 'analyze pg_temp.merged (id)',
    /** What the merge has made. */
    summary: `
    select count(*)::float8 as rows, coalesce(sum(writes), 0)::float8 as written,
      max(checked_at)::float8 as newest, min(checked_at)::float8 as oldest from pg_temp.merged`,
    /** Removes what is not among the rows of a replacement. */
    remove: `
    with gone as (
      delete from proxylist.proxies p
        where not exists (select from pg_temp.merged m where m.id = p.id) returning p.id
    )
    insert into proxylist.removed select id, ${version} from gone
      on conflict (id) do update set version = excluded.version`,
    update: `
    update proxylist.proxies p
      set ${VALUES.map(column => `${column} = m.${column}`).join(', ')}, version = ${version}
      from pg_temp.merged m where p.id = m.id and
        ${isMerge ? 'not m.is_new' : `(${list('p', VALUES)}) is distinct from (${list('m', VALUES)})`}`,
    insert: `
    insert into proxylist.proxies (${COLUMNS}, version)
    select ${COLUMNS}, ${version} from pg_temp.merged m
      where ${isMerge ? 'm.is_new' : 'not exists (select from proxylist.proxies p where p.id = m.id)'}`,
  }
}
