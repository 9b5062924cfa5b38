/**
 * Owns turning a row under the names of another tool or of a spreadsheet into one under ours. What
 * the names are is in `columns.ts`; what the values may be is in `row.ts`.
 */
import { memberNames } from '../../api/render.ts'
import type { ProxyType } from '../../proxies/proxy.ts'
import { type Fact, knownColumns, type Names, normalise, type Place } from './columns.ts'
import { countryCode } from './countries.ts'
import { entryToRow } from './entry.ts'
import { bad, CREDENTIALS, flagOf, isRecord, type RawRow, typeOf } from './values.ts'

export type Translator = {
  /** Throws `BadField`. `null` when all names are ours: rows stay as they are. */
  translate: ((row: RawRow) => RawRow) | null
  /** Members that mean nothing here. */
  unknown: readonly string[]
  /** Whether rows are complete records of the API, whose ping is in seconds. */
  isRecord: boolean
}

/** Tools whose rows are recognised by members that only they have together. */
const TOOLS: readonly {
  members: readonly string[]
  ping: 'ms' | 's'
  ignored: readonly string[]
}[] = [
  // GeoNode: its `speed` is a class from 1 up.
  { members: ['anonymitylevel', 'responsetime', 'uptime'], ping: 'ms', ignored: ['speed'] },
  // ProxyScrape v4
  { members: ['averagetimeout', 'timesalive'], ping: 'ms', ignored: [] },
  // proxybroker
  { members: ['avgresptime', 'errorrate', 'geo'], ping: 's', ignored: [] },
  // scylla
  { members: ['isanonymous', 'stability', 'latency'], ping: 'ms', ignored: [] },
  // monosans
  { members: ['exitip', 'geolocation', 'timeout'], ping: 's', ignored: [] },
  // proxifly
  { members: ['geolocation', 'proxy', 'score'], ping: 's', ignored: [] },
]

/** Values that other tools write for what they do not know. */
const UNKNOWN = new Set(['unknown', 'n/a', 'none', 'null', '-', '--', '—', '?', 'not available'])
/** Shares of 1 that become percents. */
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

/** What these members are good for. */
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

/** The translator of rows that have these members. */
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
  const used = members.filter(member => !tool?.ignored.includes(normalise(member)))
  const { fields, facts, unknown } = columnsOf(used, names)
  const isOurs = others.every(member => unknown.includes(member)) && !names.hasMapping
  if (isOurs) return { translate: null, unknown, isRecord: false }
  const plan = { fields: [...fields], facts, pingUnit: tool?.ping, standardType }
  const notable = tool === undefined ? unknown : []
  return { translate: row => translate(row, plan), unknown: notable, isRecord: false }
}

type Plan = {
  fields: readonly (readonly [field: string, columns: readonly Column[]])[]
  facts: ReadonlyMap<Fact, readonly string[]>
  pingUnit: 'ms' | 's' | undefined
  standardType: ProxyType | undefined
}

function translate(row: RawRow, { fields, facts, pingUnit, standardType }: Plan): RawRow {
  const isTrue = (fact: Fact): boolean | null => firstFlag(row, facts.get(fact) ?? [])
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
  if (isTrue('https') === true && (typeOf(translated.type) || standardType) === 'http') {
    translated.type = 'https'
  }
  if (isTrue('anonymous') === true) translated.anon ??= 'anonymous'
  return translated
}

/** The first of these members that is true or false, `null` if none is. */
function firstFlag(row: RawRow, names: readonly string[]): boolean | null {
  for (const name of names) {
    const flag = flagOf(row[name], name)
    if (flag !== null) return flag
  }
  return null
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
      const value = field === 'type' ? row[name] : valueAt(row[name], path)
      return { name, value, unit: unit ?? pingUnit }
    })
    .filter(({ value }) => isGiven(value))
  if (field === 'country') return firstCountry(given.map(({ value }) => value))
  const [first] = given
  if (first === undefined) return undefined
  if (field === 'ping') return inUnit(first.value, first.unit)
  const convert = AS_PERCENT[normalise(first.name)]
  return convert === undefined ? first.value : convert(Number(first.value))
}

/** The code of the first of these that is a country; else one that is none, to be rejected. */
function firstCountry(values: readonly unknown[]): unknown {
  for (const value of values) {
    const code = countryCode(String(value))
    if (code !== null) return code
  }
  return values.at(-1)
}

/** A number with its unit, if that is known. */
const inUnit = (value: unknown, unit: 'ms' | 's' | undefined): unknown =>
  unit === undefined || !/^[\d.\s]+$/.test(String(value)) ? value : `${value}${unit}`

/** The value at a path in a value from JSON; in an array, that of the first item that has one. */
function valueAt(value: unknown, path: readonly string[]): unknown {
  const [first, ...rest] = path
  if (first === undefined) return value
  if (Array.isArray(value)) return value.map(item => valueAt(item, path)).find(isGiven)
  if (!isRecord(value)) return undefined
  const name = Object.keys(value).find(member => normalise(member) === first)
  return name === undefined ? undefined : valueAt(value[name], rest)
}

/** Whether a value says something. */
function isGiven(value: unknown): boolean {
  if (typeof value === 'string')
    return value.trim() !== '' && !UNKNOWN.has(value.trim().toLowerCase())
  return typeof value === 'number' || typeof value === 'boolean' || Array.isArray(value)
}
