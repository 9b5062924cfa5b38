/** Owns the responses of each path in the OpenAPI document: statuses, header fields, bodies, examples. */
import { type ErrorCode, STATUS } from '../errors.ts'
import { OUTPUT_KINDS } from '../render.ts'
import {
  answerExamples,
  DEMO_EXAMPLE,
  ERROR_EXAMPLES,
  EXAMPLE_TIME,
  KEY_EXAMPLE,
  type STATS_EXAMPLE,
} from './examples.ts'
import type { Say } from './parameters.ts'
import { type Example, type Header, type Response, refTo, type Schema } from './schema.ts'
import { DOCUMENT_TEXTS } from './texts/document.ts'
import { ERROR_TEXTS } from './texts/errors.ts'
import { HEADER_TEXTS } from './texts/members.ts'
import { FORM_TEXTS } from './texts/parameters.ts'

type Headers = { readonly [name: string]: Header }
type Statuses = { readonly [status: string]: Response }
type HeaderName = keyof typeof HEADER_TEXTS

/** The types of the forms of `get`, without their parameters. */
export const FORM_TYPES = {
  txt: 'text/plain',
  json: 'application/json',
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
} as const satisfies { [form in (typeof OUTPUT_KINDS)[number]]: string }

const HEADER_SCHEMAS: { readonly [name in HeaderName]: Schema } = {
  'X-Request-Id': { type: 'string' },
  'RateLimit-Policy': { type: 'string' },
  RateLimit: { type: 'string' },
  'Retry-After': { type: 'integer', minimum: 1 },
  'Content-Disposition': { type: 'string' },
  ETag: { type: 'string' },
  Allow: { type: 'string' },
}

/** The header fields of all responses, by name. */
export const headerComponents = (say: Say) =>
  Object.fromEntries(
    Object.entries(HEADER_TEXTS).map(([name, text]) => [
      name,
      { description: say(text), schema: HEADER_SCHEMAS[name as HeaderName] }, // its own names
    ]),
  )

const headers = (...names: HeaderName[]): Headers =>
  Object.fromEntries(
    (['X-Request-Id', ...names] as const).map(name => [
      name,
      { $ref: `#/components/headers/${name}` },
    ]),
  )
const LIMITS = ['RateLimit-Policy', 'RateLimit'] as const

/** The codes of a refusal before the key is known, and of failures, which any path may have. */
const OF_KEY: readonly ErrorCode[] = [
  'KEY_MISSING',
  'INVALID_PARAMETER',
  'INVALID_KEY',
  'TEMP_KEY_INVALID',
]
const OF_SERVICE: readonly ErrorCode[] = [
  'METHOD_NOT_ALLOWED',
  'INTERNAL_ERROR',
  'DB_EXECUTE_FAILED',
]
const OF_LIMITS: readonly ErrorCode[] = [
  'RATE_LIMIT_EXCEEDED',
  'DAILY_LIMIT_REACHED',
  'SUBNET_LIMIT_REACHED',
  'DEMO_LIMIT_REACHED',
  'TEMP_LIMIT_REACHED',
]

const HEADERS_OF: { readonly [status: string]: readonly HeaderName[] } = {
  400: LIMITS,
  404: LIMITS,
  405: ['Allow'],
  429: [...LIMITS, 'Retry-After'],
  503: ['Retry-After'],
}

/** What an error says where it differs from that of /api. */
type Messages = { readonly [code in ErrorCode]?: string }

/** How this server writes errors, and in which language the document is. */
export type ErrorForm = { errors: 'json' | 'text'; say: Say }

function errorExample(code: ErrorCode, form: ErrorForm, messages: Messages): Example {
  const { message: usual, ...context } = ERROR_EXAMPLES[code]
  const message = messages[code] ?? usual
  const value =
    form.errors === 'text'
      ? `Error: ${message}`
      : { status: 'error', code, message, timestamp: EXAMPLE_TIME, ...context }
  return { summary: code, value }
}

/** The response of a status for these codes. */
function errorResponse(codes: readonly ErrorCode[], form: ErrorForm, messages: Messages): Response {
  const { errors, say } = form
  const [first = 'INTERNAL_ERROR'] = codes
  const narrowed = { allOf: [refTo('Error'), { properties: { code: { enum: codes } } }] }
  const examples = codes.map(code => [code, errorExample(code, form, messages)])
  return {
    description: codes.map(code => `${code}: ${say(ERROR_TEXTS[code])}`).join('\n\n'),
    headers: headers(...(HEADERS_OF[STATUS[first]] ?? [])),
    content: {
      [errors === 'json' ? 'application/json' : 'text/plain']: {
        schema: errors === 'json' ? narrowed : refTo('Error'),
        examples: Object.fromEntries(examples),
      },
    },
  }
}

/** The responses for these codes, by status. */
function errorResponses(
  codes: readonly ErrorCode[],
  form: ErrorForm,
  messages: Messages = {},
): Statuses {
  const byStatus = Map.groupBy(codes, code => STATUS[code])
  return Object.fromEntries(
    [...byStatus].map(([status, its]) => [status, errorResponse(its, form, messages)]),
  )
}

/** The responses of /api. */
export function apiResponses(provider: string, form: ErrorForm): Statuses {
  const { say } = form
  const examples = answerExamples(provider)
  const array: Schema = { type: 'array', items: refTo('Proxy') }
  const json: Schema = { oneOf: [array, refTo('ByAddress'), refTo('Envelope')] }
  const content = OUTPUT_KINDS.map(kind => {
    const description = say(FORM_TEXTS[kind])
    const schema = kind === 'json' ? { description, ...json } : { description, type: 'string' }
    return [FORM_TYPES[kind], { schema, examples: examples[kind] }]
  })
  return {
    200: {
      description: say(DOCUMENT_TEXTS['api.ok']),
      headers: headers(...LIMITS, 'Content-Disposition'),
      content: Object.fromEntries(content),
    },
    ...errorResponses([...OF_KEY, 'PROXIES_NOT_FOUND', ...OF_LIMITS, ...OF_SERVICE], form),
  }
}

const IN_HEADER = 'send the key in the header Authorization: Bearer KEY'

/** The responses of /key. */
export function keyResponses(form: ErrorForm): Statuses {
  const examples = {
    regular: { summary: 'plan standard', value: KEY_EXAMPLE },
    demo: { summary: 'demo', value: DEMO_EXAMPLE },
  }
  return {
    200: {
      description: form.say(DOCUMENT_TEXTS['key.ok']),
      headers: headers(...LIMITS),
      content: { 'application/json': { schema: refTo('Key'), examples } },
    },
    ...errorResponses([...OF_KEY, ...OF_SERVICE], form, {
      KEY_MISSING: `key is required: ${IN_HEADER}`,
      INVALID_PARAMETER: `a key in the URL ends up in logs: ${IN_HEADER}`,
    }),
  }
}

/** The responses of /stats; `value` is the example. */
export function statsResponses(value: ReturnType<typeof STATS_EXAMPLE>, form: ErrorForm): Statuses {
  const { say } = form
  const examples = { stats: { summary: 'statistics', value } }
  return {
    200: {
      description: say(DOCUMENT_TEXTS['stats.ok']),
      headers: headers('ETag'),
      content: { 'application/json': { schema: refTo('Stats'), examples } },
    },
    304: { description: say(DOCUMENT_TEXTS['stats.same']), headers: headers('ETag') },
    ...errorResponses(OF_SERVICE, form),
  }
}

/** The responses of /healthz and /readyz. */
export function stateResponses(name: 'health' | 'ready', form: ErrorForm): Statuses {
  const value = name === 'health' ? 'ok\n' : 'ready\n'
  const text = { schema: { const: value }, examples: { [name]: { summary: name, value } } }
  return {
    200: {
      description: form.say(DOCUMENT_TEXTS[`${name}.ok`]),
      headers: headers(),
      content: { 'text/plain': text },
    },
    ...errorResponses(name === 'health' ? ['METHOD_NOT_ALLOWED'] : OF_SERVICE, form),
  }
}
