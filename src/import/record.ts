/**
 * One record of a list of any form: finds its address and its fields at any depth, and writes them
 * under our names, as we write them (contract D3a).
 */
import { memberNames } from '../api/render.ts'
import { ipv4ToNumber } from '../lib/ip.ts'
import { type ProxyType, parsePort } from '../proxies/proxy.ts'
import { addressesIn } from './address.ts'
import {
  IGNORED,
  knownColumns,
  MAPPED,
  type Meaning,
  type Names,
  OF_FAILURES,
  SHARES,
} from './names.ts'
import { type Defaults, isRecord, type RawRow, rejectOther, rejectRow, SKIPPED } from './row.ts'
import { withAddressNotes } from './text.ts'
import {
  isDeadWord,
  isGiven,
  isOtherProtocol,
  NotUnderstood,
  normalise,
  type PingUnit,
  readAnon,
  readCountryValue,
  readFlag,
  readPing,
  readSpeed,
  readText,
  readTime,
  readType,
  readWorks,
} from './values.ts'

/** A scalar of a record, or an array of scalars, at any depth. */
type Leaf = {
  meaning: Meaning | null
  value: unknown
  /** The object that it is a member of. */
  parent: object
  depth: number
  inArray: boolean
}

/** Limits on one record: nesting depth and number of leaves. */
const LEVELS_MAX = 8
const LEAVES_MAX = 2000

/** Whether a value is an object, or an array of objects. */
const holdsObjects = (value: unknown): value is object =>
  isRecord(value) || (Array.isArray(value) && value.some(item => typeof item === 'object'))

/** The members of an object, or the first items of an array. */
const membersOf = (parent: object): [name: string, value: unknown][] =>
  Object.entries(Array.isArray(parent) ? parent.slice(0, LEAVES_MAX) : parent)

/** The leaves of an object and of all in it. A key that is an address is a leaf, too. */
function leavesOf(
  parent: object,
  names: Names,
  path: readonly string[] = [],
  inArray = false,
  leaves: Leaf[] = [],
  level = 0,
): Leaf[] {
  const isItem = Array.isArray(parent)
  const depth = path.length
  for (const [name, value] of membersOf(parent)) {
    if (leaves.length >= LEAVES_MAX) break
    const here = isItem ? path : [...path, name.startsWith('__') ? '' : normalise(name)]
    const isKey = !isItem && isAddress(name)
    if (isKey) leaves.push({ meaning: null, value: name, parent, depth, inArray: true })
    if (holdsObjects(value)) {
      if (level < LEVELS_MAX) leavesOf(value, names, here, inArray || isItem, leaves, level + 1)
    } else {
      const isIn = inArray || isItem || Array.isArray(value)
      leaves.push({ meaning: names.meaningOf(here), value, parent, depth, inArray: isIn })
    }
  }
  return leaves
}

const isIpv4 = (value: unknown): value is string =>
  typeof value === 'string' && ipv4ToNumber(value.trim()) >= 0
const portOf = (value: unknown): number | null =>
  typeof value === 'number' || typeof value === 'string' ? parsePort(String(value).trim()) : null
/** Whether the key of a record is its address, with or without the port. */
export const isAddress = (key: string): boolean =>
  /\d\.\d/.test(key) && (isIpv4(key) || addressesIn(key).length === 1)

/** Whether a leaf is the key of a record. */
const isAddressKey = ({ meaning, value, parent }: Leaf): boolean =>
  meaning === null && typeof value === 'string' && Object.hasOwn(parent, value) && isAddress(value)
const fieldOf = ({ meaning }: Leaf): string | undefined => meaning?.field
/** `text`: the value that holds it; `port`: the leaf of its port, when that stands alone. */
type FoundAddress = {
  address: string
  leaf: Leaf
  text: string | undefined
  port: Leaf | undefined
}

/** The addresses of a record, those under known names first; each one once. */
function addressesOf(leaves: readonly Leaf[]): FoundAddress[] {
  const ports = leaves.filter(leaf => fieldOf(leaf) === 'port')
  // A port that stands beside no address, as in `protocols: [{type, port}]`.
  const hosts = new Set(leaves.filter(leaf => fieldOf(leaf) === 'ip').map(({ parent }) => parent))
  const loose = ports.find(({ parent }) => !hosts.has(parent))
  const rankOf = (leaf: Leaf): number =>
    (fieldOf(leaf) === 'ip' ? (leaf.meaning?.rank ?? 0) : 1000) + 100 * leaf.depth
  const found = leaves
    .toSorted((a, b) => rankOf(a) - rankOf(b))
    .flatMap(leaf => {
      const texts: unknown[] = Array.isArray(leaf.value) ? leaf.value : [leaf.value]
      const beside = ports.find(({ parent }) => parent === leaf.parent) ?? loose
      const port = fieldOf(leaf) === 'ip' ? portOf(beside?.value) : null
      return texts.flatMap(text => {
        if (typeof text !== 'string') return []
        const isSplit = isIpv4(text) && port !== null
        const found = addressesIn(isSplit ? `${text.trim()}:${port}` : text)
        return found.map(each => ({
          ...{ address: `${each.ip}:${each.port}`, leaf },
          ...(isSplit ? { text: undefined, port: beside } : { text, port: undefined }),
        }))
      })
    })
  const known = new Set<string>()
  return found.filter(({ address }) => !known.has(address) && known.add(address))
}

/**
 * What an object is: the record of one proxy; an envelope around several; `empty`, when it holds other objects or
 * arrays and no address; or neither.
 */
export function kindOf(row: RawRow, names: Names): 'record' | 'envelope' | 'empty' | 'neither' {
  // Nearly all rows are ours, or have our names.
  const isFlat = !Object.values(row).some(holdsObjects)
  if (isFlat && typeof row.ip === 'string' && (row.ip.includes(':') || row.port !== undefined)) {
    return 'record'
  }
  const leaves = leavesOf(row, names)
  const addresses = addressesOf(leaves)
  const isOwn = (leaf: Leaf): boolean => fieldOf(leaf) === 'ip' && leaf.depth === 0 && !leaf.inArray
  // An envelope may name the address of its server beside its records.
  const isInList = addresses.some(({ leaf }) => leaf.inArray)
  if (!isInList && addresses.some(({ leaf }) => isOwn(leaf))) return 'record'
  const hasKey = leaves.some(isAddressKey)
  if (!hasKey && addresses.length === 1 && !addresses[0]?.leaf.inArray) return 'record'
  // A key that is an IP address without a port stands for a record, too.
  if (addresses.length > 0 || hasKey) return 'envelope'
  if (leaves.some(isOwn)) return 'record'
  const isNested = Object.values(row).some(value => typeof value === 'object' && value !== null)
  return isNested ? 'empty' : 'neither'
}

export type Translator = {
  /** @throws `BadField`. `null` when all names are ours: rows stay as they are. */
  translate: ((row: RawRow, defaults: Defaults) => RawRow) | null
  /** Members that mean nothing here. */
  unknown: readonly string[]
  /** Whether rows are complete records of the API, whose ping is in seconds. */
  isRecord: boolean
}

/** A known format without units. A row has it when it has all of `members`. */
type Tool = {
  members: readonly string[]
  ping: PingUnit
  /** The type of rows without one. */
  type?: ProxyType
  /** Whether a success rate of 1 and less is a percentage, too. */
  works?: '%'
  /** Words for the numbers in a member, and the name under which they are read. */
  codes?: readonly (readonly [member: string, name: string, words: readonly string[]])[]
}
const TOOLS: readonly Tool[] = [
  { members: ['anonymitylevel', 'responsetime', 'uptime'], ping: 'ms', works: '%' }, // GeoNode
  { members: ['averagetimeout', 'timesalive'], ping: 'ms', works: '%' }, // ProxyScrape v4
  { members: ['avgresptime', 'errorrate', 'geo'], ping: 's' }, // proxybroker
  { members: ['isanonymous', 'stability', 'latency'], ping: 'ms', type: 'http' }, // scylla
  { members: ['exitip', 'geolocation', 'timeout'], ping: 's' }, // monosans
  { members: ['geolocation', 'proxy', 'score'], ping: 's' }, // proxifly
  { members: ['checksup', 'checksdown', 'delay'], ping: 'ms' }, // hidemy.name
  {
    ...{ members: ['addr', 'kind', 'timeout'], ping: 'ms' }, // checkerproxy
    codes: [
      ['type', 'type', ['', 'http', 'https', '', 'socks5']],
      ['kind', 'anon', ['transparent', '', 'anonymous']],
    ],
  },
  { members: ['ptype', 'exitip', 'speedkbps'], ping: 'ms' },
]

/** How to read rows with these members. `sample` is one of them; `isListed`: it is listed under its address. */
export function createTranslator(
  members: readonly string[],
  sample: RawRow,
  isListed: boolean,
  names: Names,
): Translator {
  const { provider } = names
  const known = knownColumns(provider)
  const others = members.filter(member => !known.has(member))
  const isUnknown = (name: string): boolean => names.fieldOf(name) === undefined && name !== ''
  const unknown = others.filter(name => typeof sample[name] !== 'object' && isUnknown(name))
  const isOurs = !names.hasMapping && others.length === unknown.length
  if (isOurs && (isListed || sample.ip !== undefined)) {
    const isComplete = memberNames(provider).every(
      name => name === 'port' || members.includes(name),
    )
    return { translate: null, unknown, isRecord: isComplete && others.length === 0 }
  }
  const normalised = new Set(members.map(normalise))
  const tool = TOOLS.find(({ members: marks }) => marks.every(mark => normalised.has(mark)))
  const translate = (row: RawRow, defaults: Defaults) => toRow(row, names, defaults, tool)
  return { translate, unknown, isRecord: false }
}

type Groups = ReadonlyMap<string, readonly Leaf[]>

/** The leaves of each field that hold something, the best name first. */
function groupByField(leaves: readonly Leaf[]): Groups {
  const given = leaves.filter(({ value }) => isGiven(value) || Array.isArray(value))
  const byRank = given.toSorted((a, b) => (a.meaning?.rank ?? 0) - (b.meaning?.rank ?? 0))
  return Map.groupBy(byRank, leaf => fieldOf(leaf) ?? IGNORED)
}

/** A record under our names, with values as we write them. @throws BadField */
function toRow(given: RawRow, names: Names, defaults: Defaults, tool?: Tool): RawRow {
  const row: { [member: string]: unknown } = tool?.codes === undefined ? given : { ...given }
  for (const [member, name, words] of tool?.codes ?? []) row[name] = words[Number(given[member])]
  const leaves = leavesOf(row, names)
  const groups = groupByField(leaves)
  if (isDead(groups)) return rejectRow(SKIPPED, 'is marked as dead by its source')
  const { address, text, port } = addressOf(row, leaves)
  const { ip, ...notes }: RawRow = withAddressNotes({ ip: text })
  const out: { [field: string]: unknown } = { ip: address ?? ip }
  if (groups.has('+secret') || notes.password === true) out.password = true
  for (const [field, group] of groups) {
    if (/^(?:ip|port|type|-|\+.*)$/.test(field)) continue
    out[field] =
      field === 'country' ? countryOf(group) : firstUnderstood(field, group, defaults, tool)
  }
  const timed = groups.get('speed')?.find(({ value }) => /\d\s*(?:ms|msec)$/i.test(String(value)))
  if (timed !== undefined) Object.assign(out, { ping: out.ping ?? timed.value, speed: null })
  out.type = typeOf(groups, port, defaults, tool)
  if (!readType(out.type) && notes.type !== undefined) out.type = notes.type
  // Some lists put the anonymity level in `type` and the type in `protocol`.
  const texts = (groups.get('type') ?? []).map(({ value }) => readText(value) ?? '')
  out.anon ??= texts.map(text => (text.length > 3 ? readAnon(text) : '')).find(Boolean)
  out.works ??= worksOfCounts(groups)
  out.city ??= out.city_en
  const isOther = (value: unknown): boolean =>
    isIpv4(value) && !address?.startsWith(`${value.trim()}:`)
  out.ip_out ??= groups.get('ip')?.find(({ value }) => isOther(value))?.value
  for (const [field, note] of Object.entries(notes)) out[field] ??= note
  return out
}

const isDead = (groups: Groups): boolean =>
  (groups.get('+alive') ?? []).some(({ value, meaning }) => {
    const text = readText(value) ?? ''
    // A number as a status or a success is a code or a count.
    const isCount = /^\d+$/.test(text) && /status|state|success/.test(meaning?.name ?? '')
    return value === false || isDeadWord(text) || (!isCount && readFlag(text) === false)
  })

/** The address of a record: under a known name, else the only one in it. @throws BadField */
function addressOf(row: RawRow, leaves: readonly Leaf[]): Partial<FoundAddress> {
  const addresses = addressesOf(leaves)
  const [first] = addresses
  const named = row.ip ?? leaves.find(leaf => fieldOf(leaf) === 'ip')?.value
  if (first === undefined) return { text: readText(named) || undefined }
  if (fieldOf(first.leaf) !== 'ip' && addresses.length > 1) {
    rejectRow('ip', 'is not clear: the row holds several addresses')
  }
  return first
}

/** Returns the first value that a reader accepts. Otherwise `readRow` reports the first one. */
function firstUnderstood(
  field: string,
  group: readonly Leaf[],
  defaults: Defaults,
  tool?: Tool,
): unknown {
  const read = READERS[field]
  for (const { value, meaning } of group) {
    const isRaw = read === undefined || meaning === null
    // The values of a column that the operator has mapped are as we write them, but for the unit of a ping.
    if (isRaw || (meaning.rank === MAPPED && !/ping|speed/.test(field))) return value
    const understood = read(value, meaning, defaults, tool)
    if (understood !== undefined) return understood
  }
  return new NotUnderstood(group[0]?.value)
}

type ReadValue = (value: unknown, meaning: Meaning, defaults: Defaults, tool?: Tool) => unknown

/** Fields whose value depends on the unit, the name of the member or the time. */
const READERS: { readonly [field: string]: ReadValue } = {
  ping(value, { unit, rank }, { pingUnit }, tool) {
    const named = unit === '' ? undefined : unit.startsWith('m') ? 'ms' : 's'
    const asked = pingUnit === 'own' ? undefined : pingUnit
    const guessed = rank === MAPPED ? 'own' : 'guess'
    const ms = readPing(value, named ?? asked ?? tool?.ping ?? guessed)
    return typeof ms === 'number' ? `${ms}ms` : ms
  },
  speed: (value, { unit }) => readSpeed(value, unit),
  works(value, { name, unit }, _, tool) {
    const isFraction = Number(value) < 1 && !Number.isInteger(Number(value))
    const isShare = tool?.works === undefined && unit === '' && (SHARES.test(name) || isFraction)
    const percent = readWorks(value, isShare)
    return typeof percent === 'number' && OF_FAILURES.test(name) ? 100 - percent : percent
  },
  checked_at: (value, _, { nowMs, atMs = nowMs }) => readTime(value, atMs),
  anon: (value, { name }) =>
    /^\d$/.test(String(value)) && name !== 'anon' ? undefined : readAnon(value),
}

/** The country of a record: a code wins over a name that stands beside it. */
function countryOf(group: readonly Leaf[]): unknown {
  const read = group.map(({ value }) => ({ value, country: readCountryValue(value) }))
  const isCode = (value: unknown): boolean => /^[A-Za-z]{2,3}$/.test(String(value))
  const known =
    read.find(({ value, country }) => country && isCode(value)) ??
    read.find(({ country }) => country) ??
    read.find(({ country }) => country === '')
  return known?.country ?? read.find(({ value }) => typeof value === 'string')?.value
}

/** The types in the type members of a record; otherwise its flags, such as `socks5: true`. @throws BadField */
function typeOf(
  groups: Groups,
  port: Leaf | undefined,
  defaults: Defaults,
  tool?: Tool,
): string | undefined {
  const all = groups.get('type') ?? []
  const ports = groups.get('port') ?? []
  const isOfPort = ({ parent }: Leaf): boolean =>
    ports.some(other => other.parent === parent && portOf(other.value) === portOf(port?.value))
  const ofPort = all.filter(isOfPort)
  const leaves = ofPort.length > 0 ? ofPort : all
  const best = leaves.find(({ value }) => readType(value))?.meaning?.rank
  const words = leaves
    .filter(({ meaning }) => best === undefined || meaning?.rank === best)
    .flatMap(({ value }) => (Array.isArray(value) ? value : [value]))
  const types = words.map(readType).filter(Boolean)
  const other = words.map(String).find(word => isOtherProtocol(word, defaults.type))
  if (types.length === 0 && other !== undefined) rejectOther(other)
  if (types.length === 0 && tool?.type !== undefined) types.push(tool.type)
  const flags = (['socks5', 'socks4', 'https', 'http'] as const).filter(type =>
    groups.get(`+${type}`)?.some(({ value }) => readFlag(value) === true),
  )
  // With http, TLS means https. With another type, it means nothing here.
  const isTls = flags.includes('https')
  const isOnlyTls = isTls && flags.length === 1 && defaults.type !== undefined
  const stated = types.length > 0 ? types : isOnlyTls ? [] : flags
  const isHttp = (stated[0] ?? defaults.type) === 'http' && stated.every(type => type === 'http')
  if (isTls && isHttp) return 'https'
  // A list that says yes or no to TLS is one of HTTP proxies.
  const isNoTls = groups.get('+https')?.some(({ value }) => readFlag(value) === false)
  if (isNoTls && words.length === 0 && stated.length === 0 && !defaults.type) return 'http'
  return stated.join(' ') || words.find(word => typeof word === 'string')
}

/** The success rate of a record that counts good and bad checks. */
function worksOfCounts(groups: Groups): number | undefined {
  const countOf = (field: string): number => Number(groups.get(field)?.[0]?.value ?? Number.NaN)
  const [good, bad, total] = [countOf('+good'), countOf('+bad'), countOf('+total')] as const
  const all = Number.isNaN(good + bad) ? total : good + bad
  const share = (Number.isNaN(good) ? all - bad : good) / all
  return share >= 0 && share <= 1 ? Math.floor(share * 100) : undefined
}
