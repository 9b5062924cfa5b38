/**
 * The examples of the OpenAPI document. The program makes answers and statistics from
 * `EXAMPLE_PROXIES`, as it does for clients. A test compares all examples with the answers of a service.
 */
import { splitQueryString } from '../../lib/query-string.ts'
import { formatInstant, SECOND_MS } from '../../lib/time.ts'
import {
  type ConditionOptions,
  conditionsOf,
  EVERYTHING,
  type Filter,
  matcherOf,
} from '../../proxies/filter.ts'
import type { Proxy } from '../../proxies/proxy.ts'
import {
  type CityNames,
  type Found,
  ROW_COLUMNS,
  type RowNumbers,
  toRow,
} from '../../proxies/row.ts'
import { countFacets, createColumns, type StatsPart, statsDocument } from '../../proxies/stats.ts'
import { bodyOf, createAnswerRenderer } from '../answer.ts'
import { createParamsParser } from '../query.ts'
import type { FORMS } from '../render.ts'
import type { Example } from './schema.ts'

/** The time of the examples: 2026-11-20T12:00:00Z. Proxies were checked a minute before. */
const EXAMPLE_MS = 1_795_176_000_000
export const EXAMPLE_TIME = formatInstant(EXAMPLE_MS)

/** The list of the examples, in the order of an answer. */
export const EXAMPLE_PROXIES: readonly Proxy[] = [
  {
    ...{ ip: '203.0.113.10', port: 1080, type: 'socks5', anon: 'elite', ipOut: '203.0.113.10' },
    ...{ checkedAt: EXAMPLE_MS / SECOND_MS - 60, pingMs: 210, speed: 512_000, works: 98 },
    ...{ country: 'DE', city: 'Берлин', cityEn: 'Berlin' },
    services: new Set(['telegram', 'google']),
  },
  {
    ...{ ip: '198.51.100.11', port: 3128, type: 'http', anon: 'anonymous', ipOut: '' },
    ...{ checkedAt: EXAMPLE_MS / SECOND_MS - 60, pingMs: 350, speed: 240_000, works: 91 },
    ...{ country: 'FR', city: 'Париж', cityEn: 'Paris' },
    services: new Set(['avito', 'provider']),
  },
]
const ROWS = EXAMPLE_PROXIES.map((proxy, i) => toRow(proxy, i + 1))
const cityNames: CityNames = id => {
  const { city = '', cityEn = '' } = EXAMPLE_PROXIES[id - 1] ?? {}
  return { name: city, nameEn: cityEn }
}
const OPTIONS: ConditionOptions = {
  ...{ addressBits: 32, countryMode: 'include' },
  inCities: { sql: '', values: [], matcher: () => () => true }, // no example names a city
}
const find = (filter: Filter): Found => ({
  ...{ rows: ROWS.filter(matcherOf(conditionsOf(filter, OPTIONS, null).all)), cityNames },
  areKept: false,
})

/** The query strings of the examples of /api. */
const QUERIES: { readonly [name: string]: string } = {
  addresses: 'country=de,fr',
  withTypes: 'type=socks5&type_prefix=1',
  records: 'get=json&type=socks5',
  split: 'get=json&split_ip=1&fields=ip,port,country',
  byAddress: 'get=json&format=object&fields=type,ping',
  envelope: 'get=json&wrap=1&fields=ip&country=de&ping=700',
  csv: 'get=csv',
  ndjson: 'get=ndjson&fields=ip,ping,country',
}

type Examples = { [name: string]: Example }

/** Examples of answers of /api by their form; `summary` is the query string. */
export function answerExamples(provider: string) {
  const parse = createParamsParser(provider)
  const render = createAnswerRenderer(provider)
  const examples: { [form in keyof typeof FORMS]: Examples } = {
    ...{ txt: {}, json: {}, csv: {}, ndjson: {} },
  }
  for (const [name, query] of Object.entries(QUERIES)) {
    const { filter, output } = parse(splitQueryString(query))
    const { answer } = render({ filter, output, addressBits: 32 }, find(filter))
    const text = Buffer.from(bodyOf(answer, EXAMPLE_MS)).toString()
    const value = output.kind === 'json' ? JSON.parse(text) : text
    examples[output.kind][name] = { summary: query, value }
  }
  return examples
}

/** The statistics of the list. */
export function statsExample(provider: string, part: StatsPart) {
  const columns = createColumns(ROWS.length)
  for (const row of ROWS) {
    columns.add(Object.fromEntries(ROW_COLUMNS.map((name, i) => [name, row[i]])) as RowNumbers) // its names
  }
  const [at, filter] = [EXAMPLE_MS / SECOND_MS, EVERYTHING]
  const request = { filter, nowMs: EXAMPLE_MS, version: '0.0', part, provider }
  const { output } = createParamsParser(provider)(splitQueryString('get=json'))
  const render = createAnswerRenderer(provider)
  const { answer } = render({ filter, output, addressBits: 16 }, find(filter))
  const examples = JSON.parse(Buffer.from(bodyOf(answer, EXAMPLE_MS)).toString())
  const counted = countFacets(columns, filter, at, OPTIONS)
  return statsDocument(columns, counted, at, request, cityNames, examples)
}

/** The report of a key of plan standard that has just sent two requests. */
export const KEY_EXAMPLE = {
  ...{ id: 'wsu5jcyw', label: 'first customer', plan: 'standard', state: 'active', expires: null },
  limits: [
    { name: 'burst', quota: 5, window: 5, left: 3, reset: 5 },
    { name: 'daily', quota: 34_560, window: 86_400, left: 34_558, reset: 43_200 },
  ],
  today: {
    ...{ requests: 2, records: 4, refused: 0 },
    hours: Array.from({ length: 24 }, (_, hour) => (hour === 12 ? 2 : 0)),
  },
}
