/**
 * The parameters of a query: their names, TypeBox schemas (of strings), and turning strings into a typed
 * `Filter` and `Output` (spec 4.1, contract A3 and A4), limited by the entitlements of the key. Programs
 * poll with the same query string, so those that repeat stay in memory, parsed.
 */
import { type TObject, type TString, Type } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import type { Entitlements } from '../access/entitlements.ts'
import { createBoundedMap, createDoorkeeper } from '../lib/bounded-map.ts'
import { nearest } from '../lib/did-you-mean.ts'
import { type Pair, splitQueryString } from '../lib/query-string.ts'
import { shownName } from '../lib/redact.ts'
import {
  COUNTRY_MODES,
  DEFAULT_AGE_MAX_SECONDS,
  type Filter,
  fold,
  SORTS,
} from '../proxies/filter.ts'
import { ANONS, LANGS, parseAddress, SERVICES, type Service, TYPES } from '../proxies/proxy.ts'
import { ApiError } from './errors.ts'
import { memberNames, OUTPUT_KINDS, type Output } from './render.ts'

/** The parameters of a query string, typed. */
export type Params = { filter: Filter; output: Output }

const GETS = [...OUTPUT_KINDS, ...OUTPUT_KINDS.map(kind => `${kind}.file`)]
const INTEGER_MAX = 999_999_999_999_999

/**
 * A parameter's schema: `pattern` checks it, `accepts` says in an error what it should be. For the
 * documentation: the closed `values` of it, or of the items of a `list`, or the pattern of an `item`.
 */
type Parameter = TString & {
  accepts: string
  list?: boolean
  min?: number
  max?: number
  values?: readonly string[]
  item?: string
}
const parameter = (pattern: string, accepts: string, more: object = {}): Parameter =>
  Type.String({ pattern, accepts, ...more }) as Parameter // TypeBox keeps extra keywords, untyped

const literally = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
const anyOf = (values: readonly string[]): string => `(?:${values.map(literally).join('|')})`
const integer = (min: number, max: number, unit = ''): Parameter =>
  parameter('^[0-9]{1,15}$', `an integer from ${min} to ${max}${unit}`, { min, max })
const oneOf = (values: readonly string[]): Parameter =>
  parameter(`^${anyOf(values)}$`, values.join(' or '), { values })
const flag = oneOf(['1', '0'])
const listMatching = (item: string, accepts: string, more: object): Parameter =>
  parameter(`^${item}(?:,${item})*$`, `a comma-separated list of ${accepts}`, {
    list: true,
    ...more,
  })
const listOf = (values: readonly string[]): Parameter =>
  listMatching(anyOf(values), values.join(', '), { values })

const OCTET = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
const PORT =
  '(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})'
const CITY_CHARACTER = '[^,\\u0000-\\u001f\\u007f]'

/** The parameters of spec 4.1 in its order, and ours (contract F1), by the output they apply to. */
function parametersOf(provider: string) {
  const services = SERVICES.map(service => (service === 'provider' ? provider : service))
  const filters = {
    type: listOf(TYPES),
    anon: listOf(ANONS),
    ping: integer(0, INTEGER_MAX, ' (milliseconds)'),
    speed: integer(0, INTEGER_MAX, ' (bytes per second)'),
    time: integer(0, INTEGER_MAX, ' (seconds)'),
    works: integer(0, 100),
    country: listMatching('[a-z]{2}', 'two-letter country codes (ISO 3166-1 alpha-2)', {
      item: '[A-Za-z]{2}',
    }),
    country_mode: oneOf(COUNTRY_MODES),
    cm: oneOf(COUNTRY_MODES),
    // A character of the documentation may be two code units here, and two more in lower case.
    city: listMatching(`${CITY_CHARACTER}{1,200}`, 'city names', {
      item: `${CITY_CHARACTER}{1,100}`,
    }),
    port: integer(1, 65535),
    ip: parameter(
      `^(?:${OCTET}\\.){3}${OCTET}:${PORT}$`,
      'an IPv4 address with a port, a.b.c.d:port',
    ),
    service: listOf(services),
    sort: oneOf(SORTS),
    count: integer(0, INTEGER_MAX),
    lang: oneOf(LANGS),
    get: oneOf(GETS),
  }
  const txt = { type_prefix: flag }
  const record = { fields: listOf(memberNames(provider)), split_ip: flag }
  const json = { format: oneOf(['array', 'object']), wrap: flag, pretty: flag }
  return { filters, txt, record, json }
}

/** A parameter for the documentation; `forms`: those of `get` that it applies to. */
export type Described = Pick<Parameter, 'accepts' | 'list' | 'max' | 'min' | 'pattern'> &
  Pick<Parameter, 'values' | 'item'> & { name: string; forms: readonly Output['kind'][] }

/** All parameters but `key`, in the order of the table. */
export function describeParameters(provider: string): Described[] {
  const { filters, txt, record, json } = parametersOf(provider)
  const groups = [
    [OUTPUT_KINDS, filters],
    [['txt'], txt],
    [['json', 'csv', 'ndjson'], record],
    [['json'], json],
  ] as const
  return groups.flatMap(([forms, parameters]) =>
    Object.entries<Parameter>(parameters).map(([name, parameter]) => ({
      name,
      forms,
      ...parameter,
    })),
  )
}

/** The error for parameters that cannot be accepted. */
export const invalid = (message: string): ApiError => new ApiError('INVALID_PARAMETER', message)

/** `key`: the access key of the request, which no message may repeat. */
type ParamsParser = (pairs: readonly Pair[], key?: string) => Params
type Values = { [name: string]: string }

/**
 * The parser of query strings for one name of the provider's service.
 * It throws ApiError INVALID_PARAMETER naming the parameter and what it accepts.
 */
export function createParamsParser(provider: string): ParamsParser {
  const { filters, txt, record, json } = parametersOf(provider)
  const known: { [name: string]: Parameter } = { ...filters, ...txt, ...record, ...json }
  const members = memberNames(provider)
  const compile = (schema: TObject): TypeCheck<TObject> => TypeCompiler.Compile(schema)
  const optional = (schemas: { [name: string]: Parameter }): TObject =>
    Type.Object(
      Object.fromEntries(Object.entries(schemas).map(([name, s]) => [name, Type.Optional(s)])),
      { additionalProperties: false },
    )
  const modeOf = (own: { [name: string]: Parameter }) => ({ own, check: compile(optional(own)) })
  const records = modeOf({ ...filters, ...record })
  const modes: { [K in Output['kind']]: ReturnType<typeof modeOf> } = {
    txt: modeOf({ ...filters, ...txt }),
    json: modeOf({ ...filters, ...record, ...json }),
    csv: records,
    ndjson: records,
  }

  return function parseParams(given, key = '') {
    const named = given.filter(({ name }) => name !== 'key')
    for (const { name } of named) refuseUnknown(name, key, known)
    const pairs = named.filter(({ value }) => value !== '')
    const { own, check } = modes[kindOf(pairs.find(({ name }) => name === 'get')?.value)]
    const values = collect(pairs, own, provider)
    if (!check.Check(values)) {
      const wrong = check.Errors(values).First()?.path.slice(1) ?? ''
      throw invalid(mustBe(wrong, own))
    }
    return { filter: toFilter(values, own, provider), output: toOutput(values, members) }
  }
}

/** The kind of output that a value of `get` asks for; a bad value is refused later. */
const kindOf = (get: string | null | undefined): Output['kind'] =>
  OUTPUT_KINDS.find(kind => kind === get?.replace(/\.file$/, '')) ?? 'txt'

function refuseUnknown(name: string | null, key: string, known: object): void {
  if (name === null) throw invalid('parameter names must be valid UTF-8 in percent-encoding')
  if (Object.hasOwn(known, name)) return
  const hint = nearest(name, [...Object.keys(known), 'key'])
  const shown = shownName(name, key, hint !== null)
  throw invalid(`unknown parameter${shown}${hint === null ? '' : `; did you mean '${hint}'?`}`)
}

const mustBe = (name: string, own: { [name: string]: Parameter }): string =>
  `${name} must be ${own[name]?.accepts}`

/** One string per parameter: lists merged and normalised, repetitions refused. */
function collect(
  pairs: readonly Pair[],
  own: { [name: string]: Parameter },
  provider: string,
): Values {
  const given = new Map<string, string[]>()
  for (const { name, value } of pairs) {
    if (name === null || !Object.hasOwn(own, name)) continue // belongs to the other output mode
    if (value === null) throw invalid(`${name} must be valid UTF-8 in percent-encoding`)
    const texts = given.get(name)
    if (texts === undefined) given.set(name, [value])
    else texts.push(value)
  }
  const values: Values = {}
  for (const [name, texts] of given) {
    const text = own[name]?.list ? joined(name, texts, provider) : single(name, texts)
    if (text !== '') values[name] = text
  }
  refuseTwoModes(values)
  return values
}

function single(name: string, [text = '', ...more]: readonly string[]): string {
  if (more.length > 0) throw invalid(`${name} may be given only once`)
  return text
}

function refuseTwoModes({ cm, country_mode: mode }: Values): void {
  if (cm === undefined || mode === undefined || cm === mode) return
  throw invalid('cm and country_mode are one parameter; give one of them, or the same value')
}

/** Items trimmed, in lower case, each once; the provider's service under its configured name. */
function joined(parameterName: string, texts: readonly string[], provider: string): string {
  const hasServices = parameterName === 'service' || parameterName === 'fields'
  const items = texts
    .join()
    .split(',')
    .map(item => {
      const name = item.trim().toLowerCase()
      return hasServices && name.replaceAll('_', ' ') === provider ? provider : name
    })
  return [...new Set(items.filter(item => item !== ''))].join(',')
}

const items = (text: string | undefined): string[] => (text === undefined ? [] : text.split(','))

/** The members of a closed list that a parameter names, in the list's order. */
const chosen = <T extends string>(list: readonly T[], text: string | undefined): T[] => {
  if (text === undefined) return []
  const named = new Set(items(text))
  return list.filter(item => named.has(item))
}

function toInteger(name: string, values: Values, own: { [name: string]: Parameter }) {
  const text = values[name]
  if (text === undefined) return null
  const { min = 0, max = INTEGER_MAX } = own[name] ?? {}
  const value = Number(text)
  if (value < min || value > max) throw invalid(mustBe(name, own))
  return value
}

function toFilter(values: Values, own: { [name: string]: Parameter }, provider: string): Filter {
  const mode = values.country_mode ?? values.cm
  const services = new Set(items(values.service))
  const wanted = (service: Service) => services.has(service === 'provider' ? provider : service)
  return {
    types: chosen(TYPES, values.type),
    anons: chosen(ANONS, values.anon),
    pingMaxMs: toInteger('ping', values, own),
    speedMin: toInteger('speed', values, own),
    ageMaxSeconds: toInteger('time', values, own) ?? DEFAULT_AGE_MAX_SECONDS,
    worksMin: toInteger('works', values, own),
    countries: items(values.country?.toUpperCase()).sort(),
    countryMode: mode === 'except' && values.country !== undefined ? 'except' : 'include',
    cities: [...new Map(items(values.city).map(city => [fold(city), city])).values()].sort(),
    lang: values.lang === 'en' ? 'en' : 'ru',
    port: toInteger('port', values, own),
    address: values.ip === undefined ? null : parseAddress(values.ip),
    services: SERVICES.filter(wanted),
    sort: SORTS.find(sort => sort === values.sort) ?? null,
    count: toInteger('count', values, own) || null,
  }
}

/** `members`: of a record, in their order. */
function toOutput(values: Values, members: readonly string[]): Output {
  const fields = chosen(members, values.fields)
  const output: Output = {
    kind: kindOf(values.get),
    isDownload: values.get?.endsWith('.file') ?? false,
    hasTypePrefix: values.type_prefix === '1',
    fields: fields.length === 0 ? null : fields,
    splitIp: values.split_ip === '1',
    shape: values.format === 'object' ? 'object' : 'array',
    wrap: values.wrap === '1',
    pretty: values.pretty !== '0',
  }
  if (fields.join() === 'port' && !output.splitIp) {
    throw invalid('fields=port shows nothing without split_ip=1; give that too, or more fields')
  }
  return output
}

/** Queries with the same `id` have the same answer. */
export type Query = {
  id: string
  filter: Filter
  output: Output
  /** See `proxies/mask.ts`. */
  addressBits: 32 | 16
  /** Whether it was the kind of key that set `filter.worksMin`. */
  isWorksSet: boolean
}

/** Most query strings in memory, and their longest; longer ones are parsed each time. */
const PARSED_MAX = 10_000
const LENGTH_MAX = 512

/** A parsed query string, and its query for each kind of key that sent it. */
type Parsed = { params: Params; queries: Map<Entitlements, Query> }

export type QueryReader = ReturnType<typeof createQueryReader>

/** Reads queries for one name of the provider's service. */
export function createQueryReader(provider: string) {
  const parse = createParamsParser(provider)
  const parsed = createBoundedMap<string, Parsed>(PARSED_MAX)
  const isRepeated = createDoorkeeper()

  /**
   * Parses a query string. `key` is the request's access key, which no message may repeat.
   * @throws ApiError INVALID_PARAMETER naming the parameter and what it accepts.
   */
  return function readQuery(text: string, key: string, entitlements: Entitlements): Query {
    const known = parsed.get(text)
    const query = known?.queries.get(entitlements)
    if (query !== undefined) return query
    const params = known?.params ?? parse(splitQueryString(text), key)
    const fresh = entitledQuery(params, entitlements)
    if (known !== undefined) known.queries.set(entitlements, fresh)
    else if (text.length <= LENGTH_MAX && isRepeated(text)) {
      parsed.set(text, { params, queries: new Map([[entitlements, fresh]]) })
    }
    return fresh
  }
}

/** The query as the kind of key allows it: `count` bounded, `works` set (spec 8). */
function entitledQuery({ filter: asked, output }: Params, entitlements: Entitlements): Query {
  const { countMax, worksDefault, addressBits } = entitlements
  const filter = {
    ...asked,
    worksMin: asked.worksMin ?? worksDefault,
    count: countMax === null ? asked.count : Math.min(asked.count ?? countMax, countMax),
  }
  const id = JSON.stringify([addressBits, filter, output])
  const isWorksSet = asked.worksMin === null && worksDefault !== null
  return { id, filter, output, addressBits, isWorksSet }
}
