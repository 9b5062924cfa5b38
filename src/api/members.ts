/**
 * Owns the members of a record (spec 2.1): their names and order, and how each value is written from a
 * row, in JSON and in CSV.
 */
import { formatTimecheck } from '../lib/time.ts'
import { ANONS, type Lang, SERVICES, type Service, TYPES } from '../proxies/proxy.ts'
import {
  AT,
  countryText,
  type EndpointRow,
  ipBits,
  ipText,
  portOf,
  type Row,
  UNKNOWN,
  UNKNOWN_PING,
} from '../proxies/row.ts'

/**
 * How the values of a form are written: what is around a text that needs no escaping, what stands
 * for an unknown number, and any text.
 */
export type Form = { quote: string; unknown: string; text: (text: string) => string }
export const JSON_FORM: Form = { quote: '"', unknown: 'null', text: text => JSON.stringify(text) }
export const CSV_FORM: Form = { quote: '', unknown: '', text: csvText }

/** A text as a field of CSV (RFC 4180, 2.5 to 2.7). */
export function csvText(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** The options that change how a record looks. */
export type View = { lang: Lang; splitIp: boolean; form: Form }
/** The name of a city by its id in a row, as the form has it. */
export type CityTexts = (id: number) => string
/** Writes a part of a record. */
export type Part = (row: Row, cityTexts: CityTexts) => string
/**
 * One member of a record. `part` makes what writes its value behind `before`, which is what stands
 * between it and the value before: in JSON also its name. `isShown` false leaves it out.
 */
export type Member = {
  name: string
  isShown?: (view: View) => boolean
  part: (before: string, view: View) => Part
}

/** A member whose column has few values: what is written for each of them is kept. */
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
type FewColumn = 'type' | 'anon' | 'works' | 'services' | 'country'

/** A member of text that needs no escaping in any form. */
const plain =
  (read: (row: Row) => string): Member['part'] =>
  (before, { form: { quote } }) => {
    const open = before + quote
    return row => open + read(row) + quote
  }
const plainOfFew = (column: FewColumn, read: (value: number) => string): Member['part'] =>
  ofFew(column, (value, { quote }) => quote + read(value) + quote)
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
function secondsText(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  return `${seconds}${THOUSANDTHS[ms - seconds * 1000]}`
}

/** The members of a record in the order of spec 2.1. */
export const membersOf = (provider: string): Member[] => [
  {
    name: 'ip',
    part: (before, view) => plain(view.splitIp ? ipOf : addressOf)(before, view),
  },
  {
    name: 'port',
    isShown: ({ splitIp }) => splitIp,
    part: plain(row => String(portOf(row[AT.id]))),
  },
  { name: 'ip_out', part: plain(ipOutOf) },
  { name: 'type', part: plainOfFew('type', type => TYPES[type] ?? 'http') },
  { name: 'anon', part: plainOfFew('anon', anon => ANONS[anon - 1] ?? '') },
  {
    name: 'speed',
    part: (before, { form }) => {
      const unknown = before + form.unknown
      return row => (row[AT.speed] === UNKNOWN ? unknown : before + row[AT.speed])
    },
  },
  {
    name: 'ping',
    part: (before, { form }) => {
      const unknown = before + form.unknown
      return row =>
        row[AT.pingMs] === UNKNOWN_PING ? unknown : before + secondsText(row[AT.pingMs])
    },
  },
  { name: 'timecheck', part: plain(row => formatTimecheck(row[AT.checkedAt])) },
  { name: 'country', part: plainOfFew('country', countryText) },
  { name: 'city', part: before => (row, cityTexts) => before + cityTexts(row[AT.city]) },
  { name: 'works', part: plainOfFew('works', works => (works === UNKNOWN ? '' : `${works}`)) },
  service('smtp', 'smtp'),
  service('telegram', 'telegram'),
  service('avito', 'avito'),
  service('google', 'google'),
  service(provider, 'provider'),
]

/** Names of all record members, in order; `provider` is what the provider's service is called. */
export const memberNames = (provider: string): string[] =>
  membersOf(provider).map(({ name }) => name)
