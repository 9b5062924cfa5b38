/**
 * Owns the checksum of the list: numbers that change with any bit of a row. SQLite's own check
 * reads the structure of a file only. Triggers keep the checksum right, no matter who changes a row.
 */
import type { Database } from 'bun:sqlite'
import { ROW_COLUMNS } from '../proxies/row.ts'

/** All arithmetic stays below 2^63, where SQLite would continue in floating point. */
const PRIME = 2 ** 31 - 1
const BASE = 1_000_003

/**
 * SQL for a number of some values, the first of them different in every row. A product, because a
 * sum would not see two changes that cancel each other out.
 */
export function hashSql([first, ...others]: readonly [string, ...string[]]): string {
  const start = `${first} % ${PRIME}`
  const sum = others.reduce((h, value) => `((${h}) * ${BASE} + (${value})) % ${PRIME}`, start)
  return `(${sum}) * (${first} % ${PRIME - 1} + 1) % ${PRIME}`
}

/** Seven bytes of a text as a number: their hexadecimal digits, read as JSON. */
const sevenBytesSql = (text: string, start: number | string): string =>
  `(('0x0' || hex(substr(cast(${text} as blob), ${start}, 7))) ->> '$')`

/** A number of a text of any length. */
const textSql = (text: string): string => `(
  with recursive parts (start, sum) as (
    select 1, octet_length(${text}) union all
    select start + 7, (sum * ${BASE} + ${sevenBytesSql(text, 'start')}) % ${PRIME}
    from parts where start <= octet_length(${text})
  ) select sum from parts order by start desc limit 1)`

/** A number of an IPv6 address, which has up to 45 characters: many times faster than `textSql`. */
const addressSql = (text: string): string =>
  [1, 8, 15, 22, 29, 36, 43].reduce(
    (sum, start) => `((${sum}) * ${BASE} + ${sevenBytesSql(text, start)}) % ${PRIME}`,
    `octet_length(${text})`,
  )

/** The hash of a row of the list; `row` is `new.`, `old.` or nothing. */
function proxyHash(row = ''): string {
  const [id, ...others] = ROW_COLUMNS.slice(0, -1).map(column => row + column)
  const out = `${row}ip_out`
  const outNumber = `case typeof(${out}) when 'integer' then ${out}
    when 'text' then iif(${out} = '', -1, -2 - (${addressSql(out)})) end`
  return hashSql([id ?? '', ...others, outNumber])
}

const cityHash = (row = ''): string =>
  hashSql([`${row}id`, textSql(`${row}name`), textSql(`${row}name_en`)])

/** What the checksum of the tables should be. */
const COMPUTED = `
  select count(*) as rows, coalesce(sum(${proxyHash()}), 0) as proxies,
    (select coalesce(sum(${cityHash()}), 0) from cities) as cities
  from proxies not indexed`

/** Whether the tables hold what the checksum says. Reads every row. */
export function isChecksumRight(db: Database): boolean {
  const read = (sql: string) => JSON.stringify(db.prepare(sql).get())
  return read('select rows, proxies, cities from checksum') === read(COMPUTED)
}

export const DAMAGED_LIST = 'the list is damaged; import the whole list with --replace'

const HASHES = { proxies: proxyHash, cities: cityHash } as const
const EVENTS = [
  ['insert', 'new.', ''],
  ['delete', '', 'old.'],
  ['update', 'new.', 'old.'],
] as const

/** Marks the list as changed since it was stamped, see `file-stamp.ts`. */
const UNSTAMP = 'stamped_at = -abs(stamped_at)'

/** The trigger that follows one kind of change of one table. */
function triggerSql(table: keyof typeof HASHES, [event, added, removed]: (typeof EVENTS)[number]) {
  const hash = HASHES[table]
  const rows = Number(added !== '') - Number(removed !== '')
  return `create trigger ${table}_${event} after ${event} on ${table} begin
    update checksum set ${UNSTAMP},
      rows = rows + ${table === 'proxies' ? rows : 0},
      ${table} = ${table} + ${added && hash(added)} ${removed && `- ${hash(removed)}`};
  end;`
}

const createTriggers = (table: keyof typeof HASHES): string =>
  EVENTS.map(event => triggerSql(table, event)).join('\n')
const dropTriggers = (table: keyof typeof HASHES): string =>
  EVENTS.map(([event]) => `drop trigger if exists ${table}_${event};`).join('\n')

/** The third version of the schema: takes over the table `digest` of the second. */
export const CHECKSUM_SCHEMA = `
${dropTriggers('proxies')}
${dropTriggers('cities')}
-- One row: number of proxies, sums of the hashes of proxies and of cities, and the file stamp.
create table checksum (
  rows integer not null,
  proxies integer not null,
  cities integer not null,
  stamped_at integer not null        -- Unix milliseconds, see file-stamp.ts
) strict;
-- Only a digest of the second version was stamped; one made just now could match the file's time.
insert into checksum select rows, sum, cities, iif(user_version = 2, written_at, 0)
  from digest, pragma_user_version;
drop table digest;
${createTriggers('cities')}
${createTriggers('proxies')}`

/** Lets many rows be written without the checksum; `RESUME` computes it again from the tables. */
export const SUSPEND = dropTriggers('proxies')
export const RESUME = `
  update checksum set (rows, proxies, cities) = (${COMPUTED}), ${UNSTAMP};
  ${createTriggers('proxies')}`
