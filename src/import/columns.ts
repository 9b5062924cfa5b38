/**
 * The names of columns (CSV) and members (JSON) that a row may have: those of a record, some that only
 * files have, and those under which other tools and spreadsheets hold the same; and how a row under
 * names of others becomes one under ours. What the values may be is in `row.ts`.
 */
import { memberNames } from '../api/render.ts'
import { nearest } from '../lib/did-you-mean.ts'
import { CommandError } from '../lib/errors.ts'
import type { ProxyType } from '../proxies/proxy.ts'
import {
  bad,
  CREDENTIALS,
  entryToRow,
  flagOf,
  isRecord,
  type RawRow,
  typeOf,
  underscored,
  unlisted,
} from './row.ts'

/** Every name that a row may have; all others are ignored. `provider`: the provider's service. */
const knownColumns = (provider: string): ReadonlySet<string> =>
  new Set([...memberNames(provider), underscored(provider), 'city_en', 'checked_at'])

/** What the operator says of columns: their fields by name, `IGNORED` for those to leave out. */
export type Mapping = ReadonlyMap<string, string>
const IGNORED = '-'

/** @throws CommandError (usage), beginning with `where`, when a column is given a field that no record has. */
export function checkMapping(mapping: Mapping | undefined, provider: string, where = '--map') {
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
type Fact = keyof typeof FACTS

/** The unit that a name ends with, as in `ping_ms` or `Latency (s)`. */
const UNIT = /^(?<name>.+?)(?<unit>ms|msec|milliseconds|s|sec|seconds)$/

/** Where a field of a row may be: `path` has normalised names; `unit` is that of the name. */
export type Place = {
  path: readonly string[]
  rank: number
  unit: 'ms' | 's' | undefined
}
/** What a column or member is good for. */
type Meaning =
  | { kind: 'field'; field: string; places: readonly Place[] }
  | { kind: 'fact'; fact: Fact }
  | { kind: 'ignored' }

export type Names = {
  meaningsOf(name: string): readonly Meaning[]
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

export type Translator = {
  /** Throws `BadField`. `null` when all names are ours: rows stay as they are. */
  translate: ((row: RawRow) => RawRow) | null
  /** Members that mean nothing here. */
  unknown: readonly string[]
  /** Whether rows are complete records of the API, whose ping is in seconds. */
  isRecord: boolean
}

/** Tools whose rows are recognised by members that only they have together. */
type Tool = { members: readonly string[]; ping: 'ms' | 's'; ignored?: string; type?: ProxyType }
const TOOLS: readonly Tool[] = [
  // GeoNode: its `speed` is a class from 1 up.
  { members: ['anonymitylevel', 'responsetime', 'uptime'], ping: 'ms', ignored: 'speed' },
  { members: ['averagetimeout', 'timesalive'], ping: 'ms' }, // ProxyScrape v4
  { members: ['avgresptime', 'errorrate', 'geo'], ping: 's' }, // proxybroker
  { members: ['isanonymous', 'stability', 'latency'], ping: 'ms', type: 'http' }, // scylla
  { members: ['exitip', 'geolocation', 'timeout'], ping: 's' }, // monosans
  { members: ['geolocation', 'proxy', 'score'], ping: 's' }, // proxifly
]

const AS_PERCENT: { readonly [name: string]: (share: number) => number } = {
  errorrate: share => 100 - 100 * share,
  stability: share => 100 * share,
}

type Column = Place & { name: string }
type Columns = {
  fields: ReadonlyMap<string, Column[]>
  facts: ReadonlyMap<Fact, string[]>
  /** Members without a meaning. */
  unknown: readonly string[]
}

function columnsOf(members: readonly string[], names: Names): Columns {
  const fields = new Map<string, Column[]>()
  const facts = new Map<Fact, string[]>()
  const unknown: string[] = []
  const push = <K, T>(map: Map<K, T[]>, key: K, ...items: T[]): void => {
    map.set(key, [...(map.get(key) ?? []), ...items])
  }
  for (const name of members.filter(member => member !== '')) {
    const meanings = names.meaningsOf(name)
    if (meanings.length === 0) unknown.push(name)
    for (const meaning of meanings) {
      if (meaning.kind === 'fact') push(facts, meaning.fact, name)
      if (meaning.kind !== 'field') continue
      push(fields, meaning.field, ...meaning.places.map(place => ({ ...place, name })))
    }
  }
  for (const columns of fields.values()) columns.sort((a, b) => a.rank - b.rank)
  return { fields, facts, unknown }
}

export function createTranslator(
  members: readonly string[],
  names: Names,
  provider: string,
  standardType: ProxyType | undefined,
): Translator {
  const known = knownColumns(provider)
  const others = members.filter(member => !known.has(member))
  if (others.length === 0 && !names.hasMapping) {
    const isRecord = memberNames(provider).every(name => name === 'port' || members.includes(name))
    return { translate: null, unknown: [], isRecord }
  }
  const normalised = new Set(members.map(normalise))
  const tool = TOOLS.find(({ members: marks }) => marks.every(mark => normalised.has(mark)))
  const used = members.filter(member => tool?.ignored !== normalise(member))
  const { fields, facts, unknown } = columnsOf(used, names)
  const isOurs = others.every(member => unknown.includes(member)) && !names.hasMapping
  if (isOurs) return { translate: null, unknown, isRecord: false }
  const plan = {
    fields: [...fields],
    facts,
    pingUnit: tool?.ping,
    toolType: tool?.type,
    standardType,
  }
  const notable = tool === undefined ? unknown : []
  return { translate: row => translate(row, plan), unknown: notable, isRecord: false }
}

type Plan = {
  fields: readonly (readonly [field: string, columns: readonly Column[]])[]
  facts: ReadonlyMap<Fact, readonly string[]>
  pingUnit: 'ms' | 's' | undefined
  /** The type of rows that say none, as their tool means it. */
  toolType: ProxyType | undefined
  standardType: ProxyType | undefined
}

function translate(row: RawRow, plan: Plan): RawRow {
  const { fields, facts, pingUnit, toolType, standardType } = plan
  /** The first member for a fact that is true or false, `null` if none is. */
  const isTrue = (fact: Fact): boolean | null => {
    for (const name of facts.get(fact) ?? []) {
      const flag = flagOf(row[name], name)
      if (flag !== null) return flag
    }
    return null
  }
  if (isTrue('alive') === false) bad('row', 'is marked as not working')
  if ((facts.get('secret') ?? []).some(name => isGiven(row[name]))) bad('ip', CREDENTIALS)
  const translated: { [field: string]: unknown } = Object.create(null)
  for (const [field, columns] of fields) {
    const value = firstValue(row, field, columns, pingUnit)
    if (value !== undefined) translated[field] = value
  }
  if (typeof translated.ip === 'string' && translated.ip.includes('://')) {
    const { ip, ...more } = entryToRow(translated.ip.trim())
    translated.ip = ip
    for (const [field, value] of Object.entries(more)) translated[field] ??= value
  }
  translated.type ??= toolType
  if (isTrue('https') === true && (typeOf(translated.type) || standardType) === 'http') {
    translated.type = 'https'
  }
  if (isTrue('anonymous') === true) translated.anon ??= 'anonymous'
  return translated
}

/** The value of a field in the first column that holds one, in our unit. */
function firstValue(
  row: RawRow,
  field: string,
  columns: readonly Column[],
  pingUnit: Plan['pingUnit'],
): unknown {
  const given = columns
    .map(({ name, path, unit }) => {
      const value = field === 'type' ? row[name] : unlisted(valueAt(row[name], path), field)
      return { name, value, unit: unit ?? pingUnit }
    })
    .filter(({ value }) => isGiven(value))
  if (field === 'country') {
    // The code of the first that is a country; else one that is none, to be rejected.
    const codes = given.map(({ value }) => (isList(value) ? null : countryCode(String(value))))
    return codes.find(code => code !== null) ?? given.at(-1)?.value
  }
  const [first] = given
  if (first === undefined || isList(first.value)) return first?.value
  if (field === 'ping') {
    const lacksUnit = first.unit !== undefined && /^[\d.\s]+$/.test(String(first.value))
    return lacksUnit ? `${first.value}${first.unit}` : first.value
  }
  const convert = AS_PERCENT[normalise(first.name)]
  return convert === undefined ? first.value : convert(Number(first.value))
}

/** A value that becomes no text: what is in it may be anything, and as deep as the row is long. */
const isList = (value: unknown): boolean => Array.isArray(value)

/** The value at a path in a value from JSON; in an array, that of the first record that has one. */
function valueAt(value: unknown, path: readonly string[]): unknown {
  const [first, ...rest] = path
  if (first === undefined) return value
  if (Array.isArray(value)) {
    if (value.some(isList)) bad('row', 'has a list in a list')
    return value.map(item => valueAt(item, path)).find(isGiven)
  }
  if (!isRecord(value)) return undefined
  const name = Object.keys(value).find(member => normalise(member) === first)
  return name === undefined ? undefined : valueAt(value[name], rest)
}

/** Values that other tools write for what they do not know. */
const UNKNOWN = new Set([
  '',
  'unknown',
  'n/a',
  'none',
  'null',
  '-',
  '--',
  '—',
  '?',
  'not available',
])

/** Whether a value says something. */
function isGiven(value: unknown): boolean {
  if (typeof value === 'string') return !UNKNOWN.has(value.trim().toLowerCase())
  return typeof value === 'number' || typeof value === 'boolean' || Array.isArray(value)
}

/** Codes that stand for no country: user-assigned ones of ISO 3166, and those of a whole region. */
const NO_COUNTRY = new Set(['ZZ', 'XX', 'EU', 'AP', 'UN', 'EZ'])
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']

let codes: Map<string, string> | null = null

/** Codes by folded name, computed at the first call. */
function namesToCodes(): Map<string, string> {
  if (codes !== null) return codes
  codes = new Map()
  for (const language of ['en', 'ru']) {
    const names = new Intl.DisplayNames(language, { type: 'region', fallback: 'none' })
    for (const code of LETTERS.flatMap(first => LETTERS.map(second => first + second))) {
      // A code that was withdrawn has the name of the one that replaces it.
      const isCurrent =
        new Intl.Locale(`und-${code}`).maximize().region === code && !NO_COUNTRY.has(code)
      const name = isCurrent ? names.of(code) : undefined
      if (name !== undefined && !codes.has(name.toLowerCase())) codes.set(name.toLowerCase(), code)
    }
  }
  return codes
}

/** The code of a country from its code or name, `''` for none in particular, `null` if unknown. */
function countryCode(text: string): string | null {
  const given = text.trim()
  if (/^[A-Za-z]{2}$/.test(given)) {
    const code = given.toUpperCase()
    return code === 'ZZ' || code === 'XX' ? '' : code
  }
  return namesToCodes().get(given.toLowerCase()) ?? null
}
