/** Owns the schemas of bodies in the OpenAPI document (spec 2.1 to 2.3, contract F3 and F4). */
import { ANONS, SERVICES, TYPES } from '../../proxies/proxy.ts'
import { STATUS } from '../errors.ts'
import { memberNames } from '../render.ts'
import type { Say } from './parameters.ts'
import { refTo, type Schema } from './schema.ts'
import { DOCUMENT_TEXTS } from './texts/document.ts'
import { ERROR_MEMBER_TEXTS, ERROR_TEXTS } from './texts/errors.ts'
import {
  CUBE_TEXTS,
  ENVELOPE_TEXTS,
  HISTOGRAM_TEXTS,
  KEY_TEXTS,
  LIMIT_TEXTS,
  STATS_TEXTS,
  TODAY_TEXTS,
} from './texts/members.ts'
import { MEMBER_TEXTS, type Text } from './texts/parameters.ts'

const TEXT: Schema = { type: 'string' }
const BOOLEAN: Schema = { type: 'boolean' }
const COUNT: Schema = { type: 'integer', minimum: 0 }
const INSTANT: Schema = { type: 'string', format: 'date-time' }
const COUNTS: Schema = { type: 'array', items: COUNT }
const NUMBERS: Schema = { type: 'array', items: { type: 'number' } }
const IPV4 = '(?:[0-9]{1,3}\\.){3}[0-9]{1,3}'

type Members = { readonly [name: string]: Schema }

/** Adds to members what their texts say of them. */
const described = (members: Members, texts: { readonly [name: string]: Text }, say: Say): Members =>
  Object.fromEntries(
    Object.entries(members).map(([name, schema]) => {
      const text = texts[name]
      return [name, text === undefined ? schema : { description: say(text), ...schema }]
    }),
  )

/** An object that has all of these members. */
const whole = (description: string, properties: Members): Schema => ({
  description,
  type: 'object',
  required: Object.keys(properties),
  properties,
})

/** A record: all members that there may be, none of them always, because of `fields`. */
function proxySchema(provider: string, say: Say): Schema {
  const types: Members = {
    ip: { type: 'string', pattern: `^${IPV4}(?::[0-9]{1,5})?$` },
    port: { type: 'string', pattern: '^[1-9][0-9]{0,4}$' },
    ip_out: TEXT,
    type: { type: 'string', enum: TYPES },
    anon: { type: 'string', enum: ['', ...ANONS] },
    speed: { type: ['integer', 'null'], minimum: 0 },
    ping: { type: ['number', 'null'], minimum: 0 },
    timecheck: {
      type: 'string',
      pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$',
    },
    country: { type: 'string', pattern: '^(?:[A-Z]{2})?$' },
    city: TEXT,
    works: { type: 'string', pattern: '^(?:100|[1-9]?[0-9])?$' },
  }
  const texts = { ...MEMBER_TEXTS, [provider]: MEMBER_TEXTS.provider }
  const members = memberNames(provider).map(name => [name, types[name] ?? BOOLEAN] as const)
  return {
    description: say(DOCUMENT_TEXTS['schema.Proxy']),
    type: 'object',
    properties: described(Object.fromEntries(members), texts, say),
    additionalProperties: false,
  }
}

/** Every code, its status, and when it is sent. */
const errorCodeSchema = (say: Say): Schema => ({
  type: 'string',
  enum: Object.keys(STATUS),
  'x-enumDescriptions': Object.fromEntries(
    Object.entries(ERROR_TEXTS).map(([code, text]) => [code, say(text)]),
  ),
  'x-enumStatuses': STATUS,
})

function errorSchema(say: Say): Schema {
  const always = {
    status: { const: 'error' },
    code: refTo('ErrorCode'),
    message: TEXT,
    timestamp: INSTANT,
  }
  const sometimes = {
    retry_after: { type: 'integer', minimum: 1 },
    daily_limit: COUNT,
    used_subnets: COUNT,
  }
  return {
    description: say(DOCUMENT_TEXTS['schema.Error']),
    type: 'object',
    required: Object.keys(always),
    properties: described({ ...always, ...sometimes }, ERROR_MEMBER_TEXTS, say),
  }
}

function envelopeSchema(say: Say): Schema {
  const members = {
    status: { const: 'ok' },
    count: COUNT,
    timestamp: INSTANT,
    filters: { type: 'object', additionalProperties: { type: ['string', 'integer'] } },
    data: { oneOf: [{ type: 'array', items: refTo('Proxy') }, refTo('ByAddress')] },
  }
  return whole(say(DOCUMENT_TEXTS['schema.Envelope']), described(members, ENVELOPE_TEXTS, say))
}

/** The schemas of a key's report (contract F3). */
function keySchemas(say: Say): { Key: Schema; Limit: Schema } {
  const limit = {
    name: TEXT,
    quota: COUNT,
    window: { type: 'integer', minimum: 1 },
    left: COUNT,
    reset: COUNT,
  }
  const today = { requests: COUNT, records: COUNT, refused: COUNT, hours: COUNTS }
  const hours = { ...COUNTS, minItems: 24, maxItems: 24 }
  const key = {
    id: TEXT,
    label: TEXT,
    plan: TEXT,
    state: { const: 'active' },
    expires: { type: ['string', 'null'], format: 'date-time' },
    limits: { type: 'array', items: refTo('Limit') },
    today: {
      ...whole(say(KEY_TEXTS.today), described({ ...today, hours }, TODAY_TEXTS, say)),
      type: ['object', 'null'],
    },
  }
  return {
    Key: whole(say(DOCUMENT_TEXTS['schema.Key']), described(key, KEY_TEXTS, say)),
    Limit: whole(say(DOCUMENT_TEXTS['schema.Limit']), described(limit, LIMIT_TEXTS, say)),
  }
}

/** The schemas of statistics (contract F4); `totals` are without cube and cities. */
function statsSchemas(part: 'full' | 'totals', provider: string, say: Say) {
  const texts = { type: 'array', items: TEXT }
  const services = SERVICES.map(service => (service === 'provider' ? provider : service))
  const dimensions = { type: texts, anon: texts, country: texts, age: COUNTS, services: texts }
  const columns = ['type', 'anon', 'country', 'age', 'count', ...services]
  const city = { city: TEXT, city_en: TEXT, country: TEXT, count: COUNT }
  const dimensionTexts = Object.fromEntries(
    Object.entries(STATS_TEXTS).map(([name, text]) => [name.replace('dimensions.', ''), text]),
  )
  const ofServices = Object.fromEntries(services.map(name => [name, CUBE_TEXTS.service]))
  const cube = whole(
    say(STATS_TEXTS.cube),
    described(
      Object.fromEntries(columns.map(name => [name, COUNTS])),
      { ...CUBE_TEXTS, ...ofServices },
      say,
    ),
  )
  const cities = { type: 'array', items: whole(say(DOCUMENT_TEXTS['schema.City']), city) }
  const histogram = refTo('Histogram')
  const members = {
    version: TEXT,
    at: COUNT,
    total: COUNT,
    hidden: COUNT,
    dimensions: whole(say(STATS_TEXTS.dimensions), described(dimensions, dimensionTexts, say)),
    ...(part === 'full' && { cube }),
    histograms: whole(say(STATS_TEXTS.histograms), {
      ping: histogram,
      speed: histogram,
      works: histogram,
    }),
    ...(part === 'full' && { cities }),
  }
  return {
    Stats: whole(say(DOCUMENT_TEXTS['schema.Stats']), described(members, STATS_TEXTS, say)),
    Histogram: whole(
      say(DOCUMENT_TEXTS['schema.Histogram']),
      described({ edges: NUMBERS, counts: COUNTS }, HISTOGRAM_TEXTS, say),
    ),
  }
}

export type StatsPart = 'full' | 'totals' | 'off'

/** All schemas of the document. */
export function schemas(
  provider: string,
  errors: 'json' | 'text',
  stats: StatsPart,
  say: Say,
): { [name: string]: Schema } {
  return {
    Proxy: proxySchema(provider, say),
    ByAddress: {
      description: say(DOCUMENT_TEXTS['schema.ByAddress']),
      type: 'object',
      propertyNames: { pattern: `^${IPV4}:[0-9]{1,5}$` },
      additionalProperties: refTo('Proxy'),
    },
    Envelope: envelopeSchema(say),
    ...keySchemas(say),
    ...(stats === 'off' ? {} : statsSchemas(stats, provider, say)),
    ErrorCode: errorCodeSchema(say),
    Error: errors === 'json' ? errorSchema(say) : { type: 'string', pattern: '^Error: ' },
  }
}
