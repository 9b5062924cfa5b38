/** The filters of a list (contract A4): one table for validation, decoding, documentation, SQL and matching. */
import {
  chosenOf,
  flag,
  INTEGER_MAX,
  integer,
  itemsOf,
  listMatching,
  listOf,
  oneOf,
  type Parameter,
  textMatching,
} from '../lib/parameter.ts'
import { maskId } from './mask.ts'
import {
  type Address,
  ANONS,
  type Anon,
  addressText,
  LANGS,
  type Lang,
  type ProxyType,
  parseAddress,
  SERVICES,
  type Service,
  serviceNames,
  type Text,
  TYPES,
} from './proxy.ts'
import { AT, countryToNumber, idOf, portOf, ROW_COLUMNS, type Row } from './row.ts'
import { typeBits } from './types.ts'

const COUNTRY_MODES = ['include', 'except'] as const
type CountryMode = (typeof COUNTRY_MODES)[number]

/** Orders of an answer (contract F1). `checked` is the default, and the order of A4. */
export const SORTS = ['checked', 'ping', 'speed', 'works', 'random'] as const
export type Sort = (typeof SORTS)[number]

export const DEFAULT_AGE_MAX_SECONDS = 600

// ---------------------------------------------------------------------------------------------
// Conditions on a row, in SQL and in memory

export type Bound = number | string
type Matches = (row: Row) => boolean
/** A condition in SQL. `matcher` creates the function that checks a row in memory. */
export type Condition = { sql: string; values: readonly Bound[]; matcher: () => Matches }

/** Other inputs of a condition than the value of its filter. */
export type ConditionOptions = {
  /** With 16, masked addresses are compared. */
  addressBits: 32 | 16
  /** Whether a row is in a city that the filter names. */
  inCities: Condition
  countryMode: CountryMode
}

type NumberColumn = Exclude<keyof typeof AT, 'ipOut'>

const atMost = (column: NumberColumn) => {
  const [at, sql] = [AT[column], `${ROW_COLUMNS[AT[column]]} <= ?`]
  return (most: number | null): Condition | null =>
    most === null ? null : { sql, values: [most], matcher: () => row => row[at] <= most }
}
const atLeast = (column: NumberColumn) => {
  const [at, sql] = [AT[column], `${ROW_COLUMNS[AT[column]]} >= ?`]
  return (least: number | null): Condition | null =>
    least === null ? null : { sql, values: [least], matcher: () => row => row[at] >= least }
}

/** No column has this value, so an empty list matches nothing. */
const UNUSED = -2

/** `column in (?, …)`. Padding to a power of two keeps the number of different statements small. */
export function isIn(column: NumberColumn, values: readonly number[], isIn = true): Condition {
  const at = AT[column]
  const size = 2 ** Math.ceil(Math.log2(Math.max(1, values.length)))
  const padding = new Array<number>(size - values.length).fill(values[0] ?? UNUSED)
  const marks = new Array(size).fill('?').join(',')
  return {
    sql: `${ROW_COLUMNS[at]} ${isIn ? '' : 'not '}in (${marks})`,
    values: [...values, ...padding],
    matcher() {
      const set = new Set(values)
      return row => set.has(row[at]) === isIn
    },
  }
}

function hasAnyType(types: readonly ProxyType[]): Condition | null {
  if (types.length === 0) return null
  const bits = typeBits(types)
  const matcher = () => (row: Row) => (row[AT.types] & bits) !== 0
  return { sql: 'types & ?', values: [bits], matcher }
}

function hasAnyAnon(anons: readonly Anon[]): Condition | null {
  if (anons.length === 0) return null
  const numbers = anons.map(anon => 1 + ANONS.indexOf(anon))
  const bits = numbers.reduce((bits, number) => bits | (1 << number), 0)
  const matcher = () => (row: Row) => ((bits >> row[AT.anon]) & 1) === 1
  return { ...isIn('anon', numbers), matcher }
}

function hasServices(services: readonly Service[]): Condition | null {
  if (services.length === 0) return null
  const bits = services.reduce((bits, service) => bits | (1 << SERVICES.indexOf(service)), 0)
  const matcher = () => (row: Row) => (row[AT.services] & bits) === bits
  return { sql: 'services & ? = ?', values: [bits, bits], matcher }
}

const isAtPort = (port: number | null): Condition | null =>
  port === null
    ? null
    : { sql: 'id & 65535 = ?', values: [port], matcher: () => row => portOf(row[AT.id]) === port }

/** The bits of an id that hold the first two octets of the address, and the port. */
const ADDRESS_16 = 0xffff0000ffff

function isAt(address: Address | null, { addressBits }: ConditionOptions): Condition | null {
  if (address === null) return null
  const id = idOf(address)
  const isMasked = (row: Row) => maskId(row[AT.id]) === id
  return addressBits === 32
    ? { sql: 'id = ?', values: [id], matcher: () => row => row[AT.id] === id }
    : { sql: `id & ${ADDRESS_16} = ?`, values: [id], matcher: () => isMasked }
}

/** Matches a row against all conditions. Without a loop, up to three of them take half the time. */
export function matcherOf(conditions: readonly Condition[]): Matches {
  const all = conditions.map(({ matcher }) => matcher())
  const [a, b, c] = all
  if (a === undefined) return () => true
  if (b === undefined) return a
  if (c === undefined) return row => a(row) && b(row)
  if (all.length === 3) return row => a(row) && b(row) && c(row)
  return row => {
    for (const matches of all) if (!matches(row)) return false
    return true
  }
}

// ---------------------------------------------------------------------------------------------
// The table

/** A value in the envelope (contract A6); `null` leaves it out. */
type Shown = string | number | null

/** A parameter of a query with its documentation. */
export type ParameterRule = Text & {
  /** A function receives the names of the services, including the provider's. */
  schema: Parameter | ((names: readonly string[]) => Parameter)
  example: unknown
  /** The value that equals leaving the parameter out. */
  default?: unknown
}

/** One filter. `schema` checks the text of the parameter, then `decode` reads it. `services` are names of services. */
type Rule<Field extends string, V> = ParameterRule & {
  field: Field
  /** The value without the parameter: no condition, or the default. */
  none: V
  decode(text: string, services: readonly string[]): V
  /** By default, the envelope shows the value, or a list joined by commas in lower case. */
  show?(value: V, filter: { countries: readonly string[] }, services: readonly string[]): Shown
  condition?(value: V, options: ConditionOptions): Condition | null
}
const filter = <Field extends string, V>(rule: Rule<Field, V>) => rule

const CITY_CHARACTER = '[^,\\u0000-\\u001f\\u007f]'
const OCTET = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
const PORT =
  '(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})'

const COUNTRY_MODE = {
  field: 'countryMode',
  none: 'include' as CountryMode,
  schema: oneOf(COUNTRY_MODES),
  decode: (text: string): CountryMode => (text === 'except' ? 'except' : 'include'),
  default: 'include',
} as const

const FILTERS = {
  type: filter({
    field: 'types',
    none: [],
    schema: listOf(TYPES),
    decode: text => chosenOf(TYPES, text),
    condition: hasAnyType,
    en: 'Any of these types. An address may have several. `https` means an HTTP proxy that supports CONNECT.',
    ru: 'Любой из этих типов. У адреса их может быть несколько. `https` — HTTP-прокси с туннелями по CONNECT.',
    example: ['http', 'socks5'],
  }),
  anon: filter({
    field: 'anons',
    none: [],
    schema: listOf(ANONS),
    decode: text => chosenOf(ANONS, text),
    condition: hasAnyAnon,
    en: 'Any of these anonymity levels.',
    ru: 'Любой из этих уровней анонимности.',
    example: ['elite'],
  }),
  ping: filter({
    field: 'pingMaxMs',
    none: null,
    schema: integer(0, INTEGER_MAX, ' (milliseconds)'),
    decode: Number,
    condition: atMost('pingMs'),
    en: 'Maximum response time, in milliseconds. In a record, `ping` is in seconds.',
    ru: 'Наибольшее время отклика в миллисекундах. В записи `ping` указан в секундах.',
    example: 700,
  }),
  speed: filter({
    field: 'speedMin',
    none: null,
    schema: integer(0, INTEGER_MAX, ' (bytes per second)'),
    decode: Number,
    condition: atLeast('speed'),
    en: 'Minimum speed, in bytes per second.',
    ru: 'Наименьшая скорость в байтах в секунду.',
    example: 100_000,
  }),
  time: filter({
    field: 'ageMaxSeconds',
    none: DEFAULT_AGE_MAX_SECONDS,
    schema: integer(0, INTEGER_MAX, ' (seconds)'),
    decode: Number,
    en: 'Maximum age of the last check, in seconds.',
    ru: 'Наибольший возраст последней проверки в секундах.',
    example: 600,
    default: DEFAULT_AGE_MAX_SECONDS,
  }),
  works: filter({
    field: 'worksMin',
    none: null,
    schema: integer(0, 100),
    decode: Number,
    condition: atLeast('works'),
    en: 'Minimum share of successful checks, in percent. With `demo`, the default is 90.',
    ru: 'Наименьшая доля успешных проверок в процентах. Ключ `demo` ставит 90, если параметра нет.',
    example: 90,
  }),
  country: filter({
    /** Upper case. */
    field: 'countries',
    none: [],
    schema: listMatching('[a-z]{2}', 'two-letter country codes (ISO 3166-1 alpha-2)', {
      item: '[A-Za-z]{2}',
    }),
    decode: (text): readonly string[] => itemsOf(text.toUpperCase()).sort(),
    condition: (countries, { countryMode }) =>
      countries.length === 0
        ? null
        : isIn('country', countries.map(countryToNumber), countryMode === 'include'),
    en: 'Countries (ISO 3166-1 alpha-2).',
    ru: 'Страны: только эти или все, кроме этих (ISO 3166-1 alpha-2, регистр не важен).',
    example: ['de', 'nl'],
  }),
  country_mode: filter({
    ...COUNTRY_MODE,
    show: (mode, { countries }) => (countries.length > 0 ? mode : null),
    en: '`include`: only these countries. `except`: all others, and proxies whose country is unknown.',
    ru: '`include`: только эти страны. `except`: все, кроме этих; прокси без страны остаются.',
    example: 'include',
  }),
  cm: filter({
    ...COUNTRY_MODE,
    show: () => null,
    en: 'Short for `country_mode`.',
    ru: 'Короткое имя `country_mode`.',
    example: 'except',
  }),
  city: filter({
    /** Lower case, for the envelope; the comparison folds them. */
    field: 'cities',
    none: [],
    // A character in the documentation may be two code units here, and two more in lower case.
    schema: listMatching(`${CITY_CHARACTER}{1,200}`, 'city names', {
      item: `${CITY_CHARACTER}{1,100}`,
    }),
    decode(text): readonly string[] {
      const folded = fold(text.replaceAll(',', '\n')).split('\n') // at once: a tenth of the time
      return [...new Map(itemsOf(text).map((city, i) => [folded[i], city])).values()].sort()
    },
    condition: (cities, { inCities }) => (cities.length === 0 ? null : inCities),
    en: 'Russian or English names; accents make no difference. With `lang=en`, only English names count, unless a city has none.',
    ru: 'Русские или английские названия в любом регистре; диакритика и ё не важны. С `lang=en` — те названия, что показывает `lang=en`.',
    example: ['Berlin', 'Париж'],
  }),
  port: filter({
    field: 'port',
    none: null,
    schema: integer(1, 65_535),
    decode: Number,
    condition: isAtPort,
    en: 'The exact port.',
    ru: 'Точный порт.',
    example: 1080,
  }),
  ip: filter({
    field: 'address',
    none: null,
    schema: textMatching(
      `^(?:${OCTET}\\.){3}${OCTET}:${PORT}$`,
      'an IPv4 address with a port, a.b.c.d:port',
    ),
    decode: parseAddress,
    show: address => address && addressText(address),
    condition: isAt,
    en: 'The exact address, with the port.',
    ru: 'Точный адрес вместе с портом.',
    example: '203.0.113.10:1080',
  }),
  service: filter({
    field: 'services',
    none: [],
    schema: listOf,
    decode(text, services): readonly Service[] {
      const named = chosenOf(services, text)
      return SERVICES.filter((_, i) => named.includes(services[i] ?? ''))
    },
    show: (wanted, _, services) =>
      wanted.map(service => services[SERVICES.indexOf(service)]).join(',') || null,
    condition: hasServices,
    en: 'Services that must all work.',
    ru: 'Сервисы, которые должны работать все.',
    example: ['telegram', 'google'],
  }),
  sort: filter({
    /** `null` is `checked`. */
    field: 'sort',
    none: null,
    schema: oneOf(SORTS),
    decode: text => SORTS.find(sort => sort === text) ?? null,
    en: 'What comes first: the latest check, lowest ping, highest speed or highest `works`. `random`: a random choice, different for each request.',
    ru: 'Что идёт первым: самая свежая проверка, наименьший ping, наибольшая скорость или доля успешных проверок. `random` выбирает новые прокси для каждого запроса.',
    example: 'ping',
    default: 'checked',
  }),
  unique: filter({
    field: 'unique',
    none: null,
    schema: flag,
    decode: text => (text === '1' ? 1 : null),
    en: '`1`: only the first proxy with each outgoing address (`ip_out`, else the proxy’s own address).',
    ru: '`1`: только первый прокси каждого исходящего адреса (`ip_out`, а если он неизвестен — собственный адрес).',
    example: '1',
    default: '0',
  }),
  count: filter({
    /** Most records in the answer. */
    field: 'count',
    none: null,
    schema: integer(0, INTEGER_MAX),
    decode: text => Number(text) || null,
    en: 'Maximum number of records, after sorting. `0` or none: as many as the key allows.',
    ru: 'Сколько записей не больше; лишние отсекаются после сортировки. `0` — то же, что без параметра: сколько разрешено ключу.',
    example: 10,
  }),
  lang: filter({
    field: 'lang',
    none: 'ru' as Lang,
    schema: oneOf(LANGS),
    decode: text => (text === 'en' ? 'en' : 'ru'),
    en: 'The language of city names.',
    ru: 'Язык названий городов.',
    example: 'en',
    default: 'ru',
  }),
} as const

type Rules = typeof FILTERS

/** The filters of a query. Empty lists and `null` set no condition. */
export type Filter = { [Name in keyof Rules as Rules[Name]['field']]: Rules[Name]['none'] }

/** The rule of any filter. Its methods take the value of its own field. */
type AnyRule = Rule<keyof Filter, Filter[keyof Filter]>

/** The rules by the names of their parameters, in the order of the table. */
export const FILTER_RULES: { readonly [name: string]: AnyRule } = FILTERS

const RULES = Object.entries(FILTER_RULES)

/** The filter of a query without parameters. */
const NOT_GIVEN = Object.fromEntries(RULES.map(([, { field, none }]) => [field, none])) as Filter // its fields

/** The filter that every proxy passes, whatever its age. */
export const EVERYTHING: Filter = { ...NOT_GIVEN, ageMaxSeconds: Number.MAX_SAFE_INTEGER }

/** The filter of parameters that their schemas have accepted; other names are ignored. */
export function filterOf(
  texts: { readonly [name: string]: string },
  services: readonly string[],
): Filter {
  const filter: { [field: string]: unknown } = { ...NOT_GIVEN }
  for (const name in texts) {
    const rule = FILTER_RULES[name]
    if (rule !== undefined) filter[rule.field] = rule.decode(texts[name] ?? '', services)
  }
  // The mode has no effect without countries, and queries with equal answers must be equal.
  if (texts.country === undefined) filter.countryMode = 'include'
  return filter as Filter // each field was set by its own rule
}

/** The filters in effect, as parameters that a client can send back (contract A6). */
export function describeFilter(filter: Filter, provider: string) {
  const services = serviceNames(provider)
  const shown: { [name: string]: string | number } = {}
  for (const [name, rule] of RULES) {
    const value = filter[rule.field]
    const text = rule.show ? rule.show(value, filter, services) : asShown(value)
    if (text !== null) shown[name] = text
  }
  return shown
}

const asShown = (value: Filter[keyof Filter]): Shown =>
  typeof value === 'object'
    ? (Array.isArray(value) && value.join(',').toLowerCase()) || null
    : value

const CONDITIONS = RULES.filter(([, { condition }]) => condition !== undefined)

/** The conditions of a filter without its age. `rest` also omits the filter `decided`, which an index checks. */
export function conditionsOf(
  filter: Filter,
  options: ConditionOptions,
  decided: string | null,
): { all: readonly Condition[]; rest: readonly Condition[] } {
  const [all, rest]: [Condition[], Condition[]] = [[], []]
  for (const [name, rule] of CONDITIONS) {
    const condition = rule.condition?.(filter[rule.field], options) ?? null
    if (condition === null) continue
    all.push(condition)
    if (name !== decided) rest.push(condition)
  }
  return { all, rest }
}

/** Letters that Unicode does not decompose: those with a stroke, and ß, the lower case of ẞ. */
const WHOLE: { [letter: string]: string } = { ł: 'l', ø: 'o', đ: 'd', ħ: 'h', ŧ: 't', ß: 'ss' }

/**
 * Folds a name for comparison (contract A4): case in any alphabet, Unicode composition and accents, so that Ё equals Е.
 * Й stays its own letter, and so do marks that are no accents, such as the vowels of Hindi. Lists store folded names,
 * so a change of this function needs a new schema.
 */
export const fold = (name: string): string =>
  name
    .trim()
    .normalize('NFKC')
    .toUpperCase()
    .toLowerCase()
    .normalize('NFD')
    .replace(/(?<!и)\u0306|[\u0300-\u0305\u0307-\u036f]/g, '')
    .replace(/[łøđħŧß]/g, letter => WHOLE[letter] ?? letter)
    .normalize('NFKC')
