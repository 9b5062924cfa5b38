/**
 * Owns the names of columns (CSV) and members (JSON) that a row may have: those of a record, some
 * that only files have, and those under which other tools and spreadsheets hold the same. What the
 * values may be is in `row.ts`; how a row of other names becomes one of ours is in `translate.ts`.
 */
import { memberNames } from '../../api/render.ts'
import { nearest } from '../../lib/did-you-mean.ts'
import { CommandError } from '../../lib/errors.ts'

/** The provider's service may be written with underscores instead of spaces. */
export const underscored = (provider: string): string => provider.replaceAll(' ', '_')

/** Every name that a row may have; all others are ignored. `provider`: the provider's service. */
export const knownColumns = (provider: string): ReadonlySet<string> =>
  new Set([...memberNames(provider), underscored(provider), 'city_en', 'checked_at'])

/** What the operator says of columns: their fields by name, `IGNORED` for those to leave out. */
export type Mapping = ReadonlyMap<string, string>
export const IGNORED = '-'

/**
 * @throws CommandError (usage) when a column is given a field that no record has; `where` is what
 *   gives it.
 */
export function checkMapping(
  mapping: Mapping | undefined,
  provider: string,
  where = '--map',
): void {
  const known = knownColumns(provider)
  for (const field of mapping?.values() ?? []) {
    if (known.has(field) || field === IGNORED) continue
    const near = nearest(field, [...known])
    const hint =
      near === null ? `the fields are ${[...known].join(', ')}` : `did you mean '${near}'?`
    throw new CommandError(`${where}: no field is called '${field.slice(0, 40)}'; ${hint}`, 2)
  }
}

/** What may be shown of a name: what may be a key or a row is not. */
export const isShowable = (name: string): boolean =>
  /^(?!.*(?:pl_|temp_))[\p{L}\d_. -]{1,24}$/u.test(name)

/** Most names that a message lists. */
const LISTED_MAX = 20

/**
 * Finds out which names of a mapping no row has: `saw` is called with the members of rows.
 * `check` @throws CommandError naming one of them.
 */
export function createMappingCheck(mapping: Mapping = new Map()) {
  const unseen = new Set(mapping.keys())
  const others = new Set<string>()
  return {
    saw(members: readonly string[]): void {
      for (const name of unseen) {
        const isIt = (member: string): boolean =>
          normalise(member) === normalise(name) || member === columnName(Number(name))
        if (members.some(isIt)) unseen.delete(name)
      }
      if (unseen.size === 0) return
      for (const member of members) if (others.size < LISTED_MAX) others.add(member)
    },
    check(): void {
      const [name] = unseen
      if (name === undefined || others.size === 0) return
      const shown = [...others].filter(isShowable)
      const near = nearest(name, shown)
      const hint = near === null ? `there are ${shown.join(', ')}` : `did you mean '${near}'?`
      throw new CommandError(
        `--map: no column or member is called '${name.slice(0, 40)}'; ${hint}; nothing was imported`,
      )
    },
  }
}

/** A name as it is compared: `IP Address`, `ip_address` and `ipAddress` are one. */
export const normalise = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')

/**
 * The names of each field, the one to prefer first; `a.b` is member b of a. A field is taken from
 * the first of them that holds a value.
 */
const SYNONYMS: { readonly [field: string]: readonly string[] } = {
  ip: [
    ...['ip', 'ip address', 'ip addr', 'host', 'hostname', 'address', 'addr', 'server'],
    ...['proxy ip', 'proxy address', 'proxy host', 'ip port', 'proxy', 'ip адрес', 'адрес'],
  ],
  port: ['port', 'proxy port', 'порт'],
  type: ['type', 'protocol', 'protocols', 'types', 'proto', 'proxy type', 'scheme', 'тип'],
  anon: [
    ...['anon', 'anonymity', 'anonymity level', 'anon level', 'anonymous level', 'level'],
    ...['types.level', 'анонимность'],
  ],
  ping: [
    ...['ping', 'response time', 'resp time', 'avg resp time', 'average response time', 'timeout'],
    ...['average timeout', 'latency', 'delay', 'response'],
  ],
  speed: ['speed', 'download speed'],
  works: ['works', 'working percent', 'uptime', 'success rate', 'error rate', 'stability'],
  country: [
    ...['country code', 'country iso', 'iso code', 'cc', 'code', 'ip data.country code'],
    ...['geo.country.code', 'geolocation.country.iso code', 'geolocation.country', 'country'],
    'страна',
  ],
  city: [
    ...['city', 'ip data.city', 'geo.city', 'geolocation.city.names.ru'],
    ...['geolocation.city.names.en', 'geolocation.city', 'город'],
  ],
  city_en: ['city_en', 'geolocation.city.names.en'],
  ip_out: ['ip_out', 'exit ip', 'out ip', 'outgoing ip', 'external ip', 'egress ip'],
  timecheck: ['timecheck'],
  checked_at: [
    ...['checked_at', 'last checked', 'last check', 'last seen', 'last tested', 'checked'],
    ...['last updated', 'updated at', 'last update', 'update time', 'updated', 'timestamp'],
  ],
  smtp: ['smtp'],
  telegram: ['telegram'],
  avito: ['avito'],
  google: ['google', 'google passed'],
}

/** What a row may say beside its fields, and the names of it. */
const FACTS = {
  /** A proxy of type http that takes https too. */
  https: ['https', 'ssl', 'is https', 'tls', 'supports https', 'https support'],
  anonymous: ['is anonymous'],
  /** False when the source found the proxy dead. */
  alive: ['alive', 'is alive', 'is valid', 'is working', 'working'],
  secret: ['username', 'user', 'login', 'password', 'pass', 'passwd'],
} as const
export type Fact = keyof typeof FACTS

/** The unit that a name ends with, as in `ping_ms` or `Latency (s)`. */
const UNIT = /^(?<name>.+?)(?<unit>ms|msec|milliseconds|s|sec|seconds)$/

/** Where a field of a row may be: `path` has normalised names; `unit` is that of the name. */
export type Place = {
  path: readonly string[]
  rank: number
  unit: 'ms' | 's' | undefined
}
/** What a column or member is good for. */
export type Meaning =
  | { kind: 'field'; field: string; places: readonly Place[] }
  | { kind: 'fact'; fact: Fact }
  | { kind: 'ignored' }

export type Names = {
  /** The meanings of a column or member, by its name. */
  meaningsOf(name: string): readonly Meaning[]
  /** Whether this name can hold the address. */
  isAddress(name: string): boolean
  /** Whether the operator has given columns names of ours. */
  hasMapping: boolean
}

/** A place for each path of each field, by the first name of the path. */
function tableOf(provider: string): Map<string, Meaning[]> {
  const table = new Map<string, Meaning[]>()
  const add = (name: string, meaning: Meaning): void => {
    table.set(name, [...(table.get(name) ?? []), meaning])
  }
  for (const [field, paths] of [...Object.entries(SYNONYMS), [provider, [provider]] as const]) {
    const byFirst = new Map<string, Place[]>()
    for (const [rank, path] of paths.entries()) {
      const [first = '', ...rest] = path.split('.').map(normalise)
      const places = byFirst.get(first) ?? []
      byFirst.set(first, [...places, { path: rest, rank, unit: undefined }])
    }
    for (const [first, places] of byFirst) add(first, { kind: 'field', field, places })
  }
  for (const [fact, names] of Object.entries(FACTS)) {
    for (const name of names) add(normalise(name), { kind: 'fact', fact: fact as Fact }) // a key of the table
  }
  return table
}

const NO_MEANING: readonly Meaning[] = []

/** Finds meanings by name; `mapping` wins over the table. */
export function createNames(provider: string, mapping: Mapping = new Map()): Names {
  const table = tableOf(provider)
  const given = new Map<string, Meaning[]>()
  for (const [name, field] of mapping) {
    const known = field === underscored(provider) ? provider : field
    const first = { path: [], rank: -1, unit: undefined }
    const meaning: Meaning =
      field === IGNORED ? { kind: 'ignored' } : { kind: 'field', field: known, places: [first] }
    given.set(normalise(name), [meaning])
    if (/^\d+$/.test(name)) given.set(normalise(columnName(Number(name))), [meaning])
  }

  function meaningsOf(name: string): readonly Meaning[] {
    const key = normalise(name)
    const known = given.get(key) ?? table.get(key)
    if (known) return name.startsWith('__') ? NO_MEANING : known // `__proto__` is no `proto`
    const { name: bare = '', unit = '' } = UNIT.exec(key)?.groups ?? {}
    const ping = table.get(bare)?.find(meaning => isField(meaning, 'ping'))
    if (ping?.kind !== 'field') return NO_MEANING
    const inUnit = unit.startsWith('m') ? ('ms' as const) : ('s' as const)
    return [{ ...ping, places: ping.places.map(place => ({ ...place, unit: inUnit })) }]
  }

  return {
    meaningsOf,
    isAddress: name => meaningsOf(name).some(meaning => isField(meaning, 'ip')),
    hasMapping: mapping.size > 0,
  }
}

const isField = (meaning: Meaning, field: string): boolean =>
  meaning.kind === 'field' && meaning.field === field

/** The name of a column, counted from 1, that has none. */
export const columnName = (position: number): string => `column ${position}`
