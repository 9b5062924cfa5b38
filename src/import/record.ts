/** Translates a record of any list into a row under our names, with values as we write them (contract D3a). */
import { LRUCache } from 'lru-cache'
import { ipv4ToNumber } from '../lib/ip.ts'
import { type ProxyType, parsePort } from '../proxies/proxy.ts'
import { typesOf } from '../proxies/types.ts'
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
import { isRecord, type RawRow } from './reader.ts'
import {
  ACCEPTS,
  type Defaults,
  type OnUnread,
  rejectOther,
  rejectRow,
  SKIPPED,
  type Translate,
} from './row.ts'
import {
  isDeadWord,
  isGiven,
  isOtherProtocol,
  normalise,
  type PingUnit,
  readAnon,
  readCountryValue,
  readFlag,
  readPing,
  readSpeed,
  readText,
  readTime,
  readTypes,
  readWorks,
} from './values.ts'

/** A scalar of a record, or an array of scalars, at any depth. */
type Leaf = {
  meaning: Meaning | null
  value: unknown
  parent: object
  depth: number
  inArray: boolean
}

const LEVELS_MAX = 8
const LEAVES_MAX = 2000

/** Whether a value is an object, or an array with objects in it. */
const holdsObjects = (value: unknown): value is object =>
  isRecord(value) || (Array.isArray(value) && value.some(item => typeof item === 'object'))

/** The leaves of an object, at any depth. A key that is an address is a leaf, too. */
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
  for (const [name, value] of Object.entries(parent)) {
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
const portOf = (value: unknown): number | null => parsePort(readText(value) ?? '')
/** Whether the key of a record is its address, with or without the port. */
export const isAddress = (key: string): boolean =>
  /\d\.\d/.test(key) && (isIpv4(key) || addressesIn(key).length === 1)

/** Whether a leaf is the key of a record. */
const isAddressKey = ({ meaning, value, parent }: Leaf): boolean =>
  meaning === null && typeof value === 'string' && Object.hasOwn(parent, value) && isAddress(value)
const fieldOf = ({ meaning }: Leaf): string | undefined => meaning?.field

type FoundAddress = {
  address: string
  leaf: Leaf
  /** The text that holds the address and perhaps notes; without notes if it holds several addresses. */
  text: string
  port: Leaf | undefined
}

/** The addresses of a record without repetitions, those under known names first. */
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
        const whole = isSplit ? `${text.trim()}:${port}` : text
        return addressesIn(whole).map(({ ip, port }, _, { length }) => {
          const address = `${ip}:${port}`
          const own = length === 1 ? whole : address
          return { address, leaf, text: own, port: isSplit ? beside : undefined }
        })
      })
    })
  const known = new Set<string>()
  return found.filter(({ address }) => !known.has(address) && known.add(address))
}

/** `record`: one proxy. `envelope`: several. `empty`: objects or arrays without an address. */
export function kindOf(row: RawRow, names: Names): 'record' | 'envelope' | 'empty' | 'neither' {
  // The fast path: most records have our names.
  const isFlat = !Object.values(row).some(holdsObjects)
  if (isFlat && typeof row.ip === 'string' && (row.ip.includes(':') || row.port !== undefined)) {
    return 'record'
  }
  const leaves = leavesOf(row, names)
  const addresses = addressesOf(leaves)
  const isOwn = (leaf: Leaf): boolean => fieldOf(leaf) === 'ip' && leaf.depth === 0 && !leaf.inArray
  // Beside its records, an envelope may hold the address of its server.
  const isInList = addresses.some(({ leaf }) => leaf.inArray)
  if (!isInList && addresses.some(({ leaf }) => isOwn(leaf))) return 'record'
  const hasKey = leaves.some(isAddressKey)
  if (!hasKey && addresses.length === 1 && !addresses[0]?.leaf.inArray) return 'record'
  // A key that is an IP address without a port belongs to a record, too.
  if (addresses.length > 0 || hasKey) return 'envelope'
  if (leaves.some(isOwn)) return 'record'
  const isNested = Object.values(row).some(value => typeof value === 'object' && value !== null)
  return isNested ? 'empty' : 'neither'
}

export type Translator = {
  /** `null` if all names are ours. */
  translate: Translate | null
  unknown: readonly string[]
}

/** A known format without units. A row with all of `members` has it. */
type Tool = {
  members: readonly string[]
  ping: PingUnit
  type?: ProxyType
  /** With `%`, a success rate up to 1 is a percentage too. */
  works?: '%'
  /** Members with numbers, the name for their meaning, and the words for the numbers. */
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

/** How to read rows with these members. `sample` is one of them. */
function createTranslator(members: readonly string[], sample: RawRow, names: Names): Translator {
  const known = knownColumns(names.provider)
  const others = members.filter(member => !known.has(member))
  const isUnknown = (name: string): boolean => names.fieldOf(name) === undefined && name !== ''
  const unknown = others.filter(name => typeof sample[name] !== 'object' && isUnknown(name))
  const isOurs = !names.hasMapping && others.length === unknown.length && sample.ip !== undefined
  if (isOurs) return { translate: null, unknown }
  const normalised = new Set(members.map(normalise))
  const tool = TOOLS.find(({ members: marks }) => marks.every(mark => normalised.has(mark)))
  const translate: Translate = (...given) => toRow(names, tool, ...given)
  return { translate, unknown }
}

/** A file has few lists of members. One that has many must not fill the memory. */
const TRANSLATORS_MAX = 1000
const MEMBERS_LENGTH_MAX = 4096

/** Returns a function that finds the translator of a row. Most rows have the members of the row before. */
export function createTranslators(names: Names): (row: RawRow) => Translator {
  const translators = new LRUCache<string, Translator>({ max: TRANSLATORS_MAX })
  let members: string[] = []
  let translator: Translator | null = null

  function hasSameMembers(row: RawRow): boolean {
    let at = 0
    for (const member in row) if (members[at++] !== member) return false
    return at === members.length
  }

  return row => {
    if (translator !== null && hasSameMembers(row)) return translator
    members = Object.keys(row)
    const key = JSON.stringify(members)
    translator = translators.get(key) ?? createTranslator(members, row, names)
    if (key.length < MEMBERS_LENGTH_MAX) translators.set(key, translator)
    return translator
  }
}

type Groups = ReadonlyMap<string, readonly Leaf[]>

/** The leaves of each field that have a value, the best name first. */
function groupByField(leaves: readonly Leaf[]): Groups {
  const given = leaves.filter(({ value }) => isGiven(value) || Array.isArray(value))
  const byRank = given.toSorted((a, b) => (a.meaning?.rank ?? 0) - (b.meaning?.rank ?? 0))
  return Map.groupBy(byRank, leaf => fieldOf(leaf) ?? IGNORED)
}

function toRow(
  names: Names,
  tool: Tool | undefined,
  given: RawRow,
  defaults: Defaults,
  onUnread: OnUnread,
): RawRow {
  const row: { [member: string]: unknown } = tool?.codes === undefined ? given : { ...given }
  for (const [member, name, words] of tool?.codes ?? []) row[name] = words[Number(given[member])]
  const leaves = leavesOf(row, names)
  const groups = groupByField(leaves)
  if (isDead(groups)) return rejectRow(SKIPPED, 'is marked as dead by its source')
  const { address, text, port } = addressOf(row, leaves)
  const out: { [field: string]: unknown } = { ip: text }
  if (groups.has('+secret')) out.password = true
  const timed = groups.get('speed')?.find(({ value }) => /\d\s*(?:ms|msec)$/i.test(String(value)))
  for (const [field, group] of groups) {
    if (/^(?:ip|port|type|-|\+.*)$/.test(field) || (field === 'speed' && timed)) continue
    out[field] =
      field === 'country' ? countryOf(group) : firstUnderstood(field, group, defaults, tool)
    if (out[field] === undefined) onUnread(field, group[0]?.value, ACCEPTS[field] ?? '')
  }
  out.ping ??= timed?.value
  out.type = typeOf(groups, port, defaults, tool)
  // Some lists put the anonymity level in `type` and the type in `protocol`.
  const texts = (groups.get('type') ?? []).map(({ value }) => readText(value) ?? '')
  out.anon ??= texts.map(text => (text.length > 3 ? readAnon(text) : '')).find(Boolean)
  out.works ??= worksOfCounts(groups)
  out.city ??= out.city_en
  const isOther = (value: unknown): boolean =>
    isIpv4(value) && !address?.startsWith(`${value.trim()}:`)
  out.ip_out ??= groups.get('ip')?.find(({ value }) => isOther(value))?.value
  return out
}

const isDead = (groups: Groups): boolean =>
  (groups.get('+alive') ?? []).some(({ value, meaning }) => {
    const text = readText(value) ?? ''
    // A number in a status or success is a code or a count.
    const isCount = /^\d+$/.test(text) && /status|state|success/.test(meaning?.name ?? '')
    return value === false || isDeadWord(text) || (!isCount && readFlag(text) === false)
  })

/** The address of a record: under a known name, or the only one in it. @throws BadField if it is not clear */
function addressOf(row: RawRow, leaves: readonly Leaf[]): Partial<FoundAddress> {
  const addresses = addressesOf(leaves)
  const [first] = addresses
  const named = row.ip ?? leaves.find(leaf => fieldOf(leaf) === 'ip')?.value
  if (first === undefined) return { text: readText(named) ?? '' }
  if (fieldOf(first.leaf) !== 'ip' && addresses.length > 1) {
    rejectRow('ip', 'is not clear: the row holds several addresses')
  }
  return first
}

/** The first value that is understood; `undefined` without one. */
function firstUnderstood(
  field: string,
  group: readonly Leaf[],
  defaults: Defaults,
  tool?: Tool,
): unknown {
  const read = READERS[field]
  for (const { value, meaning } of group) {
    const isRaw = read === undefined || meaning === null
    // Values of a mapped column are as we write them, except for the units of pings and speeds.
    if (isRaw || (meaning.rank === MAPPED && !/ping|speed/.test(field))) return value
    const understood = read(value, meaning, defaults, tool)
    if (understood !== undefined) return understood
  }
  return undefined
}

type ReadValue = (value: unknown, meaning: Meaning, defaults: Defaults, tool?: Tool) => unknown

/** Fields whose values depend on a unit, on the name of the member or on the time. */
const READERS: { readonly [field: string]: ReadValue } = {
  ping(value, { unit, rank }, { pingUnit }, tool) {
    const named = unit === '' ? undefined : unit.startsWith('m') ? 'ms' : 's'
    const guessed = rank === MAPPED ? 's' : 'guess'
    const ms = readPing(value, named ?? pingUnit ?? tool?.ping ?? guessed)
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

/** The country of a record. A code wins over a name. */
function countryOf(group: readonly Leaf[]): unknown {
  const read = group.map(({ value }) => ({ value, country: readCountryValue(value) }))
  const isCode = (value: unknown): boolean => /^[A-Za-z]{2,3}$/.test(String(value))
  const known =
    read.find(({ value, country }) => country && isCode(value)) ??
    read.find(({ country }) => country) ??
    read.find(({ country }) => country === '')
  return known?.country ?? read.find(({ value }) => typeof value === 'string')?.value
}

/** The types that a record names; without one, its flags such as `socks5: true`. @throws BadField */
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
  const best = leaves.find(({ value }) => readTypes(value))?.meaning?.rank
  const words = leaves
    .filter(({ meaning }) => [undefined, meaning?.rank].includes(best) || meaning?.name === 'types')
    .flatMap(({ value }) => (Array.isArray(value) ? value : [value]))
  const types: string[] = words.flatMap(word => typesOf(readTypes(word) ?? 0))
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

/** The success rate from the numbers of good and bad checks. */
function worksOfCounts(groups: Groups): number | undefined {
  const countOf = (field: string): number => Number(groups.get(field)?.[0]?.value ?? Number.NaN)
  const [good, bad, total] = [countOf('+good'), countOf('+bad'), countOf('+total')] as const
  const all = Number.isNaN(good + bad) ? total : good + bad
  const share = (Number.isNaN(good) ? all - bad : good) / all
  return share >= 0 && share <= 1 ? Math.floor(share * 100) : undefined
}
