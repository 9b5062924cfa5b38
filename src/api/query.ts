/** Parses a query string to a `Filter` and an `Output` (spec 4.1, contract A3, A4), within entitlements. */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Entitlements } from '../access/entitlements.ts'
import { createDoorkeeper, createFifoMap } from '../lib/bounded-map.ts'
import { nearest } from '../lib/did-you-mean.ts'
import {
  chosenOf,
  flag,
  itemsOf,
  listOf,
  oneOf,
  type Parameter,
  textMatching,
} from '../lib/parameter.ts'
import { type Pair, splitQueryString } from '../lib/query-string.ts'
import { shownName } from '../lib/redact.ts'
import { FILTER_RULES, type Filter, filterOf, type ParameterRule } from '../proxies/filter.ts'
import { serviceNames } from '../proxies/proxy.ts'
import { ApiError } from './errors.ts'
import { memberNames, OUTPUT_KINDS, type Output, PLACEHOLDER_NAMES } from './render.ts'

type Params = { filter: Filter; output: Output }

/** A parameter of the output. `forms`: the values of `get` that it applies to. */
type OutputRule = ParameterRule & { forms: readonly Output['kind'][] }

const RECORDS = ['json', 'csv', 'ndjson'] as const

/** Other characters of a line than braces, and any placeholder. */
const LINE_PART = `(?:[ -z|~]|\\{(?:${PLACEHOLDER_NAMES.join('|')})\\})*`
const lineWith = (one: string, other: string): string =>
  `${LINE_PART}\\{${one}\\}${LINE_PART}\\{${other}\\}${LINE_PART}`
const LINE = textMatching(
  `^(?:${lineWith('ip', 'port')}|${lineWith('port', 'ip')})$`,
  'up to 100 printable ASCII characters with {ip} and {port}, and perhaps {type}, {scheme} and {country}',
  { maxLength: 100 },
)

const OUTPUTS: { readonly [name: string]: OutputRule } = {
  get: {
    forms: OUTPUT_KINDS,
    schema: oneOf([...OUTPUT_KINDS, ...OUTPUT_KINDS.map(kind => `${kind}.file`)]),
    en: 'The answer format, with `.file` as a download.',
    ru: 'Формат ответа. С `.file` ответ приходит файлом для скачивания.',
    example: 'json',
    default: 'txt',
  },
  type_prefix: {
    forms: ['txt'],
    schema: flag,
    en: '`1`: each line has the form `type://ip:port`.',
    ru: '`1`: каждая строка имеет вид `type://ip:port`.',
    example: '1',
    default: '0',
  },
  line: {
    forms: ['txt'],
    schema: LINE,
    en: 'A template for each line, with `{type}`, `{scheme}` (the proxy’s URL scheme: its type, but `http` for `https`), `{ip}`, `{port}`, `{country}`. Not with `type_prefix`.',
    ru: 'Шаблон строки: `{type}`, `{scheme}` (как пишут программы: для https — `http`), `{ip}`, `{port}`, `{country}`. Не вместе с `type_prefix`.',
    example: '{scheme}://{ip}:{port}',
  },
  fields: {
    forms: RECORDS,
    schema: listOf,
    en: 'The members to show, always in the order of the record.',
    ru: 'Какие поля показать; их порядок неизменен.',
    example: ['ip', 'ping', 'country'],
  },
  split_ip: {
    forms: RECORDS,
    schema: flag,
    en: '`1`: `ip` is only the address, `port` a separate member.',
    ru: '`1`: в `ip` только адрес, порт — в отдельном поле `port`.',
    example: '1',
    default: '0',
  },
  format: {
    forms: ['json'],
    schema: oneOf(['array', 'object']),
    en: '`array`: a list of records. `object`: records keyed by address. Ignored without `get=json`. To get JSON, use `get=json`: `format=json` alone gives TXT.',
    ru: '`array`: список записей. `object`: записи по их адресам. Без `get=json` не действует: просто `format=json` даёт TXT.',
    example: 'object',
    default: 'array',
  },
  wrap: {
    forms: ['json'],
    schema: flag,
    en: '`1`: an envelope with `status`, `count`, `timestamp`, `filters`, and the records as `data`.',
    ru: '`1`: конверт с полями `status`, `count`, `timestamp`, `filters` и записями в `data`.',
    example: '1',
    default: '0',
  },
  pretty: {
    forms: ['json'],
    schema: flag,
    en: '`1`: indented. `0`: no white space.',
    ru: '`1`: с отступами. `0`: без пробелов.',
    example: '0',
    default: '1',
  },
}

/** A parameter with its documentation. `hasServices`: its values may name the provider's service. */
export type ParameterDoc = Parameter &
  Omit<OutputRule, 'schema'> & { name: string; hasServices: boolean }

/** All parameters except `key`, in the order of spec 4.1. */
export function describeParameters(provider: string): ParameterDoc[] {
  type Rules = { readonly [name: string]: ParameterRule & { forms?: OutputRule['forms'] } }
  const describe = (rules: Rules, names: readonly string[]): ParameterDoc[] =>
    Object.entries(rules).map(([name, { schema, forms = OUTPUT_KINDS, ...rule }]) => {
      const hasServices = typeof schema === 'function'
      return { ...rule, ...(hasServices ? schema(names) : schema), name, forms, hasServices }
    })
  return [
    ...describe(FILTER_RULES, serviceNames(provider)),
    ...describe(OUTPUTS, memberNames(provider)),
  ]
}

export const invalid = (message: string): ApiError => new ApiError('INVALID_PARAMETER', message)

/** `key`: the access key of the request. Messages must not repeat it. */
type ParamsParser = (pairs: readonly Pair[], key?: string) => Params
type Values = { [name: string]: string }

/** Creates a parser of all parameters, or of those with these `names`. It throws ApiError INVALID_PARAMETER. */
export function createParamsParser(provider: string, names?: readonly string[]): ParamsParser {
  const all = describeParameters(provider).filter(({ name }) => names?.includes(name) ?? true)
  const byName = (some: readonly ParameterDoc[]) => new Map(some.map(each => [each.name, each]))
  const known = byName(all)
  const modeOf = (kind: Output['kind']) => {
    const own = byName(all.filter(({ forms }) => forms.includes(kind)))
    const schemas = [...own].map(([name, schema]) => [name, Type.Optional(Type.String(schema))])
    return { own, check: TypeCompiler.Compile(Type.Object(Object.fromEntries(schemas))) }
  }
  const records = modeOf('csv')
  const modes = { txt: modeOf('txt'), json: modeOf('json'), csv: records, ndjson: records }
  const bounded = all.filter(({ min }) => min !== undefined)
  const services = serviceNames(provider)
  const members = memberNames(provider)

  return function parseParams(given, key = '') {
    const named = given.filter(({ name }) => name !== 'key')
    for (const { name } of named) refuseUnknown(name, key, known)
    const pairs = named
      .filter(({ value }) => value !== '')
      .map(pair =>
        pair.name === 'get' ? { ...pair, value: pair.value?.toLowerCase() ?? null } : pair,
      )
    const { own, check } = modes[kindOf(pairs.find(({ name }) => name === 'get')?.value)]
    const values = collect(pairs, own, provider)
    if (!check.Check(values)) {
      const wrong = check.Errors(values).First()?.path.slice(1) ?? ''
      throw mustBe(wrong, own.get(wrong))
    }
    for (const parameter of bounded) refuseOutside(parameter, values[parameter.name])
    return { filter: filterOf(values, services), output: toOutput(values, members) }
  }
}

/** The form that `get` names. A bad value is refused later. */
const kindOf = (get: string | null | undefined): Output['kind'] =>
  OUTPUT_KINDS.find(kind => kind === get?.replace(/\.file$/, '')) ?? 'txt'

type Known = ReadonlyMap<string, ParameterDoc>

/** Names of parameters in other services, and ours. */
const CALLED_ELSEWHERE: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...{ limit: 'count', size: 'count', max: 'count', protocol: 'type', protocols: 'type' },
    ...{ anonymity: 'anon', latency: 'ping', timeout: 'ping', uptime: 'works', max_age: 'time' },
    ...{ num: 'count', page: 'count', offset: 'count', random: 'sort=random', delimiter: 'line' },
    ...{ exclude_country: 'country=…&cm=except', order: 'sort', sort_by: 'sort' },
    ...{ api_key: 'key', apikey: 'key', token: 'key' },
  }),
)

function refuseUnknown(name: string | null, key: string, known: Known): void {
  if (name === null) throw invalid('parameter names must be valid UTF-8 in percent-encoding')
  if (known.has(name)) return
  const names = [...known.keys(), 'key']
  const elsewhere = CALLED_ELSEWHERE.get(name.toLowerCase())
  const isOurs = names.some(ours => ours === elsewhere?.split('=')[0])
  const hint = isOurs && elsewhere ? elsewhere : nearest(name, names)
  const shown = shownName(name, key, hint !== null)
  throw invalid(`unknown parameter${shown}${hint === null ? '' : `; did you mean '${hint}'?`}`)
}

const mustBe = (name: string, parameter: ParameterDoc | undefined): ApiError =>
  invalid(`${name} must be ${parameter?.accepts}`)

function refuseOutside(parameter: ParameterDoc, text: string | undefined): void {
  if (text === undefined) return
  const { name, min = 0, max = Infinity } = parameter
  const value = Number(text)
  if (value < min || value > max) throw mustBe(name, parameter)
}

/** One string per parameter. Merges and normalises lists; refuses other repetitions. */
function collect(pairs: readonly Pair[], own: Known, provider: string): Values {
  const given = new Map<ParameterDoc, string[]>()
  for (const { name, value } of pairs) {
    const parameter = own.get(name ?? '')
    if (parameter === undefined) continue // belongs to another form
    if (value === null) throw invalid(`${name} must be valid UTF-8 in percent-encoding`)
    const texts = given.get(parameter)
    if (texts === undefined) given.set(parameter, [value])
    else texts.push(value)
  }
  const values: Values = {}
  for (const [parameter, texts] of given) {
    const text = parameter.list ? joined(parameter, texts, provider) : single(parameter, texts)
    if (text !== '') values[parameter.name] = text
  }
  refuseTwoModes(values)
  if (values.line !== undefined && values.type_prefix !== undefined) {
    throw invalid('line replaces type_prefix; give only one of them')
  }
  return values
}

function refuseTwoModes({ cm, country_mode: mode }: Values): void {
  if (cm === undefined || mode === undefined || cm === mode) return
  throw invalid('cm and country_mode are one parameter; give one of them, or the same value')
}

const FLAGS = new Map(Object.entries({ true: '1', false: '0' }))

function single({ name, isFlag }: ParameterDoc, [text = '', ...more]: readonly string[]): string {
  if (more.length > 0) throw invalid(`${name} may be given only once`)
  return (isFlag && FLAGS.get(text.toLowerCase())) || text
}

/** Trims items and removes duplicates. The provider's service gets its configured name. */
function joined({ hasServices }: ParameterDoc, texts: readonly string[], provider: string): string {
  const items = itemsOf(texts.join().toLowerCase()).map(item => item.trim())
  const isProvider = (item: string) => hasServices && item.replaceAll('_', ' ') === provider
  const names = items.map(item => (isProvider(item) ? provider : item))
  return [...new Set(names.filter(name => name !== ''))].join(',')
}

function toOutput(values: Values, members: readonly string[]): Output {
  const fields = values.fields === undefined ? [] : chosenOf(members, values.fields)
  const output: Output = {
    kind: kindOf(values.get),
    isDownload: values.get?.endsWith('.file') ?? false,
    line: values.line ?? (values.type_prefix === '1' ? '{type}://{ip}:{port}' : null),
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
  addressBits: 32 | 16
  /** Whether the kind of key set `filter.worksMin`. */
  isWorksSet: boolean
}

/** Most parsed query strings in memory, and the longest: 10 MB of usual ones, 40 MB at worst. */
const PARSED_MAX = 8_192
const LENGTH_MAX = 256

/** A parsed query string, and its query for each kind of key. */
type Parsed = { params: Params; queries: Map<Entitlements, Query> }

export type QueryReader = ReturnType<typeof createQueryReader>

/** Programs poll with the same query string, so the reader remembers the ones that repeat. */
export function createQueryReader(provider: string) {
  const parse = createParamsParser(provider)
  const parsed = createFifoMap<string, Parsed>(PARSED_MAX)
  const isRepeated = createDoorkeeper()

  /** Parses a query string. Messages must not repeat the access `key`. @throws ApiError INVALID_PARAMETER */
  return function readQuery(text: string, key: string, entitlements: Entitlements): Query {
    const known = parsed.get(text)
    const query = known?.queries.get(entitlements)
    if (query !== undefined) return query
    const { params, queries } = known ?? {
      params: parse(splitQueryString(text), key),
      queries: new Map<Entitlements, Query>(),
    }
    const fresh = entitledQuery(params, entitlements)
    queries.set(entitlements, fresh)
    if (known === undefined && text.length <= LENGTH_MAX && isRepeated(text)) {
      parsed.set(text, { params, queries })
    }
    return fresh
  }
}

/** Bounds `count` and sets `works` as the kind of key demands (spec 8). */
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
