/**
 * Owns the written form of an answer (spec 2.1, 2.2, 4.1; contract A5–A7): rows and output options
 * to text. Pure; knows nothing of HTTP headers or of how the rows were found.
 */
import { createBoundedMap } from '../lib/bounded-map.ts'
import { formatTimecheck } from '../lib/time.ts'
import type { Filter } from '../proxies/filter.ts'
import {
  ANONS,
  addressText,
  cityIn,
  type Lang,
  SERVICES,
  type Service,
  TYPES,
} from '../proxies/proxy.ts'
import {
  AT,
  type CityNames,
  countryText,
  type EndpointRow,
  ipBits,
  ipText,
  portOf,
  type Row,
  UNKNOWN,
  UNKNOWN_PING,
} from '../proxies/row.ts'

/** How an answer is written. */
export type Output = {
  kind: 'txt' | 'json'
  isDownload: boolean
  hasTypePrefix: boolean
  /** `null`: all members. */
  fields: readonly string[] | null
  splitIp: boolean
  shape: 'array' | 'object'
  wrap: boolean
  pretty: boolean
}

type Value = string | number | boolean | null
/** The options that change how a record looks. */
type View = { lang: Lang; splitIp: boolean }
/** JSON text of the name of a city by its id in a row. */
type CityTexts = (id: number) => string
/** Writes a part of a record. */
type Part = (row: Row, cityTexts: CityTexts) => string
/**
 * One member of a record. `part` makes what writes its value as JSON text behind `before`, which
 * is its name and what stands between it and the member before. `isShown` false leaves it out.
 */
type Member = {
  name: string
  isShown?: (view: View) => boolean
  part: (before: string, view: View) => Part
}

/** A member whose column has few values: what is written for each of them is kept. */
function ofFew(column: FewColumn, json: (value: number) => string): Member['part'] {
  return before => {
    const texts: string[] = []
    return row => {
      const value = row[AT[column]]
      const known = texts[value + 1] // the least value is `UNKNOWN`, -1
      if (known !== undefined) return known
      const text = before + json(value)
      texts[value + 1] = text
      return text
    }
  }
}
type FewColumn = 'type' | 'anon' | 'works' | 'services' | 'country'

/** Text that needs no escaping, as a JSON string. */
const plain = (text: string): string => `"${text}"`
const service = (name: string, which: Service): Member => {
  const bit = 1 << SERVICES.indexOf(which)
  return { name, part: ofFew('services', bits => (bits & bit ? 'true' : 'false')) }
}

const ipOf = (row: EndpointRow): string => ipText(ipBits(row[AT.id]))
/** `a.b.c.d:port` */
const addressOf = (row: EndpointRow): string => `${ipOf(row)}:${portOf(row[AT.id])}`
const ipOutOf = (row: Row): string => {
  const ipOut = row[AT.ipOut]
  return typeof ipOut === 'number' ? ipText(ipOut) : ipOut
}

/** `.532`, `.5` or nothing: the thousandths of a number by themselves. */
const THOUSANDTHS = Array.from({ length: 1000 }, (_, n) => String(n / 1000).slice(1))

/** Milliseconds as seconds, as JSON writes the number. */
function pingText(ms: number): string {
  if (ms === UNKNOWN_PING) return 'null'
  const seconds = Math.floor(ms / 1000)
  return `${seconds}${THOUSANDTHS[ms - seconds * 1000]}`
}

/** The members of a record in the order of spec 2.1. */
const membersOf = (provider: string): Member[] => [
  {
    name: 'ip',
    part: (before, { splitIp }) =>
      splitIp ? row => `${before}"${ipOf(row)}"` : row => `${before}"${addressOf(row)}"`,
  },
  {
    name: 'port',
    isShown: ({ splitIp }) => splitIp,
    part: before => row => `${before}"${portOf(row[AT.id])}"`,
  },
  { name: 'ip_out', part: before => row => `${before}"${ipOutOf(row)}"` },
  { name: 'type', part: ofFew('type', type => plain(TYPES[type] ?? 'http')) },
  { name: 'anon', part: ofFew('anon', anon => plain(ANONS[anon - 1] ?? '')) },
  {
    name: 'speed',
    part: before => row => `${before}${row[AT.speed] === UNKNOWN ? 'null' : row[AT.speed]}`,
  },
  { name: 'ping', part: before => row => before + pingText(row[AT.pingMs]) },
  {
    name: 'timecheck',
    part: before => row => `${before}"${formatTimecheck(row[AT.checkedAt])}"`,
  },
  { name: 'country', part: ofFew('country', country => plain(countryText(country))) },
  { name: 'city', part: before => (row, cityTexts) => before + cityTexts(row[AT.city]) },
  { name: 'works', part: ofFew('works', works => (works === UNKNOWN ? '""' : `"${works}"`)) },
  service('smtp', 'smtp'),
  service('telegram', 'telegram'),
  service('avito', 'avito'),
  service('google', 'google'),
  service(provider, 'provider'),
]

/** The JSON texts of cities by id, for each list and language. */
const knownCityTexts = new WeakMap<CityNames, { [L in Lang]: string[] }>()

/** Converts the name of a city once, because there are few of them, and rows are many. */
function cityTextsOf(cityNames: CityNames, lang: Lang): CityTexts {
  const known = knownCityTexts.get(cityNames) ?? { ru: [], en: [] }
  knownCityTexts.set(cityNames, known)
  const texts = known[lang]
  return id => {
    const text = texts[id] ?? toByteText(JSON.stringify(cityIn(lang, cityNames(id))))
    texts[id] = text
    return text
  }
}

/** Names of all record members, in order; `provider` is what the provider's service is called. */
export const memberNames = (provider: string): string[] =>
  membersOf(provider).map(({ name }) => name)

/** The filters in effect, spelled so that they can be sent back as a query (contract A6). */
export function describeFilter(filter: Filter, provider: string): { [name: string]: Value } {
  const services = filter.services.map(name => (name === 'provider' ? provider : name))
  const list = (values: readonly string[]) => values.join(',').toLowerCase() || null
  const all: { [name: string]: Value } = {
    type: list(filter.types),
    anon: list(filter.anons),
    ping: filter.pingMaxMs,
    speed: filter.speedMin,
    time: filter.ageMaxSeconds,
    works: filter.worksMin,
    country: list(filter.countries),
    country_mode: filter.countries.length > 0 ? filter.countryMode : null,
    city: list(filter.cities),
    port: filter.port,
    ip: filter.address && addressText(filter.address),
    service: list(services),
    count: filter.count,
    lang: filter.lang,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null))
}

/**
 * Text whose characters are the bytes of `text` in UTF-8. All text of writers is such byte text:
 * the engine keeps it in one byte a character, and `encodeByteText` only copies it, which is many
 * times faster than encoding. ASCII is the same in both.
 */
const toByteText = (text: string): string => Buffer.from(text).toString('latin1')

/** The bytes of byte text, in a buffer of their own. */
export const encodeByteText = (text: string): Uint8Array<ArrayBuffer> => Buffer.from(text, 'latin1')

/**
 * Writes the parts of one answer as byte text: `head` (in two chunks when the time goes between
 * them), the records with `separator` between them, and `tail`.
 */
export type Writer<R extends EndpointRow> = {
  head: readonly string[]
  record: (row: R) => string
  separator: string
  tail: string
}

/** Views whose record writers are kept, with what these know of columns with few values. */
const VIEWS_MAX = 50

/** Creates writers for one name of the provider's service. */
export function createWriters(provider: string) {
  const members = membersOf(provider)
  const recordWriters = createBoundedMap<string, Part>(VIEWS_MAX)

  function recordWriter(lang: Lang, output: Output): Part {
    const { splitIp, pretty, shape, wrap, fields } = output
    const view = JSON.stringify([lang, splitIp, pretty, shape, wrap, fields])
    const known = recordWriters.get(view)
    if (known !== undefined) return known
    const writer = createRecordWriter(members, lang, output)
    recordWriters.set(view, writer)
    return writer
  }

  /** The writer of an answer of `count` records. */
  function json(filter: Filter, output: Output, count: number, cityNames: CityNames): Writer<Row> {
    const indent = indentOf(output)
    const depth = depthOf(output)
    const [open, close] = output.shape === 'array' ? '[]' : '{}'
    const write = recordWriter(filter.lang, output)
    const cityTexts = cityTextsOf(cityNames, filter.lang)
    const list = {
      head: [count === 0 ? `${open}` : `${open}${indent(depth)}`],
      record: (row: Row) => write(row, cityTexts),
      separator: `,${indent(depth)}`,
      tail: count === 0 ? `${close}` : `${indent(depth - 1)}${close}`,
    }
    if (!output.wrap) return list
    const filters = JSON.stringify(describeFilter(filter, provider), null, output.pretty ? 2 : 0)
    const space = output.pretty ? ' ' : ''
    const member = (name: string): string => `${indent(1)}"${name}":${space}`
    const before = `{${member('status')}"ok",${member('count')}${count},${member('timestamp')}"`
    const nested = toByteText(filters.replaceAll('\n', indent(1)))
    const after = `",${member('filters')}${nested},${member('data')}${list.head}`
    return { ...list, head: [before, after], tail: `${list.tail}${indent(0)}}` }
  }

  const txt = ({ hasTypePrefix }: Output): Writer<EndpointRow> => ({
    head: [''],
    record: hasTypePrefix
      ? row => `${TYPES[row[AT.type]] ?? 'http'}://${addressOf(row)}\n`
      : row => `${addressOf(row)}\n`,
    separator: '',
    tail: '',
  })

  return { json, txt }
}

/** What a line begins with at a depth of the document. */
const indentOf =
  ({ pretty }: Output) =>
  (depth: number): string =>
    pretty ? `\n${'  '.repeat(depth)}` : ''
/** The depth of a record. */
const depthOf = ({ wrap }: Output): number => (wrap ? 2 : 1)

/** Writes records as `JSON.stringify` would, at their place in the document. */
function createRecordWriter(members: readonly Member[], lang: Lang, output: Output): Part {
  const { fields, splitIp, pretty, shape } = output
  const view = { lang, splitIp }
  const indent = indentOf(output)
  const depth = depthOf(output)
  const shown = members.filter(
    ({ name, isShown = () => true }) => isShown(view) && (fields?.includes(name) ?? true),
  )
  const colon = pretty ? ': ' : ':'
  const parts = shown.map(({ name, part }, i) => {
    const nameText = toByteText(JSON.stringify(name))
    return part(`${i === 0 ? '' : ','}${indent(depth + 1)}${nameText}${colon}`, view)
  })
  const close = shown.length === 0 ? '}' : `${indent(depth)}}`
  const open = shape === 'array' ? () => '{' : (row: Row) => `"${addressOf(row)}"${colon}{`
  return (row, cityTexts) => {
    let text = open(row)
    for (const part of parts) text += part(row, cityTexts)
    return text + close
  }
}

/** The whole answer as byte text, in two chunks when the envelope's time goes between them. */
export function renderChunks<R extends EndpointRow>(
  { head, record, separator, tail }: Writer<R>,
  rows: readonly R[],
): readonly string[] {
  let text = head.at(-1) ?? ''
  let before = ''
  for (const row of rows) {
    text += before + record(row)
    before = separator
  }
  return [...head.slice(0, -1), text + tail]
}
