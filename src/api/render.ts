/** Writes answers as text, JSON, NDJSON and CSV (spec 2.1, 2.2, 4.1; contract A5–A7). */
import { LRUCache } from 'lru-cache'
import { createFifoMap } from '../lib/bounded-map.ts'
import { formatTimecheck } from '../lib/time.ts'
import { describeFilter, EVERYTHING, type Filter } from '../proxies/filter.ts'
import {
  ANONS,
  cityIn,
  type Lang,
  SERVICES,
  type Service,
  type Text,
  TYPES,
} from '../proxies/proxy.ts'
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
import { ALL_TYPES, bestOf, typeBits, typesOf } from '../proxies/types.ts'

/** How a form writes values: the quote around plain text, an unknown number, any text. */
export type Form = { quote: string; unknown: string; text: (text: string) => string }
const JSON_FORM: Form = { quote: '"', unknown: 'null', text: text => JSON.stringify(text) }
const CSV_FORM: Form = { quote: '', unknown: '', text: csvText }

/** A field of CSV (RFC 4180, 2.5 to 2.7). */
function csvText(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

export type View = {
  lang: Lang
  splitIp: boolean
  form: Form
  /** The types that the query asks for, as bits. */
  wantedTypes: number
  /** Writes an array of plain texts. */
  list: (texts: readonly string[]) => string
}
/** The name of a city as a form writes it, by the id in a row. */
type CityTexts = (id: number) => string
export type Part = (row: Row, cityTexts: CityTexts) => string
/** One member of a record. `part` creates a function that writes `before` (separator, name in JSON) and the value. */
export type Member = Text & {
  name: string
  schema: { readonly [keyword: string]: unknown }
  isExtra?: true
  isShown?: (view: View) => boolean
  part: (before: string, view: View) => Part
}

/** A member whose column has few values. It keeps the text of each value. */
function ofFew(column: FewColumn, write: (value: number, form: Form) => string): Member['part'] {
  return (before, { form }) => {
    const texts: string[] = []
    return row => {
      const value = row[AT[column]]
      const known = texts[value + 1] // the least value is `UNKNOWN`, -1
      if (known !== undefined) return known
      const text = before + write(value, form)
      texts[value + 1] = text
      return text
    }
  }
}
type FewColumn = 'anon' | 'works' | 'services' | 'country'

/** A member whose text needs no escaping in any form. */
const plain =
  (read: (row: Row) => string): Member['part'] =>
  (before, { form: { quote } }) => {
    const open = before + quote
    return row => open + read(row) + quote
  }
/** A member that depends on the set of types. */
const ofTypes =
  (write: (types: number, view: View) => string): Member['part'] =>
  (before, view) => {
    const texts = Array.from({ length: 1 + ALL_TYPES }, (_, types) => before + write(types, view))
    return row => texts[row[AT.types] & ALL_TYPES] ?? ''
  }
const plainOfFew = (column: FewColumn, read: (value: number) => string): Member['part'] =>
  ofFew(column, (value, { quote }) => quote + read(value) + quote)
const service = (name: string, which: Service, en: string, ru: string): Member => {
  const bit = 1 << SERVICES.indexOf(which)
  const part = ofFew('services', bits => (bits & bit ? 'true' : 'false'))
  return { name, schema: { type: 'boolean' }, en, ru, part }
}

/** For the documentation. */
export const IPV4 = '(?:[0-9]{1,3}\\.){3}[0-9]{1,3}'

const ipOf = (row: EndpointRow): string => ipText(ipBits(row[AT.id]))
/** `a.b.c.d:port` */
export const addressOf = (row: EndpointRow): string => `${ipOf(row)}:${portOf(row[AT.id])}`
/** The outgoing address; `''` when unknown. */
export const ipOutOf = (row: Row): string => {
  const ipOut = row[AT.ipOut]
  return typeof ipOut === 'number' ? ipText(ipOut) : ipOut
}

/** The decimals of n thousandths: `.532`, `.5` or nothing. */
const THOUSANDTHS = Array.from({ length: 1000 }, (_, n) => String(n / 1000).slice(1))

/** Milliseconds as a JSON number of seconds. */
function secondsText(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  return `${seconds}${THOUSANDTHS[ms - seconds * 1000]}`
}

/** The members of a record in the order of spec 2.1. */
export const membersOf = (provider: string): Member[] => [
  {
    name: 'ip',
    part: (before, view) => plain(view.splitIp ? ipOf : addressOf)(before, view),
    schema: { type: 'string', pattern: `^${IPV4}(?::[0-9]{1,5})?$` },
    en: '`a.b.c.d:port`; with `split_ip=1` only the address. With `demo`, the last two octets are 0.',
    ru: '`a.b.c.d:port`; с `split_ip=1` только адрес. С ключом `demo` два последних октета — 0.',
  },
  {
    name: 'port',
    isShown: ({ splitIp }) => splitIp,
    part: plain(row => String(portOf(row[AT.id]))),
    schema: { type: 'string', pattern: '^[1-9][0-9]{0,4}$' },
    en: 'The port as text, with `split_ip=1` only.',
    ru: 'Порт, текстом; только с `split_ip=1`.',
  },
  {
    name: 'ip_out',
    part: plain(ipOutOf),
    schema: { type: 'string' },
    en: 'The outgoing address, empty when unknown.',
    ru: 'Исходящий адрес; пусто, если неизвестен.',
  },
  {
    name: 'type',
    part: ofTypes((types, { form: { quote }, wantedTypes }) => {
      return quote + bestOf(types, wantedTypes) + quote
    }),
    schema: { type: 'string', enum: TYPES },
    en: 'The type of the proxy. If it has several: the first that your `type` filter allows, in this order: socks5, socks4, https, http.',
    ru: 'Тип прокси. Если их несколько — лучший из запрошенных в `type`; порядок: socks5, socks4, https, http.',
  },
  {
    name: 'types',
    isExtra: true,
    part: ofTypes((types, { list }) => list(typesOf(types))),
    schema: { type: 'array', items: { type: 'string', enum: TYPES } },
    en: 'All types of the proxy, in the same order. Only with `fields`; in CSV joined by `;`.',
    ru: 'Все типы прокси, лучший первым. Только с `fields`; в CSV через `;`.',
  },
  {
    name: 'anon',
    part: plainOfFew('anon', anon => ANONS[anon - 1] ?? ''),
    schema: { type: 'string', enum: ['', ...ANONS] },
    en: 'The anonymity level, empty when unknown.',
    ru: 'Уровень анонимности; пусто, если неизвестен.',
  },
  {
    name: 'speed',
    part: (before, { form }) => {
      const unknown = before + form.unknown
      return row => (row[AT.speed] === UNKNOWN ? unknown : before + row[AT.speed])
    },
    schema: { type: ['integer', 'null'], minimum: 0 },
    en: 'Bytes per second, `null` when unknown.',
    ru: 'Байты в секунду; `null`, если неизвестно.',
  },
  {
    name: 'ping',
    part: (before, { form }) => {
      const unknown = before + form.unknown
      return row =>
        row[AT.pingMs] === UNKNOWN_PING ? unknown : before + secondsText(row[AT.pingMs])
    },
    schema: { type: ['number', 'null'], minimum: 0 },
    en: 'The response time in seconds, to three decimals; `null` when unknown.',
    ru: 'Время отклика в секундах, до трёх знаков после запятой; `null`, если неизвестно.',
  },
  {
    name: 'timecheck',
    part: plain(row => formatTimecheck(row[AT.checkedAt])),
    schema: { type: 'string', pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$' },
    en: 'The last check, `YYYY-MM-DD HH:MM:SS`, timezone UTC+2.',
    ru: 'Последняя проверка, `YYYY-MM-DD HH:MM:SS`, часовой пояс (timezone) UTC+2.',
  },
  {
    name: 'country',
    part: plainOfFew('country', countryText),
    schema: { type: 'string', pattern: '^(?:[A-Z]{2})?$' },
    en: 'Two-letter code in upper case, empty when unknown.',
    ru: 'Две заглавные буквы; пусто, если неизвестна.',
  },
  {
    name: 'city',
    part: before => (row, cityTexts) => before + cityTexts(row[AT.city]),
    schema: { type: 'string' },
    en: 'The city in the language of `lang`, empty when unknown.',
    ru: 'Город на языке `lang`; пусто, если неизвестен.',
  },
  {
    name: 'works',
    part: plainOfFew('works', works => (works === UNKNOWN ? '' : `${works}`)),
    schema: { type: 'string', pattern: '^(?:100|[1-9]?[0-9])?$' },
    en: 'The percentage of successful checks as text, empty when unknown.',
    ru: 'Доля успешных проверок текстом, от 0 до 100 процентов; пусто, если неизвестна.',
  },
  service('smtp', 'smtp', 'Whether port 25 is open.', 'Открыт ли порт 25.'),
  service('telegram', 'telegram', 'Whether Telegram works.', 'Работает ли Telegram.'),
  service('avito', 'avito', 'Whether Avito works.', 'Работает ли Avito.'),
  service('google', 'google', 'Whether Google shows no captcha.', 'Отвечает ли Google без капчи.'),
  service(
    provider,
    'provider',
    'Whether the provider’s own service works.',
    'Работает ли собственный сервис поставщика.',
  ),
]

/** The names of all members, in order. `provider` is the name of the provider's service. */
export const memberNames = (provider: string): string[] =>
  membersOf(provider).map(({ name }) => name)

/** The values of `get` without `.file` (spec 4.1, contract F2), and their content types. */
export const FORMS = {
  txt: {
    contentType: 'text/plain; charset=utf-8',
    en: 'A line `ip:port` for each proxy.',
    ru: 'Строка `ip:port` для каждого прокси.',
  },
  json: {
    contentType: 'application/json; charset=utf-8',
    en: 'An array of records; an object with `format=object`; an envelope with `wrap=1`.',
    ru: 'Массив записей; объект с `format=object`; конверт с `wrap=1`.',
  },
  csv: {
    contentType: 'text/csv; charset=utf-8; header=present',
    en: 'A header line, then a line for each record (RFC 4180, lines end with CR LF); unknown values are empty.',
    ru: 'Строка заголовка и по строке на запись (RFC 4180, строки кончаются CR LF); неизвестное пусто.',
  },
  ndjson: {
    contentType: 'application/x-ndjson',
    en: 'A line of JSON for each record.',
    ru: 'Строка JSON для каждой записи.',
  },
} as const satisfies { [kind: string]: Text & { contentType: string } }

export const OUTPUT_KINDS = Object.keys(FORMS) as (keyof typeof FORMS)[] // the keys of the table

export type Output = {
  kind: keyof typeof FORMS
  isDownload: boolean
  /** The template of a line (contract F2); `null`: `ip:port`. */
  line: string | null
  fields: readonly string[] | null
  splitIp: boolean
  shape: 'array' | 'object'
  wrap: boolean
  pretty: boolean
}

/** Most texts of cities in memory, for each list, form and language. */
const CITY_TEXTS_MAX = 8_192
type CityTextMap = ReturnType<typeof createFifoMap<number, string>>
const createCityTexts = (): CityTextMap => createFifoMap(CITY_TEXTS_MAX)

/** The texts of cities by id, for each list, form and language. */
const knownCityTexts = new WeakMap<CityNames, Map<Form, { [L in Lang]: CityTextMap }>>()

/** Converts the name of each city once: there are few cities, and many rows. */
function cityTextsOf(cityNames: CityNames, form: Form, lang: Lang): CityTexts {
  const byForm = knownCityTexts.get(cityNames) ?? new Map<Form, { [L in Lang]: CityTextMap }>()
  knownCityTexts.set(cityNames, byForm)
  const byLang = byForm.get(form) ?? { ru: createCityTexts(), en: createCityTexts() }
  byForm.set(form, byLang)
  const texts = byLang[lang]
  return id => {
    const known = texts.get(id)
    if (known !== undefined) return known
    const text = toByteText(form.text(cityIn(lang, cityNames(id))))
    texts.set(id, text)
    return text
  }
}

/** Text whose characters are the UTF-8 bytes of `text`. Copying it is many times faster than encoding text. */
const toByteText = (text: string): string => Buffer.from(text).toString('latin1')

export const encodeByteText = (text: string): Uint8Array<ArrayBuffer> => Buffer.from(text, 'latin1')

/** Most views whose record writers stay in memory. */
const VIEWS_MAX = 50
/** Most characters of record texts in memory. Texts of rows that are gone still count. */
const KEPT_TEXT_MAX = 16 * 1024 * 1024

/** Writes the records of one view. `texts`: the records of rows that stay in memory. */
type RecordWriter = { write: Part; texts: WeakMap<Row, string> }

function createRecordWriters(members: readonly Member[]) {
  const writers = new LRUCache<string, RecordWriter>({ max: VIEWS_MAX })
  let keptText = 0

  function writerOf(filter: Filter, output: Output): RecordWriter {
    const { kind, splitIp, pretty, shape, wrap, fields } = output
    const { lang, types } = filter
    const view = JSON.stringify([lang, types, kind, splitIp, pretty, shape, wrap, fields])
    const known = writers.get(view)
    if (known !== undefined) return known
    const create = kind === 'csv' ? createCsvWriter : createJsonWriter
    const fresh = { write: create(members, filter, output), texts: new WeakMap<Row, string>() }
    writers.set(view, fresh)
    return fresh
  }

  /** Writes a row that stays in memory, and keeps the text with the row. */
  function writeKept({ write, texts }: RecordWriter, row: Row, cityTexts: CityTexts): string {
    const known = texts.get(row)
    if (known !== undefined) return known
    // Flattens the string: else the engine walks its fifty parts at every copy.
    const text = Buffer.from(write(row, cityTexts), 'latin1').toString('latin1')
    texts.set(row, text)
    keptText += text.length
    if (keptText > KEPT_TEXT_MAX) {
      writers.clear()
      keptText = 0
    }
    return text
  }

  /** Returns a function that writes the rows of `list`. */
  return (filter: Filter, output: Output, list: FoundIn): ((row: Row) => string) => {
    const writer = writerOf(filter, output)
    const cityTexts = cityTextsOf(list.cityNames, formOf(output), filter.lang)
    return list.areKept
      ? row => writeKept(writer, row, cityTexts)
      : row => writer.write(row, cityTexts)
  }
}

type FoundIn = Omit<Found, 'rows'>

/** The start of a line at a depth of the document. Records are at `depthOf`. */
const indentOf =
  ({ pretty }: Output) =>
  (depth: number): string =>
    pretty ? `\n${'  '.repeat(depth)}` : ''
const depthOf = ({ wrap }: Output): number => (wrap ? 2 : 1)

const formOf = ({ kind }: Output): Form => (kind === 'csv' ? CSV_FORM : JSON_FORM)

type FilterView = Pick<Filter, 'lang' | 'types'>

function shownOf(
  members: readonly Member[],
  { lang, types }: FilterView,
  output: Output,
  list: View['list'] = texts => texts.join(';'),
) {
  const { fields, splitIp } = output
  const view = { lang, splitIp, form: formOf(output), wantedTypes: typeBits(types), list }
  const shown = members.filter(
    ({ name, isExtra, isShown = () => true }) =>
      isShown(view) && (fields?.includes(name) ?? isExtra !== true),
  )
  return { view, shown }
}

/** Writes records as `JSON.stringify` would, indented for their depth, or as lines of NDJSON. */
function createJsonWriter(members: readonly Member[], filter: FilterView, asked: Output): Part {
  const isLine = asked.kind === 'ndjson'
  const output: Output = isLine ? { ...asked, ...COMPACT } : asked
  const { pretty, shape } = output
  const indent = indentOf(output)
  const depth = depthOf(output)
  const { view, shown } = shownOf(members, filter, output, texts => {
    const items = texts.map(text => `${indent(depth + 2)}${JSON.stringify(text)}`)
    return `[${items.join(',')}${indent(depth + 1)}]`
  })
  const colon = pretty ? ': ' : ':'
  const parts = shown.map(({ name, part }, i) => {
    const nameText = toByteText(JSON.stringify(name))
    return part(`${i === 0 ? '' : ','}${indent(depth + 1)}${nameText}${colon}`, view)
  })
  const close = (shown.length === 0 ? '}' : `${indent(depth)}}`) + (isLine ? '\n' : '')
  const open = shape === 'array' ? () => '{' : (row: Row) => `"${addressOf(row)}"${colon}{`
  return (row, cityTexts) => {
    let text = open(row)
    for (const part of parts) text += part(row, cityTexts)
    return text + close
  }
}

const COMPACT = { shape: 'array', wrap: false, pretty: false } as const

/** Writes records as lines of CSV. A line that would be empty is one quoted empty field. */
function createCsvWriter(members: readonly Member[], filter: FilterView, output: Output): Part {
  const { view, shown } = shownOf(members, filter, output)
  const parts = shown.map(({ part }, i) => part(i === 0 ? '' : ',', view))
  return (row, cityTexts) => {
    let text = ''
    for (const part of parts) text += part(row, cityTexts)
    return text === '' ? '""\r\n' : `${text}\r\n`
  }
}

function csvHeader(members: readonly Member[], output: Output): string {
  const { shown } = shownOf(members, EVERYTHING, output)
  return `${toByteText(shown.map(({ name }) => csvText(name)).join(','))}\r\n`
}

/** The placeholders in the template of a line (contract F2). `address` is for speed, and not for clients. */
const PLACEHOLDERS: { readonly [name: string]: (row: EndpointRow) => string | number } = {
  ip: ipOf,
  port: row => portOf(row[AT.id]),
  country: row => countryText(row[AT.country]),
  address: addressOf,
}
export const PLACEHOLDER_NAMES = ['type', 'scheme', 'ip', 'port', 'country']

type LineWriter = (row: EndpointRow) => string

/** Writes lines of a template, whose placeholders are all known. */
function createLineWriter(template: string, wantedTypes: number): LineWriter {
  const byTypes = Array.from({ length: 1 + ALL_TYPES }, (_, types) => {
    const type = bestOf(types, wantedTypes)
    const [start = '', ...rest] = template
      .replaceAll('{type}', type)
      .replaceAll('{scheme}', type === 'https' ? 'http' : type) // `https` would be TLS to the proxy
      .replaceAll('{ip}:{port}', '{address}')
      .concat('\n')
      .split('{')
    const parts = rest.map(part => {
      const [name = '', text = ''] = part.split('}')
      return { text, fill: PLACEHOLDERS[name] ?? (() => '') }
    })
    return { start, parts }
  })
  return row => {
    const { start = '', parts = [] } = byTypes[row[AT.types] & ALL_TYPES] ?? {}
    let line = start
    for (const { text, fill } of parts) line += fill(row) + text
    return line
  }
}

/** Writes one answer as byte text. Between two chunks of `head` goes the time of the envelope. */
export type Writer<R extends EndpointRow> = {
  head: readonly string[]
  record: (row: R) => string
  separator: string
  tail: string
}

export function createWriters(provider: string) {
  const members = membersOf(provider)
  const recordWriter = createRecordWriters(members)
  const lineWriters = new LRUCache<string, LineWriter>({ max: VIEWS_MAX })

  function lineWriter(line: string, types: number): LineWriter {
    const view = `${types} ${line}`
    const known = lineWriters.get(view) ?? createLineWriter(line, types)
    lineWriters.set(view, known)
    return known
  }

  function json(filter: Filter, output: Output, count: number, foundIn: FoundIn): Writer<Row> {
    const indent = indentOf(output)
    const depth = depthOf(output)
    const [open, close] = output.shape === 'array' ? '[]' : '{}'
    const list = {
      head: [count === 0 ? `${open}` : `${open}${indent(depth)}`],
      record: recordWriter(filter, output, foundIn),
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

  function records(filter: Filter, output: Output, count: number, foundIn: FoundIn): Writer<Row> {
    if (output.kind === 'json') return json(filter, output, count, foundIn)
    const head = output.kind === 'csv' ? csvHeader(members, output) : ''
    const record = recordWriter(filter, output, foundIn)
    return { head: [head], record, separator: '', tail: '' }
  }

  const txt = ({ types }: Filter, { line }: Output): Writer<EndpointRow> => ({
    head: [''],
    record: line === null ? row => `${addressOf(row)}\n` : lineWriter(line, typeBits(types)),
    separator: '',
    tail: '',
  })

  return { records, txt }
}

/** The whole answer as byte text, in as many chunks as `head` has. */
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
