/**
 * Owns one record of JSON, NDJSON and CSV: its form around its members (`members.ts`), and the texts
 * that are kept with rows in memory. Knows nothing of the document around it.
 */
import { createBoundedMap } from '../lib/bounded-map.ts'
import { cityIn, type Lang } from '../proxies/proxy.ts'
import type { CityNames, Found, Row } from '../proxies/row.ts'
import {
  addressOf,
  type CityTexts,
  CSV_FORM,
  csvText,
  type Form,
  JSON_FORM,
  type Member,
  type Part,
  type View,
} from './members.ts'

/** What `get` names, each also as a download (spec 4.1, contract F2). */
export const OUTPUT_KINDS = ['txt', 'json', 'csv', 'ndjson'] as const

/** How an answer is written. */
export type Output = {
  kind: (typeof OUTPUT_KINDS)[number]
  isDownload: boolean
  hasTypePrefix: boolean
  /** `null`: all members. */
  fields: readonly string[] | null
  splitIp: boolean
  shape: 'array' | 'object'
  wrap: boolean
  pretty: boolean
}

/** The texts of cities by id, for each list, language and form. */
const knownCityTexts = new WeakMap<CityNames, Map<Form, { [L in Lang]: string[] }>>()

function textsOf(cityNames: CityNames, form: Form, lang: Lang): string[] {
  const byForm = knownCityTexts.get(cityNames) ?? new Map<Form, { [L in Lang]: string[] }>()
  knownCityTexts.set(cityNames, byForm)
  const byLang = byForm.get(form) ?? { ru: [], en: [] }
  byForm.set(form, byLang)
  return byLang[lang]
}

/** Converts the name of a city once, because there are few of them, and rows are many. */
function cityTextsOf(cityNames: CityNames, form: Form, lang: Lang): CityTexts {
  const texts = textsOf(cityNames, form, lang)
  return id => {
    const text = texts[id] ?? toByteText(form.text(cityIn(lang, cityNames(id))))
    texts[id] = text
    return text
  }
}

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
    const { kind, splitIp, pretty, shape, wrap, fields } = output
    const view = JSON.stringify([lang, kind, splitIp, pretty, shape, wrap, fields])
    const known = writers.get(view)
    if (known !== undefined) return known
    const fresh = {
      write: (CREATE_WRITER[kind] ?? createJsonWriter)(members, lang, output),
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
    const cityTexts = cityTextsOf(list.cityNames, formOf(output), lang)
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

const formOf = ({ kind }: Output): Form => (kind === 'csv' ? CSV_FORM : JSON_FORM)

/** The members that a record shows, in their order. */
function shownOf(members: readonly Member[], lang: Lang, output: Output) {
  const { fields, splitIp } = output
  const view: View = { lang, splitIp, form: formOf(output) }
  const shown = members.filter(
    ({ name, isShown = () => true }) => isShown(view) && (fields?.includes(name) ?? true),
  )
  return { view, shown }
}

type CreateWriter = (members: readonly Member[], lang: Lang, output: Output) => Part

/** Writes records as `JSON.stringify` would, at their place in the document. */
const createJsonWriter: CreateWriter = (members, lang, output) => {
  const { pretty, shape } = output
  const indent = indentOf(output)
  const depth = depthOf(output)
  const { view, shown } = shownOf(members, lang, output)
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

/** Writes records as lines of compact JSON. */
const createNdjsonWriter: CreateWriter = (members, lang, output) => {
  const compact: Output = { ...output, shape: 'array', wrap: false, pretty: false }
  const write = createJsonWriter(members, lang, compact)
  return (row, cityTexts) => `${write(row, cityTexts)}\n`
}

/** Writes records as lines of CSV. A line of nothing would be none: its empty field has quotes. */
const createCsvWriter: CreateWriter = (members, lang, output) => {
  const { view, shown } = shownOf(members, lang, output)
  const parts = shown.map(({ part }, i) => part(i === 0 ? '' : ',', view))
  return (row, cityTexts) => {
    let text = ''
    for (const part of parts) text += part(row, cityTexts)
    return text === '' ? '""\r\n' : `${text}\r\n`
  }
}

const CREATE_WRITER: { [K in Output['kind']]?: CreateWriter } = {
  csv: createCsvWriter,
  ndjson: createNdjsonWriter,
}

/** The header of CSV: the names of the members that its records show. */
export function csvHeader(members: readonly Member[], output: Output): string {
  const { shown } = shownOf(members, 'ru', output)
  return `${toByteText(shown.map(({ name }) => csvText(name)).join(','))}\r\n`
}
