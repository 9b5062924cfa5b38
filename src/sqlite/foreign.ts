/**
 * What a database from elsewhere may hold. One that passes all checks of SQLite may still have been made by
 * somebody who wants it to be more than data: code in triggers and views, and values that no command accepts,
 * on which the rest of the program relies.
 */
import type { Database } from 'bun:sqlite'
import { KEY_ID, KEY_PREFIX } from '../access/key.ts'
import { DEMO_PLAN, TEMP_PLAN } from '../access/plan.ts'
import { readBurst, readLabel, readLimit, requirePlanName } from '../config/parsers.ts'
import { isStorableName } from '../import/values.ts'
import { CommandError } from '../lib/errors.ts'
import { canonicalIp } from '../lib/ip.ts'
import { DAY_MS } from '../lib/time.ts'
import { fold } from '../proxies/filter.ts'
import { ANONS, SERVICE_SETS, TYPES } from '../proxies/proxy.ts'
import { UNKNOWN, UNKNOWN_PING } from '../proxies/row.ts'
import { ACCESS_SCRIPTS } from './access/file.ts'
import { fromGaps } from './access/subjects.ts'
import { openReading } from './database.ts'
import { isStoreFailure } from './errors.ts'
import {
  objectsMadeBy,
  objectsOf,
  ofNewer,
  refuseForeign,
  type ServerHolds,
  schemaVersion,
} from './migrate.ts'
import { LIST_SCRIPTS } from './proxies/store.ts'

type Value = string | number

/** Selects values, as `value`; `accepts` returns false or throws where no command would write one. */
type Rule = readonly [what: string, select: string, accepts: (value: Value) => unknown]

const none = (): boolean => false

const valuesOf = (table: string, ...columns: string[]): string =>
  columns.map(column => `select ${column} as value from ${table}`).join(' union all ')

/** The last second that `timecheck` can show. */
const LAST_SECOND = Date.parse('9999-12-31T00:00:00Z') / 1000

/** The last instant that has a form as text, and its day. */
const LAST_MS = 8.64e15
const LAST_DAY = LAST_MS / DAY_MS

// What JSON may be in the log of admissions and its snapshot (`access/admission-log.ts`), which the server
// reads as it is.

type Check = (value: unknown) => boolean
const isWhole: Check = n => Number.isSafeInteger(n)
const isBetween =
  (from: number, to: number): Check =>
  n =>
    isWhole(n) && Number(n) >= from && Number(n) <= to
const isCount = isBetween(0, Number.MAX_SAFE_INTEGER)
const isInstant = isBetween(0, LAST_MS)
const isText: Check = text => typeof text === 'string'
const isOneOf =
  (...texts: string[]): Check =>
  text =>
    isText(text) && texts.includes(String(text))
const isKind = isOneOf('key', 'demo', 'temp')
const isList =
  (is: Check, lengthMax = Number.POSITIVE_INFINITY): Check =>
  list =>
    Array.isArray(list) && list.length <= lengthMax && list.every(is)
/** A list of one of these forms. */
const isOf =
  (...forms: (readonly Check[])[]): Check =>
  list =>
    Array.isArray(list) &&
    forms.some(form => form.length === list.length && form.every((is, i) => is(list[i])))

const areGaps: Check = gaps =>
  isList(isWhole)(gaps) && isList(isInstant)(fromGaps(gaps as number[])) // as it was just seen
const areEntries = isList(
  isOf(
    [isKind, isText, isInstant, isCount, isCount],
    [isKind, isText, isInstant],
    [isOneOf('reset'), isText, isInstant, isKind, isOneOf('window', 'day', 'all')],
  ),
)
const areSubjects = isList(
  isOf([isKind, isText, isCount, areGaps], [isKind, isText, isCount, areGaps, isInstant]),
)

const isJson =
  (is: Check) =>
  (text: Value): boolean =>
    is(JSON.parse(String(text)))

/** What a row of the list is, as an import writes it. */
const ROW = `id between 0 and ${2 ** 48 - 1} and id & 65535 > 0
  and checked_at between 0 and ${LAST_SECOND}
  and ping_ms between 0 and ${UNKNOWN_PING}
  and type between 0 and ${TYPES.length - 1}
  and anon between 0 and ${ANONS.length}
  and works between ${UNKNOWN} and 100
  and speed between ${UNKNOWN} and ${Number.MAX_SAFE_INTEGER}
  and services between 0 and ${SERVICE_SETS.length - 1}
  and (country = 0 or country >> 5 between 1 and 26 and country & 31 between 1 and 26)
  and case typeof(ip_out)
    when 'integer' then ip_out between 0 and ${2 ** 32 - 1}
    else typeof(ip_out) = 'text' end
  and (city = 0 or city in (select id from cities))`

const RULES: { readonly [holds in ServerHolds]: readonly Rule[] } = {
  access: [
    ['the name of a plan', valuesOf('plans', 'name'), name => requirePlanName(String(name), '')],
    [
      'a limit of a plan',
      valuesOf('plans', `burst_requests || '/' || burst_seconds || 's'`),
      burst => readBurst(String(burst)),
    ],
    [
      'a plan',
      `select 1 as value from plans
       where enabled not in (0, 1) or (burst_requests is null) <> (burst_seconds is null)`,
      none,
    ],
    [
      'a limit of a plan',
      valuesOf('plans', 'daily', 'subnets', 'clients', 'count', 'downloads'),
      limit => readLimit(String(limit)),
    ],
    ['the id of a key', valuesOf('keys', 'id'), id => KEY_ID.test(String(id))],
    ['the prefix of a key', valuesOf('keys', 'prefix'), text => KEY_PREFIX.test(String(text))],
    [
      'the label or note of a key',
      valuesOf('keys', 'label', 'note'),
      text => readLabel(String(text)),
    ],
    [
      'the plan of a key',
      valuesOf('keys', 'plan'),
      plan => plan !== DEMO_PLAN && plan !== TEMP_PLAN,
    ],
    [
      'the hash of a key',
      `${valuesOf('keys', 'length(hash)')} union all ${valuesOf('old_secrets', 'length(hash)')}`,
      bytes => bytes === 32,
    ],
    [
      'a time',
      `${valuesOf('keys', 'created_at', 'expires_at', 'revoked_at', 'last_seen')}
       union all ${valuesOf('old_secrets', 'expires_at')}`,
      isInstant,
    ],
    ['an admission', valuesOf('batches', 'admissions'), isJson(areEntries)],
    ['the usage of a subject', valuesOf('snapshot', 'usage'), isJson(areSubjects)],
    ['the use of a key', valuesOf('days', 'hours'), isJson(isList(isCount, 24))],
    [
      'the use of a key',
      `select 1 as value from days
       where not (day between 0 and ${LAST_DAY} and requests >= 0 and records >= 0 and refused >= 0)`,
      none,
    ],
    [
      'a batch or a snapshot of admissions',
      `with log as (select count(*) as n, min(id) as first, max(id) as last from batches)
       select 1 as value from log
       where n > 0 and not (first > 0 and last < ${2 ** 52} and last - first + 1 = n)
       union all select 1 from snapshot, log
       where chunk < 0 or through not between 0 and coalesce(last, 0)`,
      none,
    ],
    [
      'a network of a quota',
      `select 1 as value from networks
       where not (subject_kind in ('key', 'demo', 'temp') and network_set in ('served', 'callers')
           and day between 0 and ${LAST_DAY} and network not glob '*[^0-9a-z:./]*')
         and (subject_kind, subject_id, network_set, day, network) <> ('probe', '', '', 0, '')`,
      none,
    ],
  ],
  proxies: [
    [
      'the name of a city',
      valuesOf('cities', 'name', 'name_en'),
      name => isStorableName(String(name)),
    ],
    [
      'the folded name of a city',
      `select json_array(name, folded) as value from cities
       union all select json_array(name_en, folded_en) from cities`,
      names => {
        const [name, folded] = JSON.parse(String(names)) as [string, string] // as they are selected
        return fold(name) === folded
      },
    ],
    ['a row', `select id as value from proxies where not (${ROW}) limit 1`, none],
    [
      'an exit address',
      `select ip_out as value from proxies where typeof(ip_out) = 'text' and ip_out <> ''`,
      ip => String(ip).includes(':') && canonicalIp(String(ip)) === ip,
    ],
    ['the id of a city', 'select seq as value from sqlite_sequence', isBetween(0, 2 ** 48)],
  ],
}

/** Whether a command would have written these values. */
function areAccepted(db: Database, [, select, accepts]: Rule): boolean {
  const rows = db.prepare<{ value: Value | null }, []>(select)
  try {
    for (const { value } of rows.iterate()) {
      if (value !== null && accepts(value) === false) return false
    }
    return true
  } catch (error) {
    if (isStoreFailure(error)) throw error
    return false
  }
}

/** The first thing that an intact database holds and no command of this program writes, as a predicate, or `null`. */
export function foreignContent(db: Database, holds: ServerHolds): string | null {
  const [what] = RULES[holds].find(rule => !areAccepted(db, rule)) ?? []
  return what === undefined ? null : holding(what)
}

const holding = (what: string): string => `holds ${what} that no command of proxylist writes`

/** @throws CommandError when an open database that is intact holds such a thing. */
export function refuseForeignContent(db: Database, holds: ServerHolds): void {
  const problem = foreignContent(db, holds)
  if (problem !== null) throw new CommandError(`${db.filename} ${problem}`)
}

const SCRIPTS = { access: ACCESS_SCRIPTS, proxies: LIST_SCRIPTS }

/**
 * Looks at nothing but the schema, because triggers, views and expressions of indexes are code.
 * @throws CommandError when there is anything in it that the scripts up to its version do not make.
 */
export function refuseForeignSchema(file: string, holds: ServerHolds): void {
  using db = openReading(file)
  refuseForeign(db, file, holds)
  refuseForeignObjects(db, holds)
}

/** As `refuseForeignSchema`, of an open database. */
export function refuseForeignObjects(db: Database, holds: ServerHolds): void {
  const [found, scripts] = [schemaVersion(db), SCRIPTS[holds]]
  if (found > scripts.length) throw new CommandError(ofNewer(db.filename, found, scripts.length))
  const known = objectsMadeBy([...scripts.slice(0, found), 'analyze']) // SQLite may have added statistics
  if (objectsOf(db).isSubsetOf(known)) return
  throw new CommandError(`${db.filename} ${holding('a table, an index, a trigger or a view')}`)
}
