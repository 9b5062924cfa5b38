/**
 * The examples of the OpenAPI document. A test sends each request to a service with
 * `EXAMPLE_RECORDS` as its list, at `EXAMPLE_TIME`, and compares.
 */

import { BINS, type Bins, type StatsPart } from '../../proxies/stats.ts'
import { type FORMS, memberNames } from '../render.ts'
import type { Example } from './schema.ts'

/** The time of the examples; records were checked a minute before. */
export const EXAMPLE_TIME = '2026-11-20T12:00:00.000Z'

/** The list of the examples, in the order of an answer; the provider's service is under `provider`. */
export const EXAMPLE_RECORDS = [
  {
    ip: '203.0.113.10:1080',
    ip_out: '203.0.113.10',
    type: 'socks5',
    anon: 'elite',
    speed: 512_000,
    ping: 0.21,
    timecheck: '2026-11-20 13:59:00',
    country: 'DE',
    city: 'Берлин',
    works: '98',
    ...{ smtp: false, telegram: true, avito: false, google: true, provider: false },
  },
  {
    ip: '198.51.100.11:3128',
    ip_out: '',
    type: 'http',
    anon: 'anonymous',
    speed: 240_000,
    ping: 0.35,
    timecheck: '2026-11-20 13:59:00',
    country: 'FR',
    city: 'Париж',
    works: '91',
    ...{ smtp: false, telegram: false, avito: true, google: false, provider: true },
  },
] as const

type Members = { readonly [name: string]: unknown }

/** The records as an answer shows them. */
const recordsOf = (name: string): Members[] =>
  EXAMPLE_RECORDS.map(({ provider, ...record }) => ({ ...record, [name]: provider }))

const pick = (record: Members, names: readonly string[]): Members =>
  Object.fromEntries(names.map(name => [name, record[name]]))

/** Examples of answers of /api by the form that they show; `summary` is the query string. */
export function answerExamples(provider: string): {
  [form in keyof typeof FORMS]: { [name: string]: Example }
} {
  const records = recordsOf(provider)
  const names = memberNames(provider).filter(name => name !== 'port')
  const lines = records.map(record => names.map(name => record[name]).join(','))
  const [first = {}] = records
  return {
    txt: {
      addresses: { summary: 'country=de,fr', value: '203.0.113.10:1080\n198.51.100.11:3128\n' },
      withTypes: { summary: 'type=socks5&type_prefix=1', value: 'socks5://203.0.113.10:1080\n' },
    },
    json: {
      records: { summary: 'get=json&type=socks5', value: [first] },
      split: {
        summary: 'get=json&split_ip=1&fields=ip,port,country',
        value: [
          { ip: '203.0.113.10', port: '1080', country: 'DE' },
          { ip: '198.51.100.11', port: '3128', country: 'FR' },
        ],
      },
      byAddress: {
        summary: 'get=json&format=object&fields=type,ping',
        value: Object.fromEntries(
          records.map(record => [`${record.ip}`, pick(record, ['type', 'ping'])]),
        ),
      },
      envelope: {
        summary: 'get=json&wrap=1&fields=ip&country=de&ping=700',
        value: {
          status: 'ok',
          count: 1,
          timestamp: EXAMPLE_TIME,
          filters: { ping: 700, time: 600, country: 'de', country_mode: 'include', lang: 'ru' },
          data: [{ ip: '203.0.113.10:1080' }],
        },
      },
    },
    csv: {
      records: { summary: 'get=csv', value: `${[names.join(','), ...lines].join('\r\n')}\r\n` },
    },
    ndjson: {
      records: {
        summary: 'get=ndjson&fields=ip,ping,country',
        value: records
          .map(record => `${JSON.stringify(pick(record, ['ip', 'ping', 'country']))}\n`)
          .join(''),
      },
    },
  }
}

/** The report of a key of plan standard that has just sent two requests. */
export const KEY_EXAMPLE = {
  id: 'wsu5jcyw',
  label: 'first customer',
  plan: 'standard',
  state: 'active',
  expires: null,
  limits: [
    { name: 'burst', quota: 5, window: 5, left: 3, reset: 5 },
    { name: 'daily', quota: 34_560, window: 86_400, left: 34_558, reset: 43_200 },
  ],
  today: {
    ...{ requests: 2, records: 4, refused: 0 },
    hours: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  },
}

/** The report of `demo` before its first request. */
export const DEMO_EXAMPLE = {
  ...{ id: 'demo', label: '', plan: 'demo', state: 'active', expires: null },
  limits: [{ name: 'demo', quota: 2, window: 60, left: 2, reset: 0 }],
  today: null,
}

const histogramOf = (bins: Bins, rows: { [bin: number]: number }) =>
  bins.histogram(Uint32Array.from({ length: bins.size }, (_, bin) => rows[bin] ?? 0))

/** Statistics of a list of seven proxies like the first of `EXAMPLE_RECORDS`, and two like the second. */
export const STATS_EXAMPLE = (provider: string, part: StatsPart) => ({
  ...{ at: 1_795_176_000, version: '0.0', total: 9, matching: 9 },
  ...(part === 'full' && {
    facets: {
      type: { http: 2, https: 0, socks4: 0, socks5: 7 },
      anon: { '': 0, transparent: 0, anonymous: 2, elite: 7 },
      country: { DE: 7, FR: 2 },
      service: { smtp: 0, telegram: 7, avito: 2, google: 7, [provider]: 2 },
      age: { 60: 9, 300: 9, 600: 9, 3600: 9, 86400: 9, 604800: 9, '': 9 },
    },
    histograms: {
      ping: histogramOf(BINS.ping, { 3: 7, 4: 2 }),
      speed: histogramOf(BINS.speed, { 4: 2, 6: 7 }),
      works: histogramOf(BINS.works, { 9: 2, 10: 7 }),
    },
    cities: [
      { city: 'Берлин', city_en: 'Berlin', country: 'DE', count: 7 },
      { city: 'Париж', city_en: 'Paris', country: 'FR', count: 2 },
    ],
    examples: recordsOf(provider).map(record => ({
      ...record,
      ip: masked(`${record.ip}`),
      ip_out: masked(`${record.ip_out}`),
    })),
  }),
})

const masked = (address: string): string => address.replace(/^(\d+\.\d+)\.\d+\.\d+/, '$1.0.0')
