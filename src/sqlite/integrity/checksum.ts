/**
 * Owns the checksum of the list: numbers that change with any bit of a row. SQLite's own check
 * reads the structure of a file only. Triggers keep the checksum right, whatever changes a row.
 */
import type { Database } from 'bun:sqlite'
import { ROW_COLUMNS } from '../../proxies/row.ts'
import migration from '../proxies/migrations/3-checksum.sql' with { type: 'text' }

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

/** SQL for seven bytes of a string as a number: their hexadecimal digits, read as JSON. */
const sevenBytesSql = (text: string, start: number | string): string =>
  `(('0x0' || hex(substr(cast(${text} as blob), ${start}, 7))) ->> '$')`

/** SQL for a number of a string of any length. */
const textSql = (text: string): string => `(
  with recursive parts (start, sum) as (
    select 1, octet_length(${text}) union all
    select start + 7, (sum * ${BASE} + ${sevenBytesSql(text, 'start')}) % ${PRIME}
    from parts where start <= octet_length(${text})
  ) select sum from parts order by start desc limit 1)`

/** The same for an IPv6 address of up to 45 characters: many times faster than `textSql`. */
const addressSql = (text: string): string =>
  [1, 8, 15, 22, 29, 36, 43].reduce(
    (sum, start) => `((${sum}) * ${BASE} + ${sevenBytesSql(text, start)}) % ${PRIME}`,
    `octet_length(${text})`,
  )

const OUT_NUMBER = `case typeof(ip_out) when 'integer' then ip_out
    when 'text' then iif(ip_out = '', -1, -2 - (${addressSql('ip_out')})) end`

/** The columns of a row as numbers, for `hashSql`. */
export const ROW_NUMBERS = ['id', ...ROW_COLUMNS.slice(1, -1), OUT_NUMBER] as const

/** The hash of a row. The triggers of `3-checksum.sql` compute the same of `new` and `old` rows. */
const HASHES = {
  proxies: hashSql(ROW_NUMBERS),
  cities: hashSql(['id', textSql('name'), textSql('name_en')]),
}

/** Selects what the checksum of the tables should be. */
const COMPUTED = `
  select count(*) as rows, coalesce(sum(${HASHES.proxies}), 0) as proxies,
    (select coalesce(sum(${HASHES.cities}), 0) from cities) as cities
  from proxies not indexed`

/** Whether the tables hold what the checksum says. Reads every row. */
export function isChecksumRight(db: Database): boolean {
  const read = (sql: string) => JSON.stringify(db.prepare(sql).get())
  return read('select rows, proxies, cities from checksum') === read(COMPUTED)
}

export const DAMAGED_LIST = 'the list is damaged; import the whole list with --replace'

/** The triggers that keep the checksum of proxies, as the migration has created them. */
const TRIGGERS = [...migration.matchAll(/create trigger (proxies_\w+)[\s\S]*?\n {2}end;/g)]

/** Lets many rows be written without the checksum; `RESUME` computes it again from the tables. */
export const SUSPEND = TRIGGERS.map(([, name]) => `drop trigger if exists ${name};`).join('\n')
export const RESUME = `
  update checksum
    set (rows, proxies, cities) = (${COMPUTED}), stamped_at = -abs(stamped_at);
  ${TRIGGERS.map(([sql]) => sql).join('\n')}`
