/**
 * The rule of contract D3a: a file whose lines or records each hold exactly one recognisable address is imported,
 * whatever stands beside the address. With ANYTHING_RUNS set, 100,000 files are read instead of 300.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { DEFAULTS, imported, sourceOf } from './imported.ts'

export const RUNS = Bun.env.ANYTHING_RUNS === undefined ? 300 : 100_000

type Address = { ip: string; port: number }
type File = { text: string; addresses: string[] }
type Json = { [member: string]: unknown }

const textOf = ({ ip, port }: Address): string => `${ip}:${port}`
const anyOf = <T>(...values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values)

const anyPort = fc.oneof(anyOf(80, 443, 1080, 8080), fc.integer({ min: 1, max: 65535 }))
const anyAddress: fc.Arbitrary<Address> = fc
  .tuple(anyOf('192.0.2', '198.51.100', '203.0.113'), fc.integer({ min: 1, max: 254 }), anyPort)
  .map(([net, host, port]) => ({ ip: `${net}.${host}`, port }))

/** One to six items with different addresses. */
const rowsOf = <T>(anyItem: fc.Arbitrary<T>) =>
  fc.uniqueArray(fc.tuple(anyAddress, anyItem), {
    ...{ minLength: 1, maxLength: 6 },
    selector: ([address]) => textOf(address),
  })

/** A word that has no meaning. Its letters spell neither a word for dead nor one for a user. */
const anyNonsense = fc
  .array(anyOf(...'cgjkqvwxzCGJKQVWXZйцщъжэ漢語éß'), { minLength: 1, maxLength: 8 })
  .map(letters => letters.join(''))
const anyNumber = fc.oneof(
  fc.nat({ max: 99_999 }),
  fc.nat({ max: 99_999 }).map(n => n / 100),
)
/** Words that lists have beside addresses. None means dead, a user or another protocol. */
const WORDS = `|DE|us|UK|ZZ|USA|Germany|Германия|Atlantis|United States|Côte d'Ivoire|Washington, D.C.|SOCKS5|HTTP|Elite|L1
|anonymous|N/A|-|--|?|fast|slow|ok|success|🇩🇪|🔥|✅|⚡|→|=>|->|•|№|$|%|&|*|+|=|~|!|...|97%|0.52s|312ms|1.5 MB/s|AS64496|v2.0
|2 minutes ago|2026-11-20 11:59:00|2026-11-20T11:59:00Z|11:59|20.11.2026|just now|https://example.com/a?b=1|Example Hosting Ltd.|Ростелеком ПАО|[ISP]|(x)`
const anyWord = fc.oneof(
  { weight: 3, arbitrary: anyOf(...WORDS.replaceAll('\n', '').split('|')) },
  anyNonsense,
  anyNumber.map(String),
)
const anyWords = fc.array(anyWord, { maxLength: 4 })
const anyEnd = anyOf('\n', '\r\n')

const anyLine = fc.record({
  before: anyWords,
  after: anyWords,
  gap: anyOf(' ', '  ', '\t', ' | ', ', ', '; ', ' - ', ' / '),
  brackets: anyOf('', '()', '[]', '<>', '{}', '«»', "''"),
  /** What stands in front of the IP address, and between it and the port. */
  around: anyOf([':'], [':'], [' '], ['\t'], [':', 'http://'], [':', 'SOCKS5://']),
})
type Line = typeof anyLine extends fc.Arbitrary<infer T> ? T : never
const lineOf = ([{ ip, port }, line]: readonly [Address, Line]): string => {
  const { before, after, gap, brackets, around } = line
  const address = `${around[1] ?? ''}${ip}${around[0]}${port}`
  return [...before, `${brackets.charAt(0)}${address}${brackets.charAt(1)}`, ...after].join(gap)
}

/** Names of columns and members that mean no address, port, user, password or mark of the dead. No two mean the same. */
const NAMES = `id|n|rank|score|isp|asn|org|region|note|Провайдер|hosting|lat|lon|color|price|country|city|anonymity|speed|ping
|latency_ms|uptime|google|smtp|works|source|Country Code|Anonymity Level|Response Time|first seen|hop count|x (y)`
const anyName = fc.oneof(anyNonsense, anyOf(...NAMES.replaceAll('\n', '').split('|')))

const withoutCase = (name: string): string => name.toLowerCase().replace(/[^\p{L}]/gu, '')
const COLUMNS_MAX = 5
const anyTable = fc.record({
  hasHeader: fc.boolean(),
  delimiter: anyOf(',', ';', '\t', '|', ' | '),
  names: fc.uniqueArray(anyName, { maxLength: COLUMNS_MAX, selector: withoutCase }),
  at: fc.nat({ max: COLUMNS_MAX }),
  own: anyOf('ip,port', 'IP Address,Port', 'host,proxy_port', 'proxy', 'ip:port', 'Server'),
  rows: rowsOf(fc.array(anyWord, { minLength: COLUMNS_MAX, maxLength: COLUMNS_MAX })),
})
type Table = typeof anyTable extends fc.Arbitrary<infer T> ? T : never
const tableOf = ({ hasHeader, delimiter, names, at, own, rows }: Table): string[] => {
  const join = (cells: readonly string[], address: string): string =>
    cells
      .slice(0, names.length)
      .toSpliced(at, 0, ...address.split(','))
      .map(cell => (cell.includes(delimiter) ? `"${cell}"` : cell))
      .join(delimiter)
  const colon = own.includes(',') ? ',' : ':'
  const lines = rows.map(([{ ip, port }, cells]) => join(cells, `${ip}${colon}${port}`))
  return hasHeader ? [join(names, own), ...lines] : lines
}

const anyScalar = fc.oneof(anyWord, anyNumber, fc.boolean(), anyOf(null, '198.51.100.255'))
const anyValue = fc.oneof(
  { weight: 4, arbitrary: anyScalar },
  fc.array(anyScalar, { maxLength: 3 }),
  fc.dictionary(anyName, anyScalar, { maxKeys: 3 }),
)
const anyMembers = fc.dictionary(anyName, anyValue, { maxKeys: 4 })
const anySides = fc.record({ name: anyNonsense, first: anyMembers, last: anyMembers })
type Sides = typeof anySides extends fc.Arbitrary<infer T> ? T : never
/** An object with members in front of and behind those that matter. */
const amid = (held: Json, { first, last }: Sides): Json => ({ ...first, ...held, ...last, ...held })

/** How a record holds its address. `name` has no meaning. */
const HOLDERS: readonly ((address: Address, name: string) => Json)[] = [
  ({ ip, port }) => ({ ip, port }),
  ({ ip, port }) => ({ host: ip, port: String(port) }),
  address => ({ ip: textOf(address), port: address.port }),
  address => ({ proxy: `socks5://${textOf(address)}` }),
  (address, name) => ({ [name]: textOf(address) }),
  ({ ip, port }, name) => ({ [name]: { ip, port } }),
  (address, name) => ({ [name]: { [name]: { proxy: textOf(address) } } }),
]
const anyRecords = rowsOf(fc.record({ hold: anyOf(...HOLDERS), sides: anySides }))
type Records = typeof anyRecords extends fc.Arbitrary<infer T> ? T : never
const recordOf = ([address, { hold, sides }]: Records[number]): Json =>
  amid(hold(address, sides.name), sides)

/** How a document holds records. */
const LISTS: readonly ((rows: Records, groups: readonly string[]) => unknown)[] = [
  rows => rows.map(recordOf),
  rows => rows.map(([address]) => textOf(address)),
  rows =>
    Object.fromEntries(rows.map(([address, { sides }]) => [textOf(address), { ...sides.first }])),
  (rows, groups) =>
    Object.fromEntries(
      groups.map((group, at) => [
        group,
        rows.filter((_, i) => i % groups.length === at).map(recordOf),
      ]),
    ),
]
const anyDocument = fc.record({
  rows: anyRecords,
  listOf: anyOf(...LISTS),
  groups: anyOf(['http'], ['US', 'de', 'x'], ['socks4', 'SOCKS5'], ['Germany', 'free', 'elite']),
  envelopes: fc.array(anySides, { maxLength: 3 }),
  indent: anyOf(0, 2),
})

const fileOf = (rows: readonly (readonly [Address, unknown])[], text: string): File => ({
  addresses: rows.map(([address]) => textOf(address)),
  text,
})
const joined = (lines: readonly string[], end: string): string =>
  lines.map(line => `${line}${end}`).join('')

const FILES: { readonly [what: string]: fc.Arbitrary<File> } = {
  'lines of text': fc
    .tuple(rowsOf(anyLine), anyEnd)
    .map(([rows, end]) => fileOf(rows, joined(rows.map(lineOf), end))),
  'a table': fc
    .tuple(anyTable, anyEnd)
    .map(([table, end]) => fileOf(table.rows, joined(tableOf(table), end))),
  'records, one a line': fc.tuple(anyRecords, anyEnd).map(([rows, end]) => {
    const lines = rows.map(row => JSON.stringify(recordOf(row)))
    return fileOf(rows, joined(lines, end))
  }),
  'a JSON document': anyDocument.map(({ rows, listOf, groups, envelopes, indent }) => {
    const wrap = (inner: unknown, sides: Sides): unknown => amid({ [sides.name]: inner }, sides)
    return fileOf(rows, JSON.stringify(envelopes.reduce(wrap, listOf(rows, groups)), null, indent))
  }),
}

describe('the importer reads all addresses, beside any other text, of', () => {
  for (const [what, anyFile] of Object.entries(FILES)) {
    const property = fc.asyncProperty(anyFile, async ({ text, addresses }) => {
      const defaults = { ...DEFAULTS, type: 'http' as const }
      const { proxies } = await imported([sourceOf('list', text)], { defaults })
      expect(proxies.map(textOf).sort()).toEqual(addresses.toSorted())
    })
    const numRuns = Math.ceil(RUNS / Object.keys(FILES).length)
    test(what, () => fc.assert(property, { numRuns }), 3_600_000)
  }
})
