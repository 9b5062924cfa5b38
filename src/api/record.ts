/**
 * Owns one record of JSON (spec 2.1): its members, how they are written from a row, and the texts that
 * are kept with rows in memory. Knows nothing of the document around it.
 */
import { createBoundedMap } from '../lib/bounded-map.ts'
import { formatTimecheck } from '../lib/time.ts'
import { ANONS, cityIn, type Lang, SERVICES, type Service, TYPES } from '../proxies/proxy.ts'
import {
  AT,
  type CityNames,
  countryText,
  type EndpointRow,
  type Found,
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
export const addressOf = (row: EndpointRow): string => `${ipOf(row)}:${portOf(row[AT.id])}`
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
export const membersOf = (provider: string): Member[] => [
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

/**
 * Text whose characters are the bytes of `text` in UTF-8. All text of writers is such byte text:
 * the engine keeps it in one byte a character, and `encodeByteText` only copies it, which is many
 * times faster than encoding. ASCII is the same in both.
 */
export const toByteText = (text: string): string => Buffer.from(text).toString('latin1')

/** The bytes of byte text, in a buffer of their own. */
export const encodeByteText = (text: string): Uint8Array<ArrayBuffer> => Buffer.from(text, 'latin1')

/**
 * The same byte text, to be copied often. The engine keeps text that was put together as a tree, and
 * goes through its fifty parts at every copy.
 */
const inOnePiece = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')

/** Views whose record writers are kept, with what these know of columns with few values. */
const VIEWS_MAX = 50
/** Most characters of records that are kept with their rows, those of rows now gone included. */
const KEPT_TEXT_MAX = 16 * 1024 * 1024

/** Writes the records of one view; `texts`: of rows that stay in memory. */
type RecordWriter = { write: Part; texts: WeakMap<Row, string> }

/** The record writers of one table of members. */
export function createRecordWriters(members: readonly Member[]) {
  const writers = createBoundedMap<string, RecordWriter>(VIEWS_MAX)
  let keptText = 0

  function writerOf(lang: Lang, output: Output): RecordWriter {
    const { splitIp, pretty, shape, wrap, fields } = output
    const view = JSON.stringify([lang, splitIp, pretty, shape, wrap, fields])
    const known = writers.get(view)
    if (known !== undefined) return known
    const fresh = {
      write: createRecordWriter(members, lang, output),
      texts: new WeakMap<Row, string>(),
    }
    writers.set(view, fresh)
    return fresh
  }

  /** Writes a row that is found again and again; the text goes with the row. */
  function writeKept({ write, texts }: RecordWriter, row: Row, cityTexts: CityTexts): string {
    const known = texts.get(row)
    if (known !== undefined) return known
    const text = inOnePiece(write(row, cityTexts))
    texts.set(row, text)
    keptText += text.length
    if (keptText > KEPT_TEXT_MAX) {
      writers.clear()
      keptText = 0
    }
    return text
  }

  /** What writes the rows of `list` in the view that an output describes. */
  return (lang: Lang, output: Output, list: FoundIn): ((row: Row) => string) => {
    const writer = writerOf(lang, output)
    const cityTexts = cityTextsOf(list.cityNames, lang)
    return list.areKept
      ? row => writeKept(writer, row, cityTexts)
      : row => writer.write(row, cityTexts)
  }
}

/** The list in which rows were found. */
export type FoundIn = Omit<Found, 'rows'>

/** What a line begins with at a depth of the document. */
export const indentOf =
  ({ pretty }: Output) =>
  (depth: number): string =>
    pretty ? `\n${'  '.repeat(depth)}` : ''
/** The depth of a record. */
export const depthOf = ({ wrap }: Output): number => (wrap ? 2 : 1)

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
