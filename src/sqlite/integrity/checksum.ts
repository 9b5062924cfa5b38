/**
 * Owns the digest of the list: numbers that change with any bit of a row. SQLite's own check
 * looks at the structure of a file only. Triggers keep the digest right, whoever changes a row.
 */
import type { Database } from 'bun:sqlite'
import { ROW_COLUMNS } from '../proxies/row.ts'

/** All arithmetic stays below 2^63, where SQLite would go on in floating point. */
const PRIME = 2 ** 31 - 1
const BASE = 1_000_003

/**
 * A number of some values, the first of them different in every row. A product, because a sum
 * would not see two changes that make up for each other.
 */
export function hashSql([first, ...others]: readonly [string, ...string[]]): string {
  const start = `${first} % ${PRIME}`
  const sum = others.reduce((h, value) => `((${h}) * ${BASE} + (${value})) % ${PRIME}`, start)
  return `(${sum}) * (${first} % ${PRIME - 1} + 1) % ${PRIME}`
}

/** Seven bytes of a text as a number: their hexadecimal digits, read as JSON. */
const pieceSql = (text: string, start: number | string): string =>
  `(('0x0' || hex(substr(cast(${text} as blob), ${start}, 7))) ->> '$')`

/** A number of a text of any length. */
const textSql = (text: string): string => `(
  with recursive pieces (start, sum) as (
    select 1, octet_length(${text}) union all
    select start + 7, (sum * ${BASE} + ${pieceSql(text, 'start')}) % ${PRIME}
    from pieces where start <= octet_length(${text})
  ) select sum from pieces order by start desc limit 1)`

/** A number of an IPv6 address, which has up to 45 characters: many times faster. */
const addressSql = (text: string): string =>
  [1, 8, 15, 22, 29, 36, 43].reduce(
    (sum, start) => `((${sum}) * ${BASE} + ${pieceSql(text, start)}) % ${PRIME}`,
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

const NOW_MS = `cast(unixepoch('subsec') * 1000 as integer)`

/** What the tables hold, as the digest would have it. */
const DIGEST_OF_TABLES = `
  select count(*) as rows, coalesce(sum(${proxyHash()}), 0) as sum,
    (select coalesce(sum(${cityHash()}), 0) from cities) as cities
  from proxies not indexed`

/** Whether the tables hold what the digest says. */
export function isDigestRight(db: Database): boolean {
  const read = (sql: string) => JSON.stringify(db.prepare(sql).get())
  return read('select rows, sum, cities from digest') === read(DIGEST_OF_TABLES)
}

export const DAMAGED_LIST = 'the list is damaged; import the whole list with --replace'

const TABLES = { proxies: ['sum', proxyHash], cities: ['cities', cityHash] } as const
const EVENTS = [
  ['insert', 'new.', ''],
  ['delete', '', 'old.'],
  ['update', 'new.', 'old.'],
] as const

/** The trigger that follows one kind of change of one table. */
function triggerSql(table: keyof typeof TABLES, [event, added, removed]: (typeof EVENTS)[number]) {
  const [sum, hash] = TABLES[table]
  const rows = Number(added !== '') - Number(removed !== '')
  return `create trigger if not exists ${table}_${event} after ${event} on ${table} begin
    update digest set written_at = ${NOW_MS},
      rows = rows + ${table === 'proxies' ? rows : 0},
      ${sum} = ${sum} + ${added && hash(added)} ${removed && `- ${hash(removed)}`};
  end;`
}

/** Writes the digest of the tables as they are. */
const RENEW = `
  delete from digest;
  insert into digest select rows, sum, cities, ${NOW_MS} from (${DIGEST_OF_TABLES});`

/** The second version of the schema: the digest, and what keeps it. */
export const DIGEST_SCHEMA = `
-- One row: how many proxies, the sums of the hashes of proxies and of cities, and when (Unix ms).
create table digest (
  rows integer not null,
  sum integer not null,
  cities integer not null,
  written_at integer not null
) strict;
${RENEW}
${EVENTS.map(event => triggerSql('cities', event)).join('\n')}
${EVENTS.map(event => triggerSql('proxies', event)).join('\n')}`

/** Lets many rows be written without their digest; `RESUME` reckons it anew from the tables. */
export const SUSPEND = EVENTS.map(([event]) => `drop trigger proxies_${event};`).join('\n')
export const RESUME = `${RENEW}\n${EVENTS.map(event => triggerSql('proxies', event)).join('\n')}`
